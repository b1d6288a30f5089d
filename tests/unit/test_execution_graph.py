"""The run-time side of a job remembers what became of each vertex."""

from __future__ import annotations

import pytest

from holdfast.graph.job_graph import JobGraph, JobVertex, ResultPartitionType
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.runtime.execution_graph import ExecutionGraph, ExecutionVertex, VertexOutcome
from holdfast.runtime.partitions import ResultPartitionDescriptor

JOB = JobID("ab" * 16)
ONE = IntermediateDataSetID("1" * 64)
TWO = IntermediateDataSetID("2" * 64)
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
    return (
        ResultPartitionDescriptor(dataset_id, 0, "/kept/a", 100, 7),
        ResultPartitionDescriptor(dataset_id, 2, "/kept/c", 50, 3),
    )


@pytest.fixture
def execution() -> ExecutionGraph:
    return ExecutionGraph(JOB, "count")


def vertex_of(
    execution: ExecutionGraph, dataset_id: IntermediateDataSetID | None
) -> ExecutionVertex:
    (found,) = [each for each in execution.archive().vertices if each.dataset_id == dataset_id]
    return found


def test_a_vertex_starts_out_created(execution: ExecutionGraph) -> None:
    graph = job(ONE)
    execution.attach(graph)
    archive = execution.archive()
    assert (archive.job_id, archive.name) == (JOB, "count")
    assert [each.outcome for each in archive.vertices] == [VertexOutcome.CREATED] * 2
    assert [each.vertex_id for each in archive.vertices] == [
        each.vertex_id for each in graph.vertices
    ]
    assert vertex_of(execution, ONE).attempts == 0


def test_a_produced_dataset_tells_its_partitions_and_stays_produced_when_read(
    execution: ExecutionGraph,
) -> None:
    graph = job(ONE)
    execution.attach(graph)
    execution.started(graph.vertices[0])
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    execution.available(ONE, "name", VertexOutcome.READ, partitions(ONE))
    vertex = vertex_of(execution, ONE)
    assert vertex.outcome is VertexOutcome.PRODUCED
    assert (vertex.partitions, vertex.bytes, vertex.rows, vertex.attempts) == (2, 150, 10, 1)
    meta = execution.archive().persistent_result_partitions
    assert meta.descriptors == {ONE: partitions(ONE)}
    assert meta.incomplete == frozenset()


def test_a_dataset_that_was_kept_before_becomes_a_vertex_that_was_read(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job())
    execution.available(TWO, "scan of orders", VertexOutcome.READ, partitions(TWO))
    vertex = vertex_of(execution, TWO)
    assert (vertex.outcome, vertex.name, vertex.attempts) == (
        VertexOutcome.READ,
        "scan of orders",
        0,
    )


def test_the_answering_vertex_comes_last(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    execution.available(TWO, "read", VertexOutcome.READ, partitions(TWO))
    assert [each.dataset_id for each in execution.archive().vertices] == [ONE, TWO, None]


def test_a_dataset_without_rows_has_no_partitions(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    execution.available(ONE, "name", VertexOutcome.PRODUCED, ())
    vertex = vertex_of(execution, ONE)
    assert (vertex.partitions, vertex.bytes, vertex.rows) == (0, 0, 0)
    assert execution.archive().persistent_result_partitions.descriptors == {ONE: ()}


def test_attempts_add_up_over_a_resubmission(execution: ExecutionGraph) -> None:
    first, second = job(ONE), job(ONE)
    execution.attach(first)
    execution.started(first.vertices[0])
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    execution.started(first.answering)
    execution.lost(ONE)
    assert execution.archive().persistent_result_partitions.descriptors == {}
    lost = vertex_of(execution, ONE)
    assert (lost.outcome, lost.partitions, lost.bytes, lost.rows) == (
        VertexOutcome.CREATED,
        None,
        None,
        None,
    )
    execution.attach(second)
    execution.started(second.vertices[0])
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    execution.started(second.answering)
    execution.ended(second.answering, VertexOutcome.RUN)
    assert vertex_of(execution, ONE).attempts == 2
    answering = vertex_of(execution, None)
    assert (answering.attempts, answering.outcome) == (2, VertexOutcome.RUN)
    assert answering.vertex_id == second.answering.vertex_id
    assert len(execution.archive().vertices) == 2


def test_a_vertex_that_ended_tells_why(execution: ExecutionGraph) -> None:
    graph = job(ONE)
    execution.attach(graph)
    execution.ended(graph.vertices[0], VertexOutcome.NOT_KEPT, "the disk is full")
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.reason) == (VertexOutcome.NOT_KEPT, "the disk is full")
    assert execution.archive().persistent_result_partitions.descriptors == {}


def test_an_incomplete_dataset_has_no_locations_until_it_is_there_again(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job(ONE))
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    execution.incomplete(ONE)
    meta = execution.archive().persistent_result_partitions
    assert (meta.descriptors, meta.incomplete) == ({}, {ONE})
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    meta = execution.archive().persistent_result_partitions
    assert (set(meta.descriptors), meta.incomplete) == ({ONE}, frozenset())


def test_losing_what_no_vertex_stands_for_changes_nothing(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    before = execution.archive()
    execution.lost(TWO)
    assert execution.archive() == before


def test_an_archive_does_not_change_any_more(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    archive = execution.archive()
    execution.available(ONE, "name", VertexOutcome.PRODUCED, partitions(ONE))
    assert archive.persistent_result_partitions.descriptors == {}
    assert archive.vertices[0].outcome is VertexOutcome.CREATED
