"""A partition of another application, as an application's storage is told of it."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.taskexecutor.partitions.partition_info import ResultPartitionID


@dataclass(frozen=True, slots=True)
class LyingPartition:
    """A published partition, and where it lies.

    Attributes:
        partition_id: which partition of which output.
        host: the machine whose task executor has it, as Spark calls it.
        rows: how many rows it has.
    """

    partition_id: ResultPartitionID
    host: str
    rows: int

    @property
    def written(self) -> WrittenPartition:
        """The same as a task would say it that had written it."""
        return WrittenPartition(self.partition_id.index, self.host, self.rows)
