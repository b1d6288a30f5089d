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


def begun(vertex: JobVertexID, parallelism: int = 4) -> JobEvent:
    return ExecutionJobVertexInitialized(vertex, parallelism, DATASET)


def finished(vertex: JobVertexID, *subtasks: int) -> list[JobEvent]:
    return [ExecutionVertexFinished(vertex, subtask, 0) for subtask in subtasks]


def test_a_partition_counts_for_the_start_that_produced_it() -> None:
    first = [begun(ONE), *finished(ONE, 0, 1)]
    second = [begun(TWO), *finished(TWO, 3)]
    events = [*first, *second]
    found = vertex_timelines(events, [(1, len(first)), (3, len(second))], [1, 2, 3, 7, 9])
    spans = (Span(1, 3), Span(7, 9))
    assert found == (VertexTimeline(DATASET.hex, 4, (2, 1), spans, 0),)
    assert found[0].done == 3
    assert vertex_timelines(events, [(1, len(first)), (3, len(second))])[0].spans == (None, None)


def test_what_is_lost_counts_no_more_and_again_when_it_is_there() -> None:
    first = [begun(ONE), *finished(ONE, 0, 1, 2)]
    lost: list[JobEvent] = [ExecutionVertexReset(ONE, (1, 3)), *finished(ONE, 1)]
    events = [*first, *lost, JobFinished(JobStatus.FINISHED)]
    [found] = vertex_timelines(events, [(1, len(first)), (2, len(lost) + 1)])
    assert (found.produced, found.lost, found.done) == ((2, 1), 1, 3)
    assert vertex_timelines([], []) == ()
