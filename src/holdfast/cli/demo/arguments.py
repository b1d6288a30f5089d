"""`holdfast demo`: its arguments."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from holdfast.cli.demo.command import DemoOptions, run_demo
from holdfast.cli.demo.errors import DemoError
from holdfast.cli.demo.place import kept_in
from holdfast.cli.path_argument import path_argument
from holdfast.cli.ui.command import show_page

_INTERRUPTED = 130


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    demo = commands.add_parser(
        "demo",
        help="an analyst's session on plain Spark and with cache(), side by side",
        description="Plays an analyst's session first on plain Spark and then with cache(), "
        "compares answers and times, has a second program read what the first one has kept, and "
        "shows recovery from a lost partition and from a killed driver.",
    )
    data = demo.add_mutually_exclusive_group()
    data.add_argument(
        "--scale",
        type=_scale,
        default=0.1,
        help="scale of the TPC-H data to generate, roughly in GB (default: 0.1)",
    )
    data.add_argument(
        "--data",
        type=path_argument,
        metavar="DIR",
        help="a folder of your own Parquet files or TPC-H tables, instead of generated data",
    )
    demo.add_argument(
        "--output",
        type=path_argument,
        metavar="DIR",
        default=Path("holdfast-demo"),
        help="where to store data, kept results and the chart (default: ./holdfast-demo)",
    )
    demo.add_argument(
        "--cluster",
        action="store_true",
        help="run on a local Spark cluster of two nodes, and lose a task executor",
    )
    demo.add_argument(
        "--ui",
        action="store_true",
        help="at the end, open a page that shows what was kept, until Ctrl-C",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0 when all answers agree, 1 where something failed, 2 for bad input, 130
        after Ctrl-C.
    """
    options = DemoOptions(
        scale=arguments.scale,
        data=arguments.data,
        output=arguments.output.absolute(),
        cluster=arguments.cluster,
    )
    try:
        code = run_demo(options)
        if arguments.ui and not options.cluster:
            show_page(kept_in(options.output))
        return code
    except DemoError as error:
        print(f"holdfast demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("holdfast demo: interrupted, all processes were stopped", file=sys.stderr)
        return _INTERRUPTED


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise argparse.ArgumentTypeError(
            f"expected a number above 0, such as 0.01, 1 or 10; found {text!r}"
        )
    return scale
