"""What the recovery of a job needs of the directory that the job has, and of its partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from holdfast.ids import JobID
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partition_info import OutputID, PartitionMetrics, ResultPartitionID


class JobStart(Protocol):
    """One start of a job, with the directory that outlives it."""

    @property
    def job_id(self) -> JobID:
        """The job, the same at each of its starts."""

    @property
    def epoch(self) -> int:
        """Of this start, above those of all earlier ones."""

    @property
    def events_directory(self) -> Path:
        """Where the job's events are."""

    def check(self) -> None:
        """Makes sure that this is the job's newest start.

        Raises:
            StaleEpochError: when a newer one has taken over.
            StorageError: when that can't be told.
        """

    def take_fresh_epoch(self) -> int:
        """Begins the job anew, under an epoch that `epoch` gives from now on.

        Raises:
            StaleEpochError: when a newer start has taken over before.
            StorageError: when none can be taken.
        """


class TrackedPartition(Protocol):
    """A partition that an earlier start left behind, and that is there.

    Source: FLIP-383, `PartitionWithMetrics`.
    """

    @property
    def partition_id(self) -> ResultPartitionID:
        """Which one."""

    @property
    def metrics(self) -> PartitionMetrics:
        """How large it is."""


class RecoveredOutput(Protocol):
    """An output that an earlier start left behind, over all task executors."""

    @property
    def kept(self) -> KeptDataSet | None:
        """The dataset, where it was published and all of it is there."""

    @property
    def present(self) -> frozenset[int]:
        """The partitions that are there."""


class RecoveryStorage(Protocol):
    """Keeps the partitions of a job over its starts; what they left is settled at its making."""

    def get_all_partition_with_metrics(self) -> Collection[TrackedPartition]:
        """Whatever earlier starts left behind and is there.

        Source: FLIP-383, `ShuffleMaster.getAllPartitionWithMetrics`.
        """

    def recovered_outputs(self) -> Mapping[OutputID, RecoveredOutput]:
        """The same by outputs."""
