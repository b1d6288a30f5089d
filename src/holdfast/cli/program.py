"""`holdfast run`: an unchanged PySpark program whose sessions are attached."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from holdfast.api.attached_program import sessions_attached
from holdfast.config import IMPLICIT_CACHE_ENABLED, check_values
from holdfast.errors import ConfigurationError

_FAILED = 1
_BAD_INPUT = 2
_INTERRUPTED = 130
_NOT_THE_PROGRAMS = ("<frozen runpy>", runpy.__file__, __file__)


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "run",
        help="run an unchanged PySpark program",
        description="Runs a PySpark program as `python` does, with every session that it creates "
        "attached: what it caches is kept by Holdfast, and what is kept is read. Options for "
        "Holdfast go before the program; what follows the program is the program's.",
    )
    command.add_argument(
        "--config",
        "-c",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a configuration value, as in the README's table; may be repeated",
    )
    command.add_argument(
        "--implicit",
        action="store_true",
        help=f"reuse shuffles and broadcasts of earlier queries: {IMPLICIT_CACHE_ENABLED.key}=true",
    )
    command.add_argument(
        "-m", dest="is_module", action="store_true", help="PROGRAM is the name of a module"
    )
    command.add_argument("program", metavar="PROGRAM", help="a Python file")
    command.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="the program's arguments"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the program.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0; 1 after an error of the program's, which is shown as Python shows it;
        2 where there is no such program, or the configuration is wrong, which one line says; 130
        after Ctrl-C.

    Raises:
        SystemExit: the program's own.
    """
    program = arguments.program
    if not arguments.is_module and not Path(program).exists():
        return _rejected(f"there is no program {program}")
    config = {IMPLICIT_CACHE_ENABLED.key: "true"} if arguments.implicit else {}
    config |= dict(arguments.config)
    try:
        check_values(config)
    except ConfigurationError as error:
        return _rejected(error)
    sys.argv = [program, *arguments.arguments]
    sys.path[0] = os.getcwd() if arguments.is_module else str(Path(program).resolve().parent)
    with sessions_attached(config) as attached:
        try:
            if arguments.is_module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
        except Exception as error:
            if error is attached.error:
                return _rejected(error)
            _show(error)
            return _FAILED
        except KeyboardInterrupt as error:
            _show(error)
            return _INTERRUPTED
    if not attached:
        print(
            "holdfast run: nothing was kept or read, because the program created no session of "
            "its own (Spark Connect's can't be attached)",
            file=sys.stderr,
        )
    return 0


def _rejected(why: object) -> int:
    print(f"holdfast run: {why}", file=sys.stderr)
    return _BAD_INPUT


def _setting(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{given!r} is not KEY=VALUE")
    return key, value


def _show(error: BaseException) -> None:
    """Shows an error as Python does, from the program's first line."""
    error = error.with_traceback(_program_frames(error.__traceback__))
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.excepthook(type(error), error, error.__traceback__)


def _program_frames(traceback: TracebackType | None) -> TracebackType | None:
    """What is above the program's first line is not the program's business."""
    while traceback and traceback.tb_frame.f_code.co_filename in _NOT_THE_PROGRAMS:
        traceback = traceback.tb_next
    return traceback
