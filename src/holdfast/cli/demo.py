"""`holdfast demo`: plays the tour of the examples."""

from __future__ import annotations

import argparse
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from holdfast.cli.number_argument import number_argument
from holdfast.cli.path_argument import path_argument

_INTERRUPTED = 130
# In a checkout, and in an installed package.
_PLACES = (Path(__file__).parents[3] / "examples", Path(__file__).parents[1] / "examples")


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    demo = commands.add_parser(
        "demo",
        help="a tour: an analyst's questions, a lost partition, a second program, a killed driver",
        description="Asks an analyst's questions on plain Spark and with cache(), loses a kept "
        "partition, has a second program read what the first one has kept, and kills the driver of "
        "a job that goes on; compares each answer with plain Spark's.",
    )
    demo.add_argument(
        "--rows", type=number_argument, metavar="N", help="how many rows the largest table has"
    )
    demo.add_argument(
        "--output",
        type=path_argument,
        metavar="DIR",
        default=Path("holdfast-demo"),
        help="where to store data, kept results and the picture (default: ./holdfast-demo)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0 when all answers agree, 1 where something failed, 130 after Ctrl-C.
    """
    if find_spec("matplotlib") is None:
        print(
            "holdfast demo: matplotlib, which draws its picture, is not installed; install it with "
            "`pip install 'holdfast[demo]'`",
            file=sys.stderr,
        )
        return 1
    given = ["--output", str(arguments.output.absolute())]
    if arguments.rows is not None:
        given += ["--rows", str(arguments.rows)]
    tour = next(place / "tour.py" for place in _PLACES if (place / "tour.py").is_file())
    try:
        return int(runpy.run_path(str(tour), run_name="tour")["main"](given))
    except KeyboardInterrupt:
        print("holdfast demo: interrupted, all processes were stopped", file=sys.stderr)
        return _INTERRUPTED
