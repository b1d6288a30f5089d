"""The `holdfast` command."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import holdfast
from holdfast.cli.datasets.command import (
    DATASET_COMMANDS,
    add_dataset_commands,
    run_dataset_command,
)
from holdfast.cli.demo.command import DemoOptions, run_demo
from holdfast.cli.demo.errors import DemoError
from holdfast.cli.jobs.command import add_jobs_command, run_jobs_command
from holdfast.cli.path_argument import path_argument
from holdfast.cli.taskexecutor import add_taskexecutor_command, run_taskexecutor

_INTERRUPTED = 130


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
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.error("nothing to do: try `holdfast demo` or `holdfast --help`")
    if arguments.command == "taskexecutor":
        return run_taskexecutor(arguments)
    if arguments.command in DATASET_COMMANDS:
        return run_dataset_command(arguments)
    if arguments.command == "jobs":
        return run_jobs_command(arguments)
    options = DemoOptions(
        scale=arguments.scale,
        data=arguments.data,
        output=arguments.output.absolute(),
        cluster=arguments.cluster,
    )
    try:
        return run_demo(options)
    except DemoError as error:
        print(f"holdfast demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("holdfast demo: interrupted, everything is stopped", file=sys.stderr)
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast",
        description="Keeps the intermediate results of Spark jobs and finds them again.",
    )
    parser.add_argument("--version", action="version", version=f"holdfast {holdfast.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="an analyst's session on plain Spark and with cache(), side by side",
        description="Plays an analyst's session first on plain Spark and then with cache(), "
        "compares answers and times, and shows what becomes of a lost partition, and of the job "
        "of a driver that is killed.",
    )
    data = demo.add_mutually_exclusive_group()
    data.add_argument(
        "--scale",
        type=_scale,
        default=1.0,
        help="scale of the TPC-H data to generate, roughly in GB (default: 1)",
    )
    data.add_argument(
        "--data",
        type=path_argument,
        metavar="DIR",
        help="a folder of your own Parquet files, or of TPC-H tables, instead of generated data",
    )
    demo.add_argument(
        "--output",
        type=path_argument,
        metavar="DIR",
        default=Path("holdfast-demo"),
        help="where data, kept results and the chart go (default: ./holdfast-demo)",
    )
    demo.add_argument(
        "--cluster",
        action="store_true",
        help="play on a Spark cluster of two nodes, started here, and lose a task executor",
    )
    add_taskexecutor_command(commands)
    add_dataset_commands(commands)
    add_jobs_command(commands)
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
