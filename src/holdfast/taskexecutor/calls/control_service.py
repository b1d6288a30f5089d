"""Takes a job master's calls."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from aiohttp import web

from holdfast.errors import (
    HoldfastError,
    MalformedRequestError,
    RequestTooLargeError,
    UnauthorizedError,
)
from holdfast.taskexecutor.calls.control_calls import CALLS, CONTROL_PREFIX, REQUEST_LIMIT
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.calls.refusals import Refusal, refusal
from holdfast.taskexecutor.token import same

_SIGNS_OF_LIFE = ("describe", "heartbeat")
_SCHEME = "Bearer "
_SHOWN = 60

logger = logging.getLogger(__name__)


class ControlService:
    """Answers requests below `/control/v1/`.

    Args:
        executor: what is called.
        token: what every call has to carry.
        quick: threads for signs of life, which must not wait for anything else.
        patient: threads for calls that may read or remove many files.
    """

    def __init__(
        self, executor: TaskExecutorGateway, token: str, quick: Executor, patient: Executor
    ) -> None:
        self._executor = executor
        self._token = token
        self._quick = quick
        self._patient = patient

    async def handle(self, request: web.Request) -> web.Response:
        """Answers one request."""
        name = request.raw_path.removeprefix(CONTROL_PREFIX)[:_SHOWN]
        try:
            self._refuse_strangers(request, name)
            call = CALLS.get(name)
            if call is None:
                raise MalformedRequestError(name, f"expected one of {', '.join(CALLS)}")
            if request.method != "POST":
                raise MalformedRequestError(name, "expected the method POST")
            body = await _body(request, name)
            threads = self._quick if name in _SIGNS_OF_LIFE else self._patient
            answer = await asyncio.get_running_loop().run_in_executor(
                threads, call.answered, self._executor, body
            )
            return web.Response(body=answer)
        except HoldfastError as error:
            status, refused = refusal(error)
            return web.Response(body=refused.model_dump_json().encode(), status=status)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:
            logger.exception("%s failed", name)
            refused = Refusal(error=type(error).__name__, args={}, message="see the executor's log")
            return web.Response(body=refused.model_dump_json().encode(), status=500)

    def _refuse_strangers(self, request: web.Request, name: str) -> None:
        given = request.headers.getall("Authorization", [])
        if len(given) != 1 or not given[0].startswith(_SCHEME):
            raise UnauthorizedError(name)
        if not same(given[0].removeprefix(_SCHEME), self._token):
            raise UnauthorizedError(name)


async def _body(request: web.Request, name: str) -> bytes:
    length = request.content_length
    if length is not None and length > REQUEST_LIMIT:
        raise RequestTooLargeError(name, REQUEST_LIMIT)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise RequestTooLargeError(name, REQUEST_LIMIT) from None
