"""The task executor that is embedded in the environment of one machine."""

from __future__ import annotations

import math
from pathlib import Path

from holdfast.ids import ApplicationID
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__


class EmbeddedStorage(TaskExecutorStorage):
    """Keeps results in a directory of this machine, for as long as this process lives.

    Args:
        root: the directory that applications on this machine share. What dead ones have left in it
            is removed.

    Raises:
        StorageError: when it can't be used.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(
            {str(root): TaskExecutor(root)},
            ApplicationID.random(),
            lease_seconds=math.inf,
            heartbeat_seconds=None,
            version=__version__,
        )
