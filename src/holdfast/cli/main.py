"""The `holdfast` command."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.version import __version__

_MODULES = {
    "run": "holdfast.cli.program",
    "demo": "holdfast.cli.demo",
    "taskexecutor": "holdfast.cli.taskexecutor",
    "ls": "holdfast.cli.datasets.command",
    "show": "holdfast.cli.datasets.command",
    "rm": "holdfast.cli.datasets.command",
    "jobs": "holdfast.cli.jobs.command",
    "advise": "holdfast.cli.advice.command",
    "why": "holdfast.cli.advice.why",
    "gc": "holdfast.cli.upkeep.command",
    "verify": "holdfast.cli.upkeep.command",
    "catalog": "holdfast.cli.upkeep.command",
    "ui": "holdfast.cli.ui.command",
}
"""Where each command is: `add_to` adds it to a parser, `run` runs it. None waits for what others
import, which takes seconds."""


def main(argv: list[str] | None = None) -> int:
    """Runs the `holdfast` command.

    Args:
        argv: the arguments after the command's name; those of this process when None.

    Returns:
        the exit code: 0, 1 where something failed, 2 for bad input, 130 after Ctrl-C.

    Raises:
        SystemExit: after `--help` and `--version`, and with code 2 for arguments that argparse
            refuses.
    """
    return prepared(argv)()


def main_of_module(argv: list[str]) -> int:
    """Runs `python -m holdfast`: a program where one is named, otherwise a command.

    Args:
        argv: a program and its arguments, or what follows `holdfast`.

    Returns:
        the exit code, as `main` does.

    Raises:
        SystemExit: as for `main`, and the program's own.
    """
    is_command = not argv or argv[0] in _MODULES or argv[0] in ("-h", "--help", "--version")
    return main(argv if is_command else ["run", *argv])


def prepared(argv: list[str] | None = None) -> Callable[[], int]:
    """Imports what a command needs, and checks its arguments.

    Args:
        argv: as for `main`.

    Returns:
        what runs it, and gives the exit code.

    Raises:
        SystemExit: as for `main`.
    """
    given = sys.argv[1:] if argv is None else argv
    parser = _parser(_named(given))
    arguments = parser.parse_args(given)
    if arguments.command is None:
        parser.error("nothing to do: try `holdfast demo` or `holdfast --help`")
    command = _module(arguments.command)
    return lambda: int(command.run(arguments))


def _named(given: list[str]) -> Iterable[str]:
    """The commands that arguments may be of."""
    if given[:1] == ["--version"]:
        return ()
    return given[:1] if given and given[0] in _MODULES else _MODULES


def _parser(names: Iterable[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Keeps the intermediate results of Spark jobs and finds them again.",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for module in dict.fromkeys(map(_module, names)):
        module.add_to(commands)
    return parser


def _module(name: str) -> Any:
    return importlib.import_module(_MODULES[name])


if __name__ == "__main__":
    sys.exit(main())
