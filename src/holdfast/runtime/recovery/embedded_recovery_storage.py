"""Keeps the partitions of one job on this machine, beyond the process that runs it."""

from __future__ import annotations

from pathlib import Path

from holdfast.files.private_directory import own_below
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

RECOVERABLE = "recoverable"
"""Where jobs' partitions lie below the directory that applications on a machine share."""

_MOST_SECONDS = 60.0
_BEATS_IN_A_RETENTION = 4
# It is asked once, and may have many files to look at.
_PATIENCE_SECONDS = 600.0


def embedded_recovery_storage(
    root: Path, claim: RecoveryClaim, *, retention_seconds: float
) -> RecoveryStorage:
    """A RecoveryStorage over a directory of this machine, which several processes may use.

    What is left there of jobs whose retention is over is removed.

    Args:
        root: the directory that applications on this machine share.
        claim: the job and the epoch of this start.
        retention_seconds: how long a job's partitions stay after its last sign of life.

    Raises:
        StaleEpochError: when a newer start of the job has taken over.
        StorageError: when the directory can't be used.
    """
    directory = own_below(root, RECOVERABLE)
    executor = TaskExecutor(directory)
    storage = RecoveryStorage(
        {str(directory): executor},
        claim,
        retention_seconds=retention_seconds,
        heartbeat_seconds=min(_MOST_SECONDS, retention_seconds / _BEATS_IN_A_RETENTION),
        version=__version__,
        spans_machines=False,
        timeout_seconds=_PATIENCE_SECONDS,
    )
    executor.sweep_recoverable()
    return storage
