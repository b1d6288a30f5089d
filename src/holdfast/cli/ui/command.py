"""`holdfast ui`."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import webbrowser
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.cli.datasets.errors import BadInputError
from holdfast.cli.datasets.printable import printable
from holdfast.cli.jobs.command import STORAGE_DIR_VARIABLE, jobs_root
from holdfast.cli.path_argument import path_argument
from holdfast.cli.place_arguments import add_catalog_url, add_directory
from holdfast.cli.port_argument import port_argument
from holdfast.cli.size_argument import size_argument
from holdfast.cli.task_executors import given_executors
from holdfast.cli.ui.place import PlaceOptions, ShownPlace
from holdfast.cli.ui.security import Security, is_loopback
from holdfast.cli.ui.server import listening, serve
from holdfast.config import (
    HIGH_AVAILABILITY_STORAGE_DIR,
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_MAX_SIZE,
)
from holdfast.errors import StorageError
from holdfast.taskexecutor.token import TOKEN_VARIABLE, given_token

_BAD_INPUT = 2
_LOOPBACK = "127.0.0.1"


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "ui",
        help="show what is kept, what it saved and what jobs recovered, as a web page",
        description="Serves a page that shows what is kept, what that has saved, and what each job "
        "has recovered, until SIGTERM or Ctrl-C.",
    )
    add_directory(command)
    add_catalog_url(command, "the catalog", " (default: that of the storage directory)")
    command.add_argument(
        "--storage-dir",
        metavar="DIR",
        help=f"where jobs are recorded, the programs' `{HIGH_AVAILABILITY_STORAGE_DIR.key}` "
        f"(default: ${STORAGE_DIR_VARIABLE}, or no jobs)",
    )
    command.add_argument(
        "--executors",
        metavar="ADDRESSES",
        help="task executors to show: a comma-separated list of HOST:PORT",
    )
    command.add_argument(
        "--token-file",
        type=path_argument,
        metavar="FILE",
        help="the secret of the task executors, and of the page where others reach it "
        f"(default: ${TOKEN_VARIABLE})",
    )
    command.add_argument(
        "--max-size",
        type=size_argument,
        metavar="SIZE",
        help=f"how much may be kept, the programs' `{INTERMEDIATE_RESULT_MAX_SIZE.key}` "
        "(default: what is free on the disk)",
    )
    command.add_argument(
        "--host",
        default=_LOOPBACK,
        help="the address to listen on (default: 127.0.0.1, this machine only; any other one "
        "requires a token)",
    )
    command.add_argument(
        "--port", type=port_argument, default=0, help="the port (default: 0, any free port)"
    )
    command.add_argument(
        "--log-in", action="store_true", help="require the token on this machine, too"
    )
    command.add_argument(
        "--read-only", action="store_true", help="leave out what pins, releases and verifies"
    )
    # A program that has started it, and is killed, closes its end.
    command.add_argument("--until-end-of-input", action="store_true", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0 when it was told to end, 2 when it can't run.
    """
    try:
        token = given_token(arguments.token_file, os.environ)
        place = ShownPlace(_place(arguments, token))
        needs_token = arguments.log_in or not is_loopback(arguments.host)
        if needs_token and token is None:
            raise BadInputError(
                f"--host {arguments.host} requires a token, as others reach it: set it by "
                f"--token-file or ${TOKEN_VARIABLE}"
                if not arguments.log_in
                else f"--log-in requires a token: set it by --token-file or ${TOKEN_VARIABLE}"
            )
        on = listening(arguments.host, arguments.port)
    except (BadInputError, StorageError) as error:
        return _refuse(str(error))
    except OSError as error:
        why = error.strerror or str(error)
        return _refuse(f"can't listen on {arguments.host}:{arguments.port}: {why}")
    security = Security(
        arguments.host, token if needs_token else None, is_read_only=arguments.read_only
    )
    with suppress(KeyboardInterrupt):
        end = sys.stdin if arguments.until_end_of_input else None
        serve(place, security, on, partial(_say, place, on), end)
    return 0


def show_page(directory: Path) -> None:
    """Shows what is kept in a directory to this machine, in its browser, until Ctrl-C.

    Args:
        directory: a storage directory.
    """
    place = ShownPlace(PlaceOptions(directory))
    on = listening(_LOOPBACK, 0)

    def opened() -> None:
        webbrowser.open(_say(place, on))

    with suppress(KeyboardInterrupt):
        serve(place, Security(_LOOPBACK, None), on, opened)


def _say(place: ShownPlace, on: socket.socket) -> str:
    """Says where the page is; returns its URL."""
    host, port = on.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    print(printable(f"Holdfast shows {place.name} at {url}"), flush=True)
    return url


def _place(arguments: argparse.Namespace, token: str | None) -> PlaceOptions:
    """What is to be shown.

    Raises:
        BadInputError: when that can't be.
    """
    directory: Path = arguments.directory or Path(INTERMEDIATE_RESULT_DIRECTORY.default())
    if arguments.directory is not None and not directory.is_dir():
        raise BadInputError(f"{directory}: no such directory")
    executors = given_executors(arguments)[0] if arguments.executors is not None else ()
    jobs = None
    if arguments.storage_dir is not None or STORAGE_DIR_VARIABLE in os.environ:
        try:
            jobs = jobs_root(arguments.storage_dir, os.environ)
        except ValueError as error:
            raise BadInputError(str(error)) from error
    return PlaceOptions(
        directory.absolute(),
        arguments.catalog_url,
        jobs,
        executors,
        token,
        arguments.max_size,
    )


def _refuse(why: str) -> int:
    print(printable(f"holdfast ui: {why}"), file=sys.stderr)
    return _BAD_INPUT
