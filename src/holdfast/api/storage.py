"""Which task executors an environment keeps its results with."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.config import (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    INTERMEDIATE_RESULT_DIRECTORY,
    TASK_EXECUTOR_ADDRESSES,
    TASK_EXECUTOR_TOKEN_FILE,
    Configuration,
)
from holdfast.errors import ConfigurationError
from holdfast.ids import ApplicationID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.taskexecutor.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.token import TOKEN_VARIABLE, given_token
from holdfast.version import __version__

# Who takes longer over a heartbeat is done without until it answers one.
_SIGN_OF_LIFE_SECONDS = 10.0


def task_executor_storage(configuration: Configuration) -> TaskExecutorStorage:
    """The storage over the task executors that are configured, or over the embedded one.

    Raises:
        ConfigurationError: when there is no token, or heartbeats are rarer than their timeout.
        StorageError: when no executor can be reached, or the directory can't be used.
    """
    addresses = configuration.get(TASK_EXECUTOR_ADDRESSES)
    if not addresses:
        return EmbeddedStorage(Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY)))
    interval = configuration.get(HEARTBEAT_INTERVAL)
    timeout = configuration.get(HEARTBEAT_TIMEOUT)
    if interval >= timeout:
        raise ConfigurationError(
            HEARTBEAT_INTERVAL.key,
            str(interval),
            f"expected a duration below {HEARTBEAT_TIMEOUT.key}, which is {timeout}",
        )
    token_file = configuration.get(TASK_EXECUTOR_TOKEN_FILE)
    token = given_token(None if token_file is None else Path(token_file), os.environ)
    if token is None:
        raise ConfigurationError(
            TASK_EXECUTOR_TOKEN_FILE.key,
            None,
            f"task executors are to be used, which takes their token: expected a file that holds "
            f"it, or the environment variable {TOKEN_VARIABLE}",
        )
    timeouts = Timeouts(sign_of_life_seconds=min(_SIGN_OF_LIFE_SECONDS, timeout.total_seconds()))
    return TaskExecutorStorage(
        {address: RemoteTaskExecutor(address, token, timeouts) for address in addresses},
        ApplicationID.random(),
        lease_seconds=timeout.total_seconds(),
        heartbeat_seconds=interval.total_seconds(),
        version=__version__,
    )
