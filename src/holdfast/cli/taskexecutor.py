"""`holdfast taskexecutor`: keeps partitions beside a node's Spark worker."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from holdfast.cli.catalog_url_argument import catalog_url_argument
from holdfast.cli.path_argument import path_argument
from holdfast.cli.port_argument import port_argument
from holdfast.errors import StorageError
from holdfast.taskexecutor.server import ServerOptions, serve
from holdfast.taskexecutor.task_executor import GRACE_SECONDS

_BAD_INPUT = 2
_INTERRUPTED = 130
_CATALOG_SECONDS = 60.0


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "taskexecutor",
        help="keep partitions on this machine for environments on other machines",
        description="Keeps the partitions that Spark's tasks write on this machine, and serves "
        "them to Spark. Run one per worker node, with the same --dir everywhere.",
    )
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    start = actions.add_parser(
        "start",
        help="run a task executor until SIGTERM or Ctrl-C",
        description="Runs a task executor. It prints its address once it is ready. Its partitions "
        "stay in DIR when it stops, and are served by the next one started there.",
    )
    start.add_argument(
        "--dir", type=path_argument, metavar="DIR", required=True, help="where partitions are kept"
    )
    start.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on (default: 127.0.0.1, this machine only)",
    )
    start.add_argument(
        "--port",
        type=port_argument,
        default=0,
        help="the port to listen on (default: 0, any free port)",
    )
    start.add_argument(
        "--public-host",
        metavar="NAME",
        help="the name under which Spark knows this machine (default: --host, or this machine's "
        "name if that is 0.0.0.0 or ::)",
    )
    start.add_argument(
        "--token-file",
        type=path_argument,
        metavar="FILE",
        help="the secret that clients must present (default: $HOLDFAST_TOKEN, or one generated "
        "in DIR/token)",
    )
    start.add_argument(
        "--lease",
        type=_seconds,
        metavar="SECONDS",
        default=60.0,
        help="how long partitions found in DIR wait for their environment (default: 60)",
    )
    start.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        default=GRACE_SECONDS,
        help="how long an orphaned directory must be idle before it is removed "
        f"(default: {GRACE_SECONDS:g})",
    )
    start.add_argument(
        "--catalog-url",
        type=catalog_url_argument,
        metavar="URL",
        help="the catalog through which programs share results, their `catalog.url`: what it "
        "holds here outlives them (default: none)",
    )
    start.add_argument(
        "--catalog-interval",
        type=_seconds,
        metavar="SECONDS",
        default=_CATALOG_SECONDS,
        help="how often the catalog is asked which results are to be held still "
        f"(default: {_CATALOG_SECONDS:g})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0 when it was told to end, 2 when it can't run.
    """
    options = ServerOptions(
        directory=arguments.dir,
        host=arguments.host,
        port=arguments.port,
        public_host=arguments.public_host,
        token_file=arguments.token_file,
        lease_seconds=arguments.lease,
        grace_seconds=arguments.grace,
        catalog_url=arguments.catalog_url,
        catalog_seconds=arguments.catalog_interval,
    )
    try:
        serve(options, lambda address: _say(options, address))
    except StorageError as error:
        print(f"holdfast taskexecutor: {error}", file=sys.stderr)
        return _BAD_INPUT
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _say(options: ServerOptions, address: str) -> None:
    print(f"task executor at {address} keeps partitions in {options.directory}", flush=True)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0; found {text!r}")
    return seconds
