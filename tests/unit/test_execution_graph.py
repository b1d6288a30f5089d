"""The run-time side of a job remembers what became of each vertex."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.eventstore.events import ExecutionJobVertexInitialized
from holdfast.graph.job_graph import JobGraph, JobVertex, ResultPartitionType
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.runtime.execution_events import (
    DataSetLost,
    ExecutionEvent,
    LocationsIncomplete,
    PartitionsAvailable,
    TasksRecovered,
    VertexEnded,
    VertexProduced,
    VertexRead,
    VertexRecovered,
    VertexReset,
    VertexStarted,
)
from holdfast.runtime.execution_graph import ExecutionGraph, ExecutionVertex
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import kept as kept_output

JOB = JobID("ab" * 16)
ONE, TWO, THREE, FOUR = (IntermediateDataSetID(digit * 64) for digit in "1234")
PLAN = CanonicalNode("plan", "0" * 64, (), (), 0, (), False, 0, False)


def job(*produces: IntermediateDataSetID) -> JobGraph:
    vertices = [
        JobVertex(
            JobVertexID.random(),
            f"keep {each}",
            PLAN,
            each,
            ResultPartitionType.BLOCKING_PERSISTENT,
        )
        for each in produces
    ]
    answering = JobVertex(JobVertexID.random(), "count", PLAN, None, ResultPartitionType.PIPELINED)
    return JobGraph(JOB, "count", (*vertices, answering), (), ())


def partitions(dataset_id: IntermediateDataSetID) -> tuple[ResultPartitionDescriptor, ...]:
    return tuple(ResultPartitionDescriptor(dataset_id, n, f"/kept/{n}", 10, 1) for n in (0, 2))


def kept(dataset_id: IntermediateDataSetID) -> KeptDataSet:
    return kept_output(OutputID(dataset_id, "0badcafe"), 0, 2)


def there(dataset_id: IntermediateDataSetID) -> tuple[ExecutionEvent, ...]:
    """What happens to a vertex that produces a dataset."""
    return (
        VertexStarted(dataset_id, "name"),
        VertexProduced(dataset_id, kept(dataset_id)),
        PartitionsAvailable(dataset_id, partitions(dataset_id)),
    )


def notify(execution: ExecutionGraph, *events: ExecutionEvent) -> None:
    for event in events:
        execution.notify(event)


@pytest.fixture
def execution() -> ExecutionGraph:
    return ExecutionGraph(JOB, "count")


def vertex_of(
    execution: ExecutionGraph, dataset_id: IntermediateDataSetID | None
) -> ExecutionVertex:
    (found,) = [each for each in execution.archive().vertices if each.dataset_id == dataset_id]
    return found


def descriptors(execution: ExecutionGraph) -> dict[IntermediateDataSetID, Any]:
    return dict(execution.archive().persistent_result_partitions.descriptors)


def test_a_produced_dataset_stays_produced_when_it_is_read(execution: ExecutionGraph) -> None:
    graph = job(ONE)
    execution.attach(graph)
    before = execution.archive()
    assert (before.job_id, before.name) == (JOB, "count")
    assert [each.vertex_id for each in before.vertices] == [
        each.vertex_id for each in graph.vertices
    ]
    notify(execution, *there(ONE), VertexRead(ONE, "name"))
    # An archive doesn't change any more.
    assert [each.outcome for each in before.vertices] == [VertexOutcome.CREATED] * 2
    assert before.persistent_result_partitions.descriptors == {}
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.name) == (VertexOutcome.PRODUCED, f"keep {ONE}")
    assert (vertex.partitions, vertex.bytes, vertex.rows, vertex.attempts) == (2, 20, 2, 1)
    assert (vertex.recovered, vertex.recovered_tasks) == (None, None)
    assert descriptors(execution) == {ONE: partitions(ONE)}


def test_what_was_kept_before_and_what_a_job_is_cut_into_are_vertices_too(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job(ONE))
    notify(
        execution,
        *(VertexRead(TWO, "scan of orders"), PartitionsAvailable(TWO, partitions(TWO))),
        *(VertexStarted(THREE, "a cut"), VertexRecovered(FOUR, kept(FOUR))),
        VertexProduced(THREE, kept(THREE), JobVertexID("0a"), recovered=1, recovered_tasks=4),
        *(VertexStarted(None, "count"), TasksRecovered(7), VertexEnded(None, VertexOutcome.RUN)),
    )
    cut, recovered, created, read, answering = execution.archive().vertices
    assert (cut.outcome, cut.attempts, cut.recovered) == (VertexOutcome.PRODUCED, 1, 1)
    assert (recovered.outcome, recovered.attempts) == (VertexOutcome.RECOVERED, 0)
    assert (recovered.name, recovered.recovered) == ("a join", 2)
    assert created.outcome is VertexOutcome.CREATED
    assert (read.outcome, read.name, read.attempts) == (VertexOutcome.READ, "scan of orders", 0)
    assert (cut.recovered_tasks, answering.recovered_tasks) == (4, 7)
    # The answering vertex comes last.
    assert (answering.dataset_id, answering.outcome) == (None, VertexOutcome.RUN)
    # A cut's partitions are none of the application's.
    assert set(descriptors(execution)) == {TWO}


def test_a_dataset_without_rows_has_no_partitions(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    execution.notify(PartitionsAvailable(ONE, ()))
    vertex = vertex_of(execution, ONE)
    assert (vertex.partitions, vertex.bytes, vertex.rows) == (0, 0, 0)
    assert descriptors(execution) == {ONE: ()}


def test_attempts_add_up_over_a_resubmission(execution: ExecutionGraph) -> None:
    second = job(ONE)
    execution.attach(job(ONE))
    notify(execution, *there(ONE), VertexStarted(None, "count"), DataSetLost(ONE, "it is gone"))
    assert (execution.losses, descriptors(execution)) == ([f"{ONE}: it is gone"], {})
    execution.attach(second)
    notify(execution, *there(ONE), VertexStarted(None, "count"))
    execution.notify(VertexEnded(None, VertexOutcome.RUN))
    produced, answering = execution.archive().vertices
    assert (produced.attempts, answering.attempts) == (2, 2)
    assert answering.outcome is VertexOutcome.RUN
    assert answering.vertex_id == second.vertices[-1].vertex_id


def test_what_was_not_lost_stays_as_it_is_over_a_resubmission(execution: ExecutionGraph) -> None:
    failed = Why.FAILED.of("the disk is full")
    execution.attach(job(ONE, TWO))
    execution.notify(VertexRecovered(ONE, kept(ONE)))
    execution.notify(VertexEnded(TWO, VertexOutcome.NOT_KEPT, failed))
    again = job(ONE, TWO)
    execution.attach(again)
    one, two, _ = execution.archive().vertices
    assert (one.outcome, one.partitions, one.recovered) == (VertexOutcome.RECOVERED, 2, 2)
    assert (two.outcome, two.reason) == (VertexOutcome.CREATED, None)
    assert [one.vertex_id, two.vertex_id] == [each.vertex_id for each in again.vertices[:2]]


CREATED = VertexOutcome.CREATED
FULL = VertexEnded(ONE, VertexOutcome.NOT_KEPT, Why.FAILED.of("the disk is full"))


@pytest.mark.parametrize(
    ("event", "outcome", "reason"),
    [
        (DataSetLost(ONE, "it is gone"), CREATED, None),
        (VertexReset(ONE), CREATED, None),
        (FULL, VertexOutcome.NOT_KEPT, "the disk is full"),
    ],
    ids=["lost", "reset", "not kept"],
)
def test_what_is_not_there_any_more_has_no_partitions(
    execution: ExecutionGraph, event: ExecutionEvent, outcome: VertexOutcome, reason: str | None
) -> None:
    execution.attach(job(ONE))
    notify(execution, *there(ONE), event)
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.reason) == (outcome, reason)
    assert (vertex.partitions, vertex.bytes, vertex.rows) == (None, None, None)


def test_an_incomplete_dataset_has_no_locations_until_it_is_there_again(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job(ONE))
    notify(execution, *there(ONE), LocationsIncomplete(ONE))
    meta = execution.archive().persistent_result_partitions
    assert (meta.descriptors, meta.incomplete) == ({}, {ONE})
    execution.notify(PartitionsAvailable(ONE, partitions(ONE)))
    meta = execution.archive().persistent_result_partitions
    assert (set(meta.descriptors), meta.incomplete) == ({ONE}, frozenset())


@pytest.mark.parametrize(
    "event", [VertexReset(TWO), ExecutionJobVertexInitialized(JobVertexID("0a"), 3, TWO)]
)
def test_what_no_vertex_stands_for_changes_nothing(
    execution: ExecutionGraph, event: ExecutionEvent
) -> None:
    execution.attach(job(ONE))
    before = execution.archive()
    execution.notify(event)
    assert execution.archive() == before
