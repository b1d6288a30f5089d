"""The task executor that is embedded in the environment of one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from threading import RLock

from holdfast.files.access_modes import PRIVATE, AccessModes
from holdfast.ids import ApplicationID
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.partition_directory import note_hits
from holdfast.storage.row_layout import Remainder
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__


class EmbeddedStorage(TaskExecutorStorage):
    """Keeps results in a directory of this machine, for as long as this process lives.

    Args:
        root: the directory that applications on this machine share. What dead ones have left in it
            is removed.
        modes: whose applications share it.

    Raises:
        StorageError: when it can't be used.
    """

    def __init__(self, root: Path, modes: AccessModes = PRIVATE) -> None:
        self._noting = RLock()
        super().__init__(
            {str(root): TaskExecutor(root, modes=modes)},
            ApplicationID.random(),
            lease_seconds=math.inf,
            heartbeat_seconds=None,
            version=__version__,
        )

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None = None,
    ) -> KeptDataSet:
        kept = super().publish(staged, description, written)
        self._note_hits(kept)
        return kept

    def publish_completed(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
        left: KeptDataSet,
        remainder: Remainder,
    ) -> KeptDataSet:
        kept = super().publish_completed(staged, description, written, left, remainder)
        self._note_hits(kept)
        return kept

    def hit(self, kept: KeptDataSet) -> None:
        super().hit(kept)
        self._note_hits(kept)

    def _note_hits(self, kept: KeptDataSet) -> None:
        """Lays the count beside the partitions, where `holdfast ls` finds it."""
        # One at a time, so that the last one to write has counted last.
        with self._noting:
            count = self._outputs.hits_of(kept)
            if count is not None:
                note_hits(kept.directory, count)
