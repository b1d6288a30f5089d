"""`holdfast advise`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.cli.advice import as_json, as_table
from holdfast.cli.advice.advice import AdviceLimits, advice_on_history
from holdfast.cli.advice.advice_on_logs import advice_on_logs
from holdfast.cli.advice.recorded_queries import add_catalog_arguments, recorded_queries
from holdfast.cli.datasets.printable import printable
from holdfast.cli.number_argument import number_argument
from holdfast.cli.path_argument import path_argument
from holdfast.cli.size_argument import size_argument
from holdfast.cli.terminal import output, printing
from holdfast.errors import CatalogError, EventLogError

_FAILED = 1
_BAD_INPUT = 2


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "advise",
        help="show what cache() would have saved past queries",
        description="Reads Spark's event logs, of programs with or without Holdfast, or what "
        "programs with the implicit cache have recorded, and shows which parts of their queries "
        "were computed several times and what caching them would have saved.",
    )
    command.add_argument(
        "logs",
        metavar="PATH",
        nargs="*",
        type=path_argument,
        help="an event log, or a directory of them: the programs' spark.eventLog.dir (default: "
        "what is recorded in the catalog)",
    )
    add_catalog_arguments(command)
    command.add_argument(
        "--budget",
        metavar="SIZE",
        type=size_argument,
        help="how much may be kept at all, such as 10gb (default: no limit)",
    )
    command.add_argument(
        "--min-saved",
        metavar="SECONDS",
        type=_seconds,
        default=1.0,
        help="leave out what saves less task time (default: 1)",
    )
    command.add_argument(
        "--limit",
        metavar="NUMBER",
        type=number_argument,
        default=20,
        help="how many parts are proposed at most (default: 20)",
    )
    command.add_argument("--json", action="store_true", help="print an object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0, 1 where a log could not be read, 2 for paths that aren't there.
    """

    def show() -> int:
        try:
            return _FAILED if _show(arguments) else 0
        except (EventLogError, CatalogError) as error:
            _complain(str(error))
            return _BAD_INPUT

    return printing(show)


def _show(arguments: argparse.Namespace) -> int:
    paths: list[Path] = arguments.logs
    limits = AdviceLimits(arguments.budget, arguments.min_saved, arguments.limit)
    if paths:
        found = advice_on_logs(paths, limits)
    else:
        found = advice_on_history(recorded_queries(arguments), limits)
    for failure in found.failures:
        _complain(failure)
    if arguments.json:
        print(json.dumps(as_json.described(found), indent=2))
    else:
        as_table.show_advice(output(), found)
    return len(found.failures)


def _complain(what: str) -> None:
    print(printable(f"holdfast advise: {what}"), file=sys.stderr)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more; found {text!r}")
