"""What a client has to know of a task executor's protocol, for tests that speak it themselves."""

from __future__ import annotations

from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.calls.control_calls import CALLS, CONTROL_PREFIX, REQUEST_LIMIT
from holdfast.taskexecutor.token import read_key

__all__ = [
    "CALLS",
    "CONTROL_PREFIX",
    "REQUEST_LIMIT",
    "RemoteTaskExecutor",
    "Timeouts",
    "read_key",
]
