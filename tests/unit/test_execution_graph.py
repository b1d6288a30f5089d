"""The run-time side of a job remembers what became of each vertex."""

from __future__ import annotations

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
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest

JOB = JobID("ab" * 16)
ONE = IntermediateDataSetID("1" * 64)
TWO = IntermediateDataSetID("2" * 64)
THREE = IntermediateDataSetID("3" * 64)
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


def kept(dataset_id: IntermediateDataSetID) -> KeptDataSet:
    description = DataSetDescription(
        dataset_id=dataset_id.hex, computes="a join", columns=(), spark_version="4.3.0"
    )
    files = tuple(
        KeptPartition(
            index=each.index,
            file=f"part-{each.index}.parquet",
            bytes=each.bytes,
            rows=each.rows,
            version="1",
        )
        for each in partitions(dataset_id)
    )
    manifest = Manifest(created="2026-01-01T00:00:00", dataset=description, partitions=files)
    return KeptDataSet(directories=("/kept",), manifest=manifest)


def told(execution: ExecutionGraph, *events: ExecutionEvent) -> None:
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
    execution.attach(job(ONE))
    told(
        execution,
        VertexStarted(ONE, "name"),
        VertexProduced(ONE, kept(ONE)),
        PartitionsAvailable(ONE, partitions(ONE)),
        VertexRead(ONE, "name"),
        PartitionsAvailable(ONE, partitions(ONE)),
    )
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.name) == (VertexOutcome.PRODUCED, f"keep {ONE}")
    assert (vertex.partitions, vertex.bytes, vertex.rows, vertex.attempts) == (2, 150, 10, 1)
    assert (vertex.recovered, vertex.recovered_tasks) == (None, None)
    meta = execution.archive().persistent_result_partitions
    assert meta.descriptors == {ONE: partitions(ONE)}
    assert meta.incomplete == frozenset()


def test_a_dataset_that_was_kept_before_becomes_a_vertex_that_was_read(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job())
    told(
        execution,
        VertexRead(TWO, "scan of orders"),
        PartitionsAvailable(TWO, partitions(TWO)),
    )
    vertex = vertex_of(execution, TWO)
    assert (vertex.outcome, vertex.name, vertex.attempts) == (
        VertexOutcome.READ,
        "scan of orders",
        0,
    )


def test_what_a_job_is_cut_into_are_vertices_but_no_partitions_of_the_application(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job())
    told(
        execution,
        VertexRecovered(ONE, kept(ONE)),
        VertexStarted(TWO, "a cut"),
        VertexProduced(TWO, kept(TWO), JobVertexID("0a"), recovered=1, recovered_tasks=4),
        VertexStarted(None, "count"),
        TasksRecovered(7),
        VertexEnded(None, VertexOutcome.RUN),
    )
    one, two, answering = execution.archive().vertices
    assert (one.outcome, one.attempts, one.recovered) == (VertexOutcome.RECOVERED, 0, 2)
    assert (two.outcome, two.attempts, two.recovered) == (VertexOutcome.PRODUCED, 1, 1)
    assert (one.name, two.name, two.partitions, two.rows) == ("a join", "a cut", 2, 10)
    assert (two.recovered_tasks, answering.recovered_tasks) == (4, 7)
    assert answering.outcome is VertexOutcome.RUN
    assert execution.archive().persistent_result_partitions.descriptors == {}


def test_the_answering_vertex_comes_last(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    told(execution, VertexRead(TWO, "read"), VertexStarted(THREE, "a cut"))
    vertices = execution.archive().vertices
    assert [each.dataset_id for each in vertices] == [THREE, ONE, TWO, None]


def test_a_dataset_without_rows_has_no_partitions(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    execution.notify(PartitionsAvailable(ONE, ()))
    vertex = vertex_of(execution, ONE)
    assert (vertex.partitions, vertex.bytes, vertex.rows) == (0, 0, 0)
    assert execution.archive().persistent_result_partitions.descriptors == {ONE: ()}


def test_attempts_add_up_over_a_resubmission(execution: ExecutionGraph) -> None:
    first, second = job(ONE), job(ONE)
    execution.attach(first)
    there = (
        VertexStarted(ONE, "name"),
        VertexProduced(ONE, kept(ONE)),
        PartitionsAvailable(ONE, partitions(ONE)),
    )
    told(execution, *there, VertexStarted(None, "count"), DataSetLost(ONE, "it is gone"))
    assert execution.archive().persistent_result_partitions.descriptors == {}
    lost = vertex_of(execution, ONE)
    assert (lost.outcome, lost.partitions, lost.bytes, lost.rows) == (
        VertexOutcome.CREATED,
        None,
        None,
        None,
    )
    assert execution.losses == [f"{ONE}: it is gone"]
    execution.attach(second)
    told(execution, *there, VertexStarted(None, "count"), VertexEnded(None, VertexOutcome.RUN))
    assert vertex_of(execution, ONE).attempts == 2
    answering = vertex_of(execution, None)
    assert (answering.attempts, answering.outcome) == (2, VertexOutcome.RUN)
    assert answering.vertex_id == second.vertices[-1].vertex_id
    assert len(execution.archive().vertices) == 2


def test_what_was_not_lost_stays_as_it_is_over_a_resubmission(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE, TWO))
    told(
        execution,
        VertexRecovered(ONE, kept(ONE)),
        VertexEnded(TWO, VertexOutcome.NOT_KEPT, Why.FAILED.of("the disk is full")),
    )
    again = job(ONE, TWO)
    execution.attach(again)
    one, two, _ = execution.archive().vertices
    assert (one.outcome, one.partitions, one.recovered) == (VertexOutcome.RECOVERED, 2, 2)
    assert (two.outcome, two.reason) == (VertexOutcome.CREATED, None)
    assert [one.vertex_id, two.vertex_id] == [each.vertex_id for each in again.vertices[:2]]


def test_a_vertex_that_ended_tells_why(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    told(
        execution,
        VertexProduced(ONE, kept(ONE)),
        VertexEnded(ONE, VertexOutcome.NOT_KEPT, Why.FAILED.of("the disk is full")),
    )
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.reason) == (VertexOutcome.NOT_KEPT, "the disk is full")
    assert (vertex.partitions, vertex.bytes, vertex.rows) == (None, None, None)
    assert execution.archive().persistent_result_partitions.descriptors == {}


def test_an_incomplete_dataset_has_no_locations_until_it_is_there_again(
    execution: ExecutionGraph,
) -> None:
    execution.attach(job(ONE))
    told(execution, PartitionsAvailable(ONE, partitions(ONE)), LocationsIncomplete(ONE))
    meta = execution.archive().persistent_result_partitions
    assert (meta.descriptors, meta.incomplete) == ({}, {ONE})
    execution.notify(PartitionsAvailable(ONE, partitions(ONE)))
    meta = execution.archive().persistent_result_partitions
    assert (set(meta.descriptors), meta.incomplete) == ({ONE}, frozenset())


def test_a_vertex_that_is_reset_has_nothing_left(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    told(execution, VertexProduced(ONE, kept(ONE)), VertexReset(ONE))
    vertex = vertex_of(execution, ONE)
    assert (vertex.outcome, vertex.partitions) == (VertexOutcome.CREATED, None)


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


def test_an_archive_does_not_change_any_more(execution: ExecutionGraph) -> None:
    execution.attach(job(ONE))
    archive = execution.archive()
    told(execution, VertexProduced(ONE, kept(ONE)), PartitionsAvailable(ONE, partitions(ONE)))
    assert archive.persistent_result_partitions.descriptors == {}
    assert archive.vertices[0].outcome is VertexOutcome.CREATED
