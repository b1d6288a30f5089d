"""What each start of a job has produced, by its events."""

from __future__ import annotations

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.highavailability.job_timeline import Span, VertexTimeline, vertex_timelines
from holdfast.ids import IntermediateDataSetID, JobVertexID

DATASET = IntermediateDataSetID("1" * 64)
ONE, TWO = JobVertexID("a" * 32), JobVertexID("b" * 32)


def test_a_partition_counts_for_the_start_that_produced_it_until_it_is_lost() -> None:
    def produced(vertex: JobVertexID, *subtasks: int) -> list[JobEvent]:
        return [ExecutionVertexFinished(vertex, subtask, 0) for subtask in subtasks]

    first = [ExecutionJobVertexInitialized(ONE, 4, DATASET), *produced(ONE, 0, 1)]
    second = [ExecutionJobVertexInitialized(TWO, 4, DATASET), *produced(TWO, 3)]
    starts = [(1, len(first)), (3, len(second))]
    spans = (Span(1, 3), Span(7, 9))
    found = vertex_timelines([*first, *second], starts, [1, 2, 3, 7, 9])
    assert found == (VertexTimeline(DATASET.hex, 4, (2, 1), spans, 0),)
    assert found[0].done == 3
    assert vertex_timelines([*first, *second], starts)[0].spans == (None, None)
    # One that was there is lost, and is there again.
    lost = [*second, ExecutionVertexReset(TWO, (1, 2)), *produced(TWO, 1)]
    events = [*first, *lost, JobFinished(JobStatus.FINISHED)]
    [after] = vertex_timelines(events, [(1, len(first)), (2, len(lost) + 1)])
    assert (after.produced, after.lost, after.done) == ((1, 2), 1, 3)
    assert vertex_timelines([], []) == ()
