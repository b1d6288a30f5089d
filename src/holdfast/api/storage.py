"""The storage of an environment's results."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path

from holdfast.config import (
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    HIGH_AVAILABILITY_STORAGE_DIR,
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_SHARING,
    JOB_RECOVERY_RETENTION,
    PREVIOUS_WORKER_RECOVERY_TIMEOUT,
    TASK_EXECUTOR_ADDRESSES,
    TASK_EXECUTOR_TOKEN_FILE,
    Configuration,
)
from holdfast.errors import ConfigurationError, StorageError
from holdfast.highavailability.job_identity import job_in_storage
from holdfast.ids import ApplicationID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.token import TOKEN_VARIABLE, given_token
from holdfast.version import __version__

# Who takes longer over a heartbeat is done without until it answers one.
_SIGN_OF_LIFE_SECONDS = 10.0


def task_executor_storage(configuration: Configuration) -> TaskExecutorStorage:
    """The storage over the task executors that are configured, or over the embedded one.

    Raises:
        ConfigurationError: when there is no token, or the heartbeat interval exceeds the timeout.
        StorageError: when no executor can be reached, or the directory can't be used.
    """
    addresses = configuration.get(TASK_EXECUTOR_ADDRESSES)
    if not addresses:
        return EmbeddedStorage(
            Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY)),
            configuration.get(INTERMEDIATE_RESULT_SHARING).modes,
        )
    interval, timeout = _heartbeats(configuration)
    return TaskExecutorStorage(
        _gateways(configuration, addresses, timeout),
        ApplicationID.random(),
        lease_seconds=timeout.total_seconds(),
        heartbeat_seconds=interval.total_seconds(),
        version=__version__,
    )


def recovery_storage(
    configuration: Configuration, job_id: JobID, epoch: int, wait_for: Collection[str] = ()
) -> RecoveryStorage:
    """The storage for the partitions of one start of a job, where earlier starts left theirs.

    Args:
        configuration: defines the task executors, and where jobs are recorded. For executors, the
            same job recorded elsewhere is another job.
        job_id: the job.
        epoch: that of this start, above those of all earlier ones.
        wait_for: the names of the executors of earlier starts, to wait for.

    Raises:
        StaleEpochError: when a newer start of the job has taken over.
        ConfigurationError: when there is no token, or the heartbeat interval exceeds the timeout.
        StorageError: when no executor can be reached, or a directory can't be used.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """
    claim = RecoveryClaim(_job_there(configuration, job_id), epoch)
    retention = configuration.get(JOB_RECOVERY_RETENTION).total_seconds()
    addresses = configuration.get(TASK_EXECUTOR_ADDRESSES)
    if not addresses:
        root = Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
        return embedded_recovery_storage(root, claim, retention_seconds=retention)
    interval, timeout = _heartbeats(configuration)
    return RecoveryStorage(
        _gateways(configuration, addresses, timeout),
        claim,
        retention_seconds=retention,
        heartbeat_seconds=min(interval.total_seconds(), retention / 4),
        version=__version__,
        wait_for=wait_for,
        timeout_seconds=configuration.get(PREVIOUS_WORKER_RECOVERY_TIMEOUT).total_seconds(),
    )


def task_executor_token(configuration: Configuration) -> str:
    """The secret that is shared with the task executors that are configured.

    Raises:
        ConfigurationError: when there is none.
        StorageError: when it can't be read.
    """
    token_file = configuration.get(TASK_EXECUTOR_TOKEN_FILE)
    token = given_token(None if token_file is None else Path(token_file), os.environ)
    if token is None:
        raise ConfigurationError(
            TASK_EXECUTOR_TOKEN_FILE.key,
            None,
            "task executors are configured, which requires their token: expected a file that "
            f"holds it, or the environment variable {TOKEN_VARIABLE}",
        )
    return token


def _job_there(configuration: Configuration, job_id: JobID) -> JobID:
    directory = configuration.get(HIGH_AVAILABILITY_STORAGE_DIR)
    if directory is None:
        return job_id
    try:
        return job_in_storage(directory, job_id)
    except OSError as error:
        raise StorageError(
            str(directory), f"the storage directory has no usable identity: {error}"
        ) from error


def _heartbeats(configuration: Configuration) -> tuple[timedelta, timedelta]:
    """How often they are sent, and after how long without one an executor is lost."""
    interval = configuration.get(HEARTBEAT_INTERVAL)
    timeout = configuration.get(HEARTBEAT_TIMEOUT)
    if interval >= timeout:
        raise ConfigurationError(
            HEARTBEAT_INTERVAL.key,
            str(interval),
            f"expected a duration below {HEARTBEAT_TIMEOUT.key}, which is {timeout}",
        )
    return interval, timeout


def _gateways(
    configuration: Configuration, addresses: Collection[str], timeout: timedelta
) -> dict[str, TaskExecutorGateway]:
    token = task_executor_token(configuration)
    timeouts = Timeouts(sign_of_life_seconds=min(_SIGN_OF_LIFE_SECONDS, timeout.total_seconds()))
    return {address: RemoteTaskExecutor(address, token, timeouts) for address in addresses}
