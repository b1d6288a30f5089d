"""Which partition each subtask of a published vertex has left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics


@dataclass(frozen=True, slots=True)
class FinishedPartitions:
    """What the subtasks of a vertex have left.

    Attributes:
        output: the output that all of their partitions are known by.
        metrics: by subtask the size of its partition; without those that left none, as they had
            no rows.
    """

    output: OutputID
    metrics: Mapping[int, PartitionMetrics]

    @property
    def number(self) -> int:
        """How many subtasks there are, as far as their partitions tell."""
        return max(self.metrics, default=0) + 1


def finished_partitions(kept: KeptDataSet) -> FinishedPartitions | None:
    """What the subtasks of a vertex have left.

    Args:
        kept: the published dataset, its partitions by the numbers of the subtasks.

    Returns:
        that; None where no output is named by which it could be found again.
    """
    if kept.name is None:
        return None
    return FinishedPartitions(
        OutputID.parse(kept.name),
        {each.index: PartitionMetrics(each.bytes, each.rows) for each in kept.manifest.partitions},
    )
