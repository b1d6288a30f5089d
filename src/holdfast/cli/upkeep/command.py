"""`holdfast gc`, `holdfast verify` and `holdfast catalog rebuild`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.cli.amounts import size
from holdfast.cli.catalog_access import catalog_in
from holdfast.cli.datasets.errors import BadInputError, DataSetsError
from holdfast.cli.datasets.printable import printable
from holdfast.cli.place_arguments import add_catalog_url, add_directory
from holdfast.cli.task_executors import (
    add_executor_arguments,
    ask_at_once,
    given_executors,
    refuse_without_executors,
    remote_executors,
)
from holdfast.cli.upkeep.executor_rebuilding import rebuild_from_executors
from holdfast.cli.upkeep.garbage import find_garbage
from holdfast.cli.upkeep.held_parts import held_by
from holdfast.cli.upkeep.rebuilding import Rebuilt, rebuild
from holdfast.cli.upkeep.verification import verify
from holdfast.config import CATALOG_URL, INTERMEDIATE_RESULT_DIRECTORY
from holdfast.errors import CatalogError

_FAILED = 1
_INTERRUPTED = 130


def add_to(commands: Any) -> None:
    """Adds the commands and their arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    for name, (_, text, description) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=description)
        if name == "catalog":
            command.add_argument("action", choices=("rebuild",), help="what to do with it")
        if name == "gc":
            command.add_argument(
                "--yes", action="store_true", help="remove it; without this it is only shown"
            )
        where = command.add_mutually_exclusive_group()
        add_directory(where)
        if name in _ON_EXECUTORS:
            add_executor_arguments(command, where)
        if name == "catalog":
            add_catalog_url(
                command,
                "the catalog that the task executors hold results for",
                "; it is made where there is none",
            )


def run(arguments: argparse.Namespace) -> int:
    """Runs one of the commands.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0, 1 where something is wrong or could not be done, 2 for bad input.
    """
    given: Path | None = arguments.directory
    root = (given or Path(INTERMEDIATE_RESULT_DIRECTORY.default())).absolute()
    try:
        if getattr(arguments, "executors", None) is not None:
            return _ON_EXECUTORS[arguments.command](arguments)
        refuse_without_executors(arguments)
        if not root.is_dir():
            if given is None:
                print(printable(f"Nothing is kept in {root}."))
                return 0
            raise BadInputError(f"{root}: no such directory")
        return _COMMANDS[arguments.command][0](arguments, root)
    except DataSetsError as error:
        _complain(arguments, str(error))
        return error.exit_code
    except (CatalogError, OSError) as error:
        _complain(arguments, str(error))
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED


def _collect(arguments: argparse.Namespace, root: Path) -> int:
    code, total = 0, 0
    with catalog_in(root) as catalog:
        found = list(find_garbage(root, catalog))
        for each in found:
            names = ", ".join(map(str, each.paths))
            if arguments.yes:
                if catalog is not None and each.result is not None:
                    catalog.holders.withdraw(each.why, numbers=[each.result.number])
                if not each.remove():
                    _complain(arguments, f"{names}: can't be removed; check its owner")
                    code = _FAILED
                    continue
                if catalog is not None and each.result is not None:
                    catalog.holders.removed([each.result.number])
            total += each.bytes
            print(printable(f"{size(each.bytes)}  {names}: {each.why}"))
    if not found:
        print(printable(f"There is no garbage in {root}."))
    elif arguments.yes:
        print(f"Removed {size(total)}.")
    else:
        print(f"{size(total)} can be removed: run `holdfast gc --yes`.")
    return code


def _verify(arguments: argparse.Namespace, root: Path) -> int:
    number, damaged = 0, 0
    for each in verify(root):
        number += 1
        if each.damage is not None:
            damaged += 1
            print(printable(f"{each.directory}: {each.damage}"))
    print(printable(f"{number} datasets in {root}, {damaged} of them damaged."))
    return _FAILED if damaged else 0


def _verify_held(arguments: argparse.Namespace) -> int:
    executors = remote_executors(*given_executors(arguments))
    answers, failures = ask_at_once(executors, dict.fromkeys(executors, held_by))
    parts = [part for held in dict(answers.values()).values() for part in held]
    damaged = [part for part in parts if part.damage is not None]
    for part in damaged:
        report = part.report
        print(printable(f"{report.output.name} on {report.host}: {part.damage}"))
    for failure in failures.values():
        _complain(arguments, failure)
    number, wrong = (len({each.report.output for each in some}) for some in (parts, damaged))
    where = f"task executors {', '.join(answers) or '(none responded)'}"
    print(printable(f"{number} shared results on {where}, {wrong} of them damaged."))
    return _FAILED if damaged or failures else 0


def _catalog(arguments: argparse.Namespace, root: Path) -> int:
    with catalog_in(root, make=True) as catalog:
        assert catalog is not None
        found = rebuild(root, catalog)
    _show_rebuilt(found, str(root))
    return 0


def _catalog_of_executors(arguments: argparse.Namespace) -> int:
    if arguments.catalog_url is None:
        raise BadInputError(
            f"--executors requires --catalog-url, the programs' `{CATALOG_URL.key}`"
        )
    executors = remote_executors(*given_executors(arguments))
    found, untold = rebuild_from_executors(executors, arguments.catalog_url)
    _show_rebuilt(found, f"task executors {', '.join(executors)}")
    for each in untold:
        _complain(arguments, f"what it holds isn't held for this catalog yet: {each}")
    return _FAILED if untold else 0


def _show_rebuilt(found: Sequence[Rebuilt], where: str) -> None:
    for each in found:
        what = "recorded" if each.why_not is None else f"not recorded: {each.why_not}"
        computes = f" ({each.computes})" if each.computes else ""
        print(printable(f"{each.name}{computes}: {what}"))
    recorded = sum(each.why_not is None for each in found)
    print(printable(f"{recorded} of {len(found)} shared results in {where} were recorded."))


def _complain(arguments: argparse.Namespace, what: str) -> None:
    print(printable(f"holdfast {arguments.command}: {what}"), file=sys.stderr)


_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace, Path], int], str, str]] = {
    "gc": (
        _collect,
        "show, or remove, what crashes have left",
        "Shows what lies in a storage directory and nobody holds: directories of programs that "
        "have ended, and results whose lifetime is over or that no catalog records.",
    ),
    "verify": (
        _verify,
        "check every file of kept results",
        "Compares every file of kept results with the manifest that it was published with: size, "
        "time and footer, and the whole content of what outlives its program. Task executors "
        "compare all but the content of what they hold for the catalog.",
    ),
    "catalog": (
        _catalog,
        "rebuild the catalog from what lies on disk",
        "Records the shared results of a storage directory, or of task executors, that their "
        "catalog has lost.",
    ),
}

_ON_EXECUTORS: dict[str, Callable[[argparse.Namespace], int]] = {
    "verify": _verify_held,
    "catalog": _catalog_of_executors,
}
