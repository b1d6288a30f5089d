"""What a task executor has of one output of a job that was taken over."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import Count, OutputID


@dataclass(frozen=True, slots=True)
class RecoveredOutput:
    """An output that an earlier start of the job, or this one, has left on one executor.

    Attributes:
        output: which output.
        part_of: the output that it makes up what was missing of; itself where it stands alone.
        manifest: what explains it, if it was published; None for what tasks had committed when
            their driver was lost.
        partitions: those that lie here, by index: their places in `part_of`.
        number_of_partitions: of the whole dataset; None where that was not known yet.
        publication: which publishing it belongs to; None where it wasn't published.

    Source: FLIP-383, `ShuffleMaster.getAllPartitionWithMetrics`.
    """

    output: OutputID
    part_of: OutputID
    manifest: Manifest | None
    partitions: tuple[KeptPartition, ...]
    number_of_partitions: Count | None
    publication: Publication | None
