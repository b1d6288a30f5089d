"""What a task executor says it holds beyond the life of a job."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import IntermediateDataSetID
from holdfast.taskexecutor.partitions.partition_info import TaskExecutorPartitionInfo


@dataclass(frozen=True, slots=True)
class ClusterPartitionReportEntry:
    """What a task executor holds of one output.

    Attributes:
        dataset_id: the dataset; another output of the same dataset is an entry of its own.
        hosted_partitions: those that lie here, by index.
        number_of_total_partitions: of the whole output, wherever they are.
    """

    dataset_id: IntermediateDataSetID
    hosted_partitions: tuple[TaskExecutorPartitionInfo, ...]
    number_of_total_partitions: int


@dataclass(frozen=True, slots=True)
class ClusterPartitionReport:
    """All cluster partitions of a task executor.

    Attributes:
        entries: one for each output, in their order.
    """

    entries: tuple[ClusterPartitionReportEntry, ...]
