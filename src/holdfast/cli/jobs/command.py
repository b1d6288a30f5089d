"""`holdfast jobs`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from holdfast.cli.datasets.printable import printable
from holdfast.cli.jobs import as_json, as_table
from holdfast.cli.terminal import output, printing
from holdfast.config import HIGH_AVAILABILITY_STORAGE_DIR
from holdfast.files.local_path import local_path
from holdfast.highavailability.job_listing import known_jobs

STORAGE_DIR_VARIABLE = "HOLDFAST_STORAGE_DIR"
_BAD_INPUT = 2


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "jobs",
        help="show running, recoverable and ended jobs",
        description="Shows the jobs recorded for recovery and their progress.",
    )
    command.add_argument(
        "--storage-dir",
        metavar="DIR",
        help=f"the environments' `{HIGH_AVAILABILITY_STORAGE_DIR.key}` "
        f"(default: ${STORAGE_DIR_VARIABLE})",
    )
    command.add_argument(
        "--json", action="store_true", help="print a list of objects instead of a table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0, or 2 for a directory that isn't there, can't be read, or isn't given.
    """

    def show() -> int:
        try:
            _show(jobs_root(arguments.storage_dir, os.environ), arguments.json)
        except ValueError as error:
            print(f"holdfast jobs: {error}", file=sys.stderr)
            return _BAD_INPUT
        return 0

    return printing(show)


def _show(root: Path, as_objects: bool) -> None:
    try:
        jobs = known_jobs(root)
    except FileNotFoundError:
        raise ValueError(f"{root}: no such directory") from None
    except OSError as error:
        raise ValueError(f"{root}: can't be listed: {error.strerror}") from error
    now = datetime.now(timezone.utc)
    if as_objects:
        print(json.dumps([as_json.listed(job, now) for job in jobs], indent=2))
    elif jobs:
        as_table.show_jobs(output(), jobs, now, root)
    else:
        print(printable(f"No jobs are recorded in {root}."))


def jobs_root(given: str | None, environment: Mapping[str, str]) -> Path:
    """The storage directory of jobs.

    Args:
        given: `--storage-dir`; None where the environment's is taken.
        environment: the environment's variables.

    Raises:
        ValueError: when that isn't said, or isn't a directory of this machine.
    """
    named = f"--storage-dir {given!r}" if given is not None else f"${STORAGE_DIR_VARIABLE}"
    uri = environment.get(STORAGE_DIR_VARIABLE) if given is None else given
    if uri is None:
        raise ValueError(
            f"set --storage-dir DIR or ${STORAGE_DIR_VARIABLE} to the environments' "
            f"`{HIGH_AVAILABILITY_STORAGE_DIR.key}`"
        )
    try:
        return local_path(uri)
    except ValueError:
        expected = HIGH_AVAILABILITY_STORAGE_DIR.expected
        raise ValueError(f"{named}: expected {expected}; found {uri!r}") from None
