"""A task executor that is another process, as its job master calls it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import urllib3
from pydantic import ValidationError

from holdfast.errors import HoldfastError, StorageError, TaskExecutorUnreachableError
from holdfast.taskexecutor.calls.control_calls import CALLS, ControlCall
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.calls.refusals import Refusal, restored

_ADDRESS = re.compile(r"(?:http://)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\]):(\d{1,5})/?")
_CONNECTIONS = 8
# The end of a program must not wait for one that hangs: its lease lapses all the same.
_QUICK = ("describe", "heartbeat", "unregister_application")

F = TypeVar("F", bound=Callable[..., Any])


def _call(method: F) -> F:
    """The method of a gateway, which asks another process."""
    call = CALLS[method.__name__]

    @functools.wraps(method)
    def ask(self: RemoteTaskExecutor, *args: object, **more: object) -> Any:
        return self._ask(call, call.asked(*args, **more))

    return cast(F, ask)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a job master waits for a task executor.

    Attributes:
        connect_seconds: for a connection.
        sign_of_life_seconds: for what needs no work, such as a heartbeat, and for a farewell.
        answer_seconds: for what may read or remove many files.
    """

    connect_seconds: float = 5.0
    sign_of_life_seconds: float = 10.0
    answer_seconds: float = 120.0


class RemoteTaskExecutor:
    """A TaskExecutorGateway over HTTP. Safe for use by several threads.

    Args:
        address: `HOST:PORT`, as the executor says when it starts.
        token: the executor's token.
        timeouts: how long it is waited for.

    Raises:
        StorageError: when the address is none.

    Example:
        >>> RemoteTaskExecutor("node-7:7117", "0123456789abcdef")
        RemoteTaskExecutor('node-7:7117')
    """

    def __init__(self, address: str, token: str, timeouts: Timeouts = Timeouts()) -> None:
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[2]) < 65536:
            raise StorageError(address, "expected a task executor's address as HOST:PORT")
        self.address = f"{match[1]}:{match[2]}"
        self._quick = urllib3.Timeout(timeouts.connect_seconds, timeouts.sign_of_life_seconds)
        self._patient = urllib3.Timeout(timeouts.connect_seconds, timeouts.answer_seconds)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._pool = urllib3.HTTPConnectionPool(
            match[1].strip("[]"), int(match[2]), maxsize=_CONNECTIONS, retries=False
        )

    def __repr__(self) -> str:
        return f"RemoteTaskExecutor({self.address!r})"

    describe = _call(TaskExecutorGateway.describe)
    register_application = _call(TaskExecutorGateway.register_application)
    register_recovery = _call(TaskExecutorGateway.register_recovery)
    recovered = _call(TaskExecutorGateway.recovered)
    open_shuffles = _call(TaskExecutorGateway.open_shuffles)
    heartbeat = _call(TaskExecutorGateway.heartbeat)
    unregister_application = _call(TaskExecutorGateway.unregister_application)
    register_job = _call(TaskExecutorGateway.register_job)
    open_output = _call(TaskExecutorGateway.open_output)
    finish_output = _call(TaskExecutorGateway.finish_output)
    fail_output = _call(TaskExecutorGateway.fail_output)
    link_output = _call(TaskExecutorGateway.link_output)
    promote = _call(TaskExecutorGateway.promote)
    promote_recovered = _call(TaskExecutorGateway.promote_recovered)
    hold_output = _call(TaskExecutorGateway.hold_output)
    change_catalog = _call(TaskExecutorGateway.change_catalog)
    release_outputs = _call(TaskExecutorGateway.release_outputs)
    end_job = _call(TaskExecutorGateway.end_job)
    damage = _call(TaskExecutorGateway.damage)
    report = _call(TaskExecutorGateway.report)

    def close(self) -> None:
        """Closes the connections to the executor; another call makes new ones."""
        self._pool.close()

    def _ask(self, call: ControlCall, body: bytes) -> Any:
        try:
            response = self._pool.urlopen(
                "POST",
                call.path,
                body=body,
                headers=self._headers,
                timeout=self._quick if call.name in _QUICK else self._patient,
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise TaskExecutorUnreachableError(self.address, str(error)) from error
        refused: HoldfastError | None = None
        try:
            if response.status == 200:
                return call.answer.validate_json(response.data, strict=True)
            refused = restored(Refusal.model_validate_json(response.data))
        except ValidationError:
            pass
        raise refused or TaskExecutorUnreachableError(
            self.address,
            f"it responds to {call.name} with status {response.status}, unlike a task executor of "
            "this version",
        )
