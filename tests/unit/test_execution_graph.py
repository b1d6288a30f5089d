"""The run-time side of a job remembers what became of each vertex; every listener hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import StaleEpochError
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
from holdfast.runtime.execution_graph import ExecutionGraph
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import kept as kept_output

# -- the graph -------------------------------------------------------------------------------------

JOB = JobID("ab" * 16)
ONE, TWO, THREE, FOUR = (IntermediateDataSetID(digit * 64) for digit in "1234")
PLAN = CanonicalNode("plan", "0" * 64, (), (), 0, (), False, 0, False)


def job(*produces: IntermediateDataSetID | None) -> JobGraph:
    """A job whose last vertex answers."""
    vertices = tuple(
        JobVertex(JobVertexID.random(), f"keep {each}", PLAN, each, ResultPartitionType.PIPELINED)
        for each in (*produces, None)
    )
    return JobGraph(JOB, "count", vertices, (), ())


def kept(dataset_id: IntermediateDataSetID) -> KeptDataSet:
    return kept_output(OutputID(dataset_id, "0badcafe"), 0, 2)


def located(dataset_id: IntermediateDataSetID) -> PartitionsAvailable:
    found = (ResultPartitionDescriptor(dataset_id, n, f"/kept/{n}", 10, 1) for n in (0, 2))
    return PartitionsAvailable(dataset_id, tuple(found))


def executed(*events: ExecutionEvent | JobGraph) -> ExecutionGraph:
    execution = ExecutionGraph(JOB, "count")
    for event in events:
        if isinstance(event, JobGraph):
            execution.attach(event)
        else:
            execution.notify(event)
    return execution


RUN, STARTED = VertexEnded(None, VertexOutcome.RUN), VertexStarted(None, "count")
PRODUCED = [VertexStarted(ONE, "name"), VertexProduced(ONE, kept(ONE)), located(ONE)]
LOST, FULL = DataSetLost(ONE, "it is gone"), Why.FAILED.of("the disk is full")
INITIALIZED = ExecutionJobVertexInitialized(JobVertexID("0a"), 3, TWO)
NOT_KEPT = VertexEnded(ONE, VertexOutcome.NOT_KEPT, FULL)
AGAIN = job(ONE)
# What becomes of the vertex of a dataset: its outcome, rows, attempts and recovered partitions,
# whether its partitions are found ("?": not all of them), and why it is not kept.
CASES: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "created None 0 None"),
    "produced": (PRODUCED, "produced 2 1 None found"),
    "produced and read": ([*PRODUCED, VertexRead(ONE, "x")], "produced 2 1 None found"),
    "recovered": ([VertexRecovered(ONE, kept(ONE))], "recovered 2 0 2"),
    "recovered, resubmitted": ([VertexRecovered(ONE, kept(ONE)), AGAIN], "recovered 2 0 2"),
    "without rows": ([PartitionsAvailable(ONE, ())], "created 0 0 None found"),
    "lost": ([*PRODUCED, LOST], "created None 1 None"),
    "lost, resubmitted": ([*PRODUCED, LOST, AGAIN, *PRODUCED], "produced 2 2 None found"),
    "reset": ([*PRODUCED, VertexReset(ONE)], "created None 1 None found"),
    "not kept": ([*PRODUCED, NOT_KEPT], "not kept None 1 None found the disk is full"),
    "not kept, resubmitted": ([NOT_KEPT, AGAIN], "created None 0 None"),
    "somewhere": ([*PRODUCED, LocationsIncomplete(ONE)], "produced 2 1 None ?"),
    "there again": ([*PRODUCED, LocationsIncomplete(ONE), located(ONE)], "produced 2 1 None found"),
    "of no vertex": ([VertexReset(TWO), INITIALIZED], "created None 0 None"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_a_vertex(case: str) -> None:
    events, expected = CASES[case]
    execution = executed(job(ONE), *events)
    archived = execution.archive()
    vertex, answering = archived.vertices
    meta = archived.persistent_result_partitions
    found = " found" * (ONE in meta.descriptors) + " ?" * (ONE in meta.incomplete)
    why = "" if vertex.reason is None else f" {vertex.reason}"
    counts = f"{vertex.rows} {vertex.attempts} {vertex.recovered}"
    assert f"{vertex.outcome.value} {counts}{found}{why}" == expected
    assert (vertex.dataset_id, vertex.name) == (ONE, f"keep {ONE}")
    assert (answering.dataset_id, answering.outcome.value) == (None, "created")
    assert execution.losses == [f"{ONE}: it is gone"] * events.count(LOST)
    # An archive doesn't change any more.
    execution.notify(VertexEnded(ONE, VertexOutcome.NOT_KEPT, FULL))
    assert archived.vertices[0] is vertex


def test_what_was_kept_before_and_what_a_job_is_cut_into_are_vertices_too() -> None:
    again = job(ONE)
    execution = executed(
        job(ONE),
        STARTED,
        again,
        *(VertexRead(TWO, "scan of orders"), located(TWO)),
        *(VertexStarted(THREE, "a cut"), VertexRecovered(FOUR, kept(FOUR))),
        VertexProduced(THREE, kept(THREE), JobVertexID("0a"), recovered=1, recovered_tasks=4),
        *(STARTED, TasksRecovered(7), RUN),
    )
    cut, recovered, created, read, answering = execution.archive().vertices
    assert (cut.outcome, cut.attempts, cut.recovered) == (VertexOutcome.PRODUCED, 1, 1)
    assert (recovered.outcome, recovered.name) == (VertexOutcome.RECOVERED, "a join")
    assert created.outcome is VertexOutcome.CREATED
    assert (read.outcome, read.name, read.attempts) == (VertexOutcome.READ, "scan of orders", 0)
    assert (cut.recovered_tasks, answering.recovered_tasks) == (4, 7)
    # The answering vertex comes last, and is known by the last attempt's id.
    assert (answering.dataset_id, answering.outcome) == (None, VertexOutcome.RUN)
    assert (answering.attempts, answering.vertex_id) == (2, again.vertices[-1].vertex_id)
    # A cut's partitions are none of the application's.
    assert set(execution.archive().persistent_result_partitions.descriptors) == {TWO}


# -- listeners -------------------------------------------------------------------------------------

STARTED = VertexStarted(None, "count")
ENDED = VertexEnded(None, VertexOutcome.RUN)


class Heard:
    """Hears everything, and may fail over it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[ExecutionEvent] = []
        self._error = error

    def notify(self, event: ExecutionEvent) -> None:
        self.events.append(event)
        if self._error is not None:
            raise self._error


def test_each_hears_each_event_for_as_long_as_it_listens_whatever_others_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listeners, one, two = ExecutionListeners(), Heard(), Heard()
    listeners.add(Heard(OSError("no space")))
    listeners.add(one)
    with pytest.raises(ValueError, match="an attempt"), listeners.listening(two):
        listeners.publish(STARTED)
        raise ValueError("an attempt")
    listeners.publish(ENDED)
    assert (one.events, two.events) == ([STARTED, ENDED], [STARTED])
    assert "no space" in caplog.text and "the job continues" in caplog.text
    listeners.add(Heard(StaleEpochError("a job", 1, 2)))
    with pytest.raises(StaleEpochError):
        listeners.publish(STARTED)
