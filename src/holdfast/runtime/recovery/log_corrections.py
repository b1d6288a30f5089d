"""What a start adds to the log, so that it says what the start has found. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.eventstore.events import ExecutionVertexFinished, JobEvent
from holdfast.runtime.recovery.recovered_job import RecoveredJob
from holdfast.taskexecutor.partitions.partition_info import PartitionMetrics, ResultPartitionID


def corrections(
    recovered: RecoveredJob, metrics: Mapping[ResultPartitionID, PartitionMetrics]
) -> Iterator[JobEvent]:
    """The events that the log lacks.

    What finished without a word is recorded, so that a later reset names it.

    Args:
        recovered: what has been found.
        metrics: how large the partitions are that are there.
    """
    for vertex in recovered.vertices.values():
        for subtask in vertex.unrecorded:
            output = vertex.finished[subtask]
            if output is None:
                continue
            size = metrics.get(ResultPartitionID(output, subtask))
            # A subtask of a whole output that has left no rows has left no file either.
            yield ExecutionVertexFinished(
                vertex.vertex_id, subtask, 0, output, size or PartitionMetrics(0, 0)
            )
