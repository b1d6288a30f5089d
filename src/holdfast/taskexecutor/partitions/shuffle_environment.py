"""What holds the partitions themselves: writes, finishes and releases them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from holdfast.ids import JobID
from holdfast.taskexecutor.partitions.partition_info import PartitionMetrics, ResultPartitionID


class ResultPartitionWriter(Protocol):
    """Makes one partition. It belongs to one task, whose thread alone calls it.

    Source: FLINK-12612, "General Idea".
    """

    @property
    def partition_id(self) -> ResultPartitionID:
        """The partition that it makes."""

    def setup(self) -> None:
        """Makes room for the partition. From here on it is in progress."""

    def finish(self) -> PartitionMetrics:
        """Completes the partition.

        Returns:
            How large it has become.
        """

    def fail(self, cause: str | None = None) -> None:
        """Gives the partition up and releases what there is of it.

        Args:
            cause: what made the task fail, if it is known.
        """


class ShuffleEnvironment(Protocol):
    """Has the partitions of this executor and knows nothing of who wants them kept.

    Source: FLINK-12612, "Could we not handle this inside the ShuffleEnvironment?".
    """

    def create_result_partition_writers(
        self, job_id: JobID, ids: Collection[ResultPartitionID]
    ) -> list[ResultPartitionWriter]:
        """Writers for a task's partitions, in their order. Nothing is set up yet.

        Args:
            job_id: the job that the task is of.
            ids: the partitions it will make.
        """

    def release_partitions_locally(self, ids: Collection[ResultPartitionID]) -> None:
        """Removes finished partitions. Each is released once.

        Args:
            ids: the partitions.
        """
