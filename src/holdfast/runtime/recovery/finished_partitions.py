"""Which partition of which output each subtask of a published vertex has left. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partition_info import OutputID, PartitionMetrics

FinishedPartitions = dict[int, tuple[OutputID, PartitionMetrics]]
"""By subtask; without those that left none, since they had no rows."""


def finished_partitions(kept: KeptDataSet) -> FinishedPartitions:
    """What the subtasks of a vertex have left.

    A dataset of which a part had been salvaged lies in the directories of several outputs, each
    called as the output is.

    Args:
        kept: the published dataset, its partitions by the numbers of the subtasks.
    """
    outputs = [_output(directory, kept.name) for directory in kept.directories]
    holders = kept.holders or (0,) * len(kept.manifest.partitions)
    found: FinishedPartitions = {}
    for partition, holder in zip(kept.manifest.partitions, holders, strict=True):
        output = outputs[holder]
        if output is not None:
            metrics = PartitionMetrics(partition.bytes, partition.rows)
            found[partition.index] = output, metrics
    return found


def _output(directory: str, otherwise: str | None) -> OutputID | None:
    for name in (PurePosixPath(directory).name, otherwise):
        try:
            if name is not None:
                return OutputID.parse(name)
        except ValueError:
            continue
    return None
