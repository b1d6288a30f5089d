"""Serves the page until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from aiohttp import web

from holdfast.cli.ui.application import application
from holdfast.cli.ui.place import ShownPlace
from holdfast.cli.ui.security import Security

_BACKLOG = 128
_SHUTDOWN_SECONDS = 1.0


def listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections.

    Args:
        host: the address.
        port: where; 0 for any that is free.

    Raises:
        OSError: when it can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def serve(
    place: ShownPlace,
    security: Security,
    on: socket.socket,
    started: Callable[[], object] = lambda: None,
    until_end_of: TextIO | None = None,
) -> None:
    """Serves the page until SIGTERM or SIGINT.

    Args:
        place: what it shows; closed at the end.
        security: who may see it.
        on: where; closed at the end.
        started: called once it answers.
        until_end_of: what is read to its end, when it is served no longer; None for nothing.
    """
    with on, suppress(asyncio.CancelledError):
        asyncio.run(_serve(place, security, on, started, until_end_of))


async def _serve(
    place: ShownPlace,
    security: Security,
    on: socket.socket,
    started: Callable[[], object],
    until_end_of: TextIO | None,
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    runner = web.AppRunner(
        application(place, security), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, on).start()
        started()
        if until_end_of is not None:
            threading.Thread(
                target=_read_to_end,
                args=(until_end_of, lambda: loop.call_soon_threadsafe(stopping.set)),
                daemon=True,
            ).start()
        await stopping.wait()
    finally:
        await runner.cleanup()


def _read_to_end(text: TextIO, ended: Callable[[], object]) -> None:
    while text.read(1024):
        pass
    # The loop may be closed by now.
    with suppress(RuntimeError):
        ended()
