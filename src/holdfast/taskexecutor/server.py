"""A task executor as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from holdfast.errors import StorageError
from holdfast.taskexecutor.calls.control_calls import CONTROL_PREFIX, REQUEST_LIMIT
from holdfast.taskexecutor.calls.control_service import ControlService
from holdfast.taskexecutor.catalog_watch import CatalogWatch
from holdfast.taskexecutor.executor_directory import ExecutorDirectory
from holdfast.taskexecutor.reading.reading_service import ReadingService
from holdfast.taskexecutor.reading.webhdfs import WEBHDFS_PREFIX, read_root
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.taskexecutor.token import given_token, own_token

_BACKLOG = 1024
_TICK_SECONDS = 0.5
_SHUTDOWN_SECONDS = 3.0
_QUICK_THREADS = 8
_PATIENT_THREADS = 16
_ANY_ADDRESS = ("", "0.0.0.0", "::")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a task executor is to run.

    Attributes:
        directory: what it keeps partitions in.
        host: the address that it listens on.
        port: where it listens; 0 for any that is free.
        public_host: the name under which other machines reach it; None for `host`, or this
            machine's name where that is no address of its own.
        token_file: a file with the token; None for the environment's or its own.
        lease_seconds: how long applications that are found at the start have to be heard of.
        grace_seconds: how long nothing must happen in a directory that nobody knows before it is
            removed.
        catalog_url: of the catalog that it holds results for; None for no catalog.
        catalog_seconds: how often that is asked which results are to be held still.
    """

    directory: Path
    host: str
    port: int
    public_host: str | None
    token_file: Path | None
    lease_seconds: float
    grace_seconds: float
    catalog_url: str | None
    catalog_seconds: float


def serve(options: ServerOptions, started: Callable[[str], None]) -> None:
    """Runs a task executor until it is told to end by SIGTERM or SIGINT.

    What it keeps stays in its directory, for the next start.

    Args:
        options: how it is to run.
        started: called with its address once it serves.

    Raises:
        StorageError: when the directory, the token or the address can't be used.
    """
    directory = ExecutorDirectory(options.directory)
    _allow_open_files()
    try:
        given = given_token(options.token_file, os.environ)
        token = own_token(options.directory) if given is None else given
        with _listening(options) as listening:
            asyncio.run(_serve(options, directory, token, listening, started))
    finally:
        directory.close()


async def _serve(
    options: ServerOptions,
    directory: ExecutorDirectory,
    token: str,
    listening: socket.socket,
    started: Callable[[str], None],
) -> None:
    port = listening.getsockname()[1]
    host = _public_host(options)

    executor = TaskExecutor(
        options.directory,
        executor_id=directory.executor_id,
        host=host,
        read_root=lambda application: read_root(f"{host}:{port}", token, application),
        grace_seconds=options.grace_seconds,
        holds_for_catalog=options.catalog_url is not None,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    executor.adopt(options.lease_seconds)
    with (
        ThreadPoolExecutor(_QUICK_THREADS, "holdfast-quick") as quick,
        ThreadPoolExecutor(_PATIENT_THREADS, "holdfast-patient") as patient,
    ):
        reading = ReadingService(executor, options.directory, token, host, port, quick)
        control = ControlService(executor, token, quick, patient)
        runner = web.AppRunner(
            _application(reading, control),
            # Paths hold read keys, which are nobody's business.
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        await runner.setup()
        await web.SockSite(runner, listening, backlog=_BACKLOG).start()
        repeated = [asyncio.create_task(_repeatedly(executor.tick, _TICK_SECONDS))]
        if options.catalog_url is not None:
            watch = CatalogWatch(executor, options.catalog_url)
            repeated.append(asyncio.create_task(_repeatedly(watch.look, options.catalog_seconds)))
        started(f"{host}:{port}")
        await stopping.wait()
        for each in repeated:
            each.cancel()
        await asyncio.gather(*repeated, return_exceptions=True)
        await runner.cleanup()
    executor.leave()


def _application(reading: ReadingService, control: ControlService) -> web.Application:
    async def dispatch(request: web.Request) -> web.StreamResponse:
        # As it came in: a path that has been tidied up is another path.
        if request.raw_path.startswith(WEBHDFS_PREFIX):
            return await reading.handle(request)
        if request.raw_path.startswith(CONTROL_PREFIX):
            return await control.handle(request)
        return web.Response(status=404)

    application = web.Application(client_max_size=REQUEST_LIMIT)
    application.router.add_route("*", "/{path:.*}", dispatch)
    application.on_response_prepare.append(_drop_headers)
    return application


async def _drop_headers(request: web.Request, response: web.StreamResponse) -> None:
    # Spark's Hadoop client lacks the class that reads a Content-Type.
    response.headers.popall("Content-Type", None)
    response.headers.popall("Server", None)


async def _repeatedly(act: Callable[[], None], seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await asyncio.to_thread(act)
        except Exception:
            # The next one comes; an executor that forgets no lease would fill its disk.
            logger.exception("periodic maintenance failed")


def _allow_open_files() -> None:
    # Each reader takes two, and the usual limit is made for people at a terminal.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listening(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise StorageError(
            f"{options.host}:{options.port}",
            f"can't listen on this address: {error}. Stop the process that uses it, or choose "
            "another --host or --port",
        ) from error


def _public_host(options: ServerOptions) -> str:
    if options.public_host is not None:
        return options.public_host
    return socket.gethostname() if options.host in _ANY_ADDRESS else options.host
