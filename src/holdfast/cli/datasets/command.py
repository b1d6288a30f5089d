"""`holdfast ls`, `holdfast show ID` and `holdfast rm ID`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from holdfast.cli.datasets import as_json, as_table
from holdfast.cli.datasets.dataset_source import DataSetSource, Found
from holdfast.cli.datasets.directory_source import DirectorySource
from holdfast.cli.datasets.errors import DataSetsError
from holdfast.cli.datasets.executor_source import ExecutorSource
from holdfast.cli.datasets.listed_dataset import ListedDataSet
from holdfast.cli.datasets.order import ORDERS, in_order
from holdfast.cli.datasets.printable import printable
from holdfast.cli.datasets.short_ids import chosen
from holdfast.cli.place_arguments import add_catalog_url, add_directory
from holdfast.cli.task_executors import (
    add_executor_arguments,
    given_executors,
    refuse_without_executors,
)
from holdfast.cli.terminal import output, printing
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY

_FAILED = 1


def add_to(commands: Any) -> None:
    """Adds the commands and their arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    for name, (_, text, description) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=description)
        if name != "ls":
            command.add_argument(
                "id", metavar="ID", help="a dataset's id, or at least its first four digits"
            )
        where = command.add_mutually_exclusive_group()
        add_directory(where)
        add_executor_arguments(command, where)
        add_catalog_url(command, "the catalog that the task executors hold results for")
        if name == "ls":
            command.add_argument(
                "--by",
                choices=[*ORDERS],
                help="what comes first: what has saved most, is largest, or was used last",
            )
        command.add_argument(
            "--json", action="store_true", help="print a list of objects instead of a table"
        )


def run(arguments: argparse.Namespace) -> int:
    """Runs one of the commands.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0, 1 where an executor could not be asked, 2 for bad input.
    """
    # What can't be removed is told by the command itself.
    logging.getLogger("holdfast").addHandler(logging.NullHandler())
    act = _COMMANDS[arguments.command][0]

    def show() -> int:
        try:
            return _FAILED if act(arguments, _source(arguments)) else 0
        except DataSetsError as error:
            _complain(arguments, str(error))
            return error.exit_code

    return printing(show)


def _list(arguments: argparse.Namespace, source: DataSetSource) -> int:
    found = _find(arguments, source)
    datasets = in_order(found.datasets, arguments.by)
    now = datetime.now(timezone.utc)
    if arguments.json:
        _print_json([as_json.listed(dataset, now) for dataset in datasets])
    elif datasets:
        directory = None if arguments.executors is not None else source.name
        as_table.show_all(output(), datasets, now, directory)
    elif not found.failures:
        print(printable(f"Nothing is kept in {source.name}."))
    if not arguments.json:
        as_table.show_refused(output(), found.not_kept, now)
    return len(found.failures)


def _show(arguments: argparse.Namespace, source: DataSetSource) -> int:
    found = _find(arguments, source)
    dataset = _chosen(arguments, source, found)
    contents, now = source.contents(dataset), datetime.now(timezone.utc)
    if arguments.json:
        _print_json([as_json.shown(dataset, contents, now)])
    else:
        as_table.show_one(output(), dataset, contents, now)
    return len(found.failures)


def _remove(arguments: argparse.Namespace, source: DataSetSource) -> int:
    found = _find(arguments, source)
    dataset = _chosen(arguments, source, found)
    released = source.release(dataset)
    for failure in released.failures:
        _complain(arguments, failure)
    if arguments.json:
        _print_json([as_json.released(dataset, released)])
    elif released.places:
        as_table.show_released(output(), dataset, released)
    return len(found.failures) + len(released.failures)


def _find(arguments: argparse.Namespace, source: DataSetSource) -> Found:
    found = source.find()
    for failure in found.failures:
        _complain(arguments, failure)
    return found


def _chosen(arguments: argparse.Namespace, source: DataSetSource, found: Found) -> ListedDataSet:
    if not found.failures:
        return chosen(arguments.id, found.datasets, source.name)
    if not found.datasets:
        raise DataSetsError("no task executor responded")
    return chosen(arguments.id, found.datasets, f"{source.name} that responded")


def _source(arguments: argparse.Namespace) -> DataSetSource:
    if arguments.executors is None:
        refuse_without_executors(arguments)
        given: Path | None = arguments.directory
        directory = given or Path(INTERMEDIATE_RESULT_DIRECTORY.default())
        return DirectorySource(directory.absolute(), may_be_missing=given is None)
    addresses, token = given_executors(arguments)
    return ExecutorSource(addresses, token, catalog_url=arguments.catalog_url)


def _complain(arguments: argparse.Namespace, what: str) -> None:
    print(f"holdfast {arguments.command}: {what}", file=sys.stderr)


def _print_json(objects: list[dict[str, Any]]) -> None:
    print(json.dumps(objects, indent=2))


_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace, DataSetSource], int], str, str]] = {
    "ls": (
        _list,
        "list kept datasets",
        "Lists the datasets that running environments on this machine, or task executors, keep.",
    ),
    "show": (
        _show,
        "show everything about one dataset",
        "Shows a dataset's columns, its partitions and their locations.",
    ),
    "rm": (
        _remove,
        "release one dataset",
        "Releases a dataset everywhere. The next job that needs it recomputes it.",
    ),
}
