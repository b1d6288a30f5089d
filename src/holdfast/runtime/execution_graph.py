"""The job while it runs, and the archive of it that is left when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.graph.job_graph import JobGraph
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.reasons import Reason
from holdfast.plan.validity import Validity
from holdfast.runtime.execution_events import (
    DataSetLost,
    ExecutionEvent,
    LocationsIncomplete,
    PartitionsAvailable,
    TasksRecovered,
    VertexEnded,
    VertexMissed,
    VertexProduced,
    VertexRead,
    VertexRecovered,
    VertexReset,
    VertexStarted,
)
from holdfast.runtime.partitions import (
    BlockingPersistentResultPartitionMeta,
    ResultPartitionDescriptor,
)
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.storage.kept_dataset import KeptDataSet

_THERE = (VertexOutcome.PRODUCED, VertexOutcome.RECOVERED)


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """A vertex of a job with the state of its execution.

    Attributes:
        vertex_id: identifies the vertex within its job.
        name: a short description.
        dataset_id: the dataset that it stands for; None for the vertex that answers.
        outcome: its outcome.
        partitions: how many result partitions it has; None where none are kept.
        bytes: their size; None where none are kept.
        rows: how many rows they hold; None where none are kept.
        attempts: how often it was started in this job.
        reasons: why its result is not kept, or not read everywhere.
        kept_by: who has kept what was read, and when, where that was another program.
        missed: what other programs have kept that is like it, and why it was not read.
        recovered: how many of its partitions an earlier start of this job had finished; None where
            the job is not one that is recovered.
        recovered_tasks: how many tasks of shuffles and broadcasts on the way to it were not run, as
            an earlier start of this job had run them; None where what they write is not kept.
        cpu_seconds: of the tasks that produced its result; None where that isn't known.
        taken_over: how many of its partitions had been kept before, and were still there when
            others were lost; None where all were produced.
        saved_seconds: about how much longer the job would have taken, had it computed what it has
            read from cache; None for other outcomes.
    """

    vertex_id: JobVertexID
    name: str
    dataset_id: IntermediateDataSetID | None
    outcome: VertexOutcome = VertexOutcome.CREATED
    partitions: int | None = None
    bytes: int | None = None
    rows: int | None = None
    attempts: int = 0
    reasons: tuple[Reason, ...] = ()
    kept_by: str | None = None
    missed: str | None = None
    recovered: int | None = None
    recovered_tasks: int | None = None
    cpu_seconds: float | None = None
    taken_over: int | None = None
    saved_seconds: float | None = None

    @property
    def reason(self) -> str | None:
        """Why its result is not kept; None where it is, or there is nothing to keep."""
        found = (each.text for each in self.reasons if each.where is Validity.NOWHERE)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class ArchivedExecutionGraph:
    """What is left of an ExecutionGraph when the job has ended.

    Source: FLINK-12406, "the locations flow in this path".
    """

    job_id: JobID
    name: str
    vertices: tuple[ExecutionVertex, ...]
    persistent_result_partitions: BlockingPersistentResultPartitionMeta


class ExecutionGraph:
    """The run-time side of a JobGraph, as the events of the job make it. Pure.

    A job that is resubmitted goes on in the same ExecutionGraph with a new JobGraph, so that the
    attempts of a dataset's vertex add up.

    Args:
        job_id: identifies the job.
        name: the action that was called.

    >>> graph = ExecutionGraph(JobID("ab" * 16), "count")
    >>> graph.notify(VertexStarted(None, "count"))
    >>> graph.notify(VertexEnded(None, VertexOutcome.RUN))
    >>> [(vertex.outcome.value, vertex.attempts) for vertex in graph.archive().vertices]
    [('run', 1)]
    """

    def __init__(self, job_id: JobID, name: str) -> None:
        self.job_id = job_id
        self.name = name
        self.losses: list[str] = []
        """Kept data that turned out to be lost on the way."""
        self._vertices: dict[IntermediateDataSetID | None, ExecutionVertex] = {}
        self._cached: set[IntermediateDataSetID | None] = set()
        self._descriptors: dict[IntermediateDataSetID, tuple[ResultPartitionDescriptor, ...]] = {}
        self._incomplete: set[IntermediateDataSetID] = set()

    def attach(self, graph: JobGraph) -> None:
        """Takes over the vertices of a (re)submitted job graph."""
        answering = self._vertices.pop(None, None)
        # What the last attempt has read is no part of the answer unless this one reads it as well.
        for key, each in list(self._vertices.items()):
            if each.outcome is VertexOutcome.READ:
                del self._vertices[key]
        for vertex in graph.vertices:
            known = answering if vertex.produces is None else self._vertices.get(vertex.produces)
            new = ExecutionVertex(vertex.vertex_id, vertex.name, vertex.produces)
            if known is not None and known.outcome in _THERE:
                new = replace(known, vertex_id=vertex.vertex_id, name=vertex.name)
            elif known is not None:
                new = replace(new, attempts=known.attempts)
            self._vertices[vertex.produces] = new
            self._cached.add(vertex.produces)

    def notify(self, event: ExecutionEvent) -> None:
        """One more thing has happened."""
        match event:
            case VertexStarted(dataset_id, name):
                known = self._vertex(dataset_id, name)
                self._vertices[dataset_id] = replace(known, attempts=known.attempts + 1)
            case VertexProduced(dataset_id, kept):
                self._is_there(
                    dataset_id, kept, VertexOutcome.PRODUCED, event.recovered, event.recovered_tasks
                )
                self._vertices[dataset_id] = replace(
                    self._vertices[dataset_id],
                    cpu_seconds=event.cpu_seconds,
                    taken_over=event.taken_over,
                )
            case VertexRecovered(dataset_id, kept):
                partitions = len(kept.manifest.partitions)
                self._is_there(dataset_id, kept, VertexOutcome.RECOVERED, partitions, None)
            case VertexRead(dataset_id, name, kept_by, seconds):
                self._cached.add(dataset_id)
                known = self._vertex(dataset_id, name)
                # What this job produced stays produced when the job then reads it.
                if known.outcome not in _THERE:
                    self._vertices[dataset_id] = replace(
                        known,
                        outcome=VertexOutcome.READ,
                        kept_by=kept_by,
                        saved_seconds=seconds,
                    )
            case VertexMissed(dataset_id, why):
                self._vertices[dataset_id] = replace(
                    self._vertex(dataset_id, self.name), missed=why
                )
            case VertexEnded(dataset_id, outcome, reason):
                known = _without_partitions(self._vertex(dataset_id, self.name))
                reasons = () if reason is None else (reason,)
                self._vertices[dataset_id] = replace(known, outcome=outcome, reasons=reasons)
            case VertexReset(dataset_id):
                self._reset(dataset_id)
            case TasksRecovered(tasks):
                known = self._vertex(None, self.name)
                self._vertices[None] = replace(known, recovered_tasks=tasks)
            case PartitionsAvailable(dataset_id, descriptors, reasons):
                self._available(dataset_id, descriptors, reasons)
            case LocationsIncomplete(dataset_id):
                self._incomplete.add(dataset_id)
                self._descriptors.pop(dataset_id, None)
            case DataSetLost(dataset_id, damage):
                self.losses.append(f"{dataset_id}: {damage}")
                self._descriptors.pop(dataset_id, None)
                self._reset(dataset_id)

    def cpu_seconds(self, dataset_id: IntermediateDataSetID) -> float | None:
        """What the tasks took that produced a dataset; None where that isn't known."""
        known = self._vertices.get(dataset_id)
        return None if known is None else known.cpu_seconds

    def archive(self) -> ArchivedExecutionGraph:
        """What is reported back: what the job was cut into, what is cached, and what answers."""
        vertices = sorted(self._vertices.values(), key=self._place)
        return ArchivedExecutionGraph(
            self.job_id,
            self.name,
            tuple(vertices),
            BlockingPersistentResultPartitionMeta(
                dict(self._descriptors), frozenset(self._incomplete)
            ),
        )

    def _place(self, vertex: ExecutionVertex) -> int:
        if vertex.dataset_id is None:
            return 2
        return 1 if vertex.dataset_id in self._cached else 0

    def _vertex(self, dataset_id: IntermediateDataSetID | None, name: str) -> ExecutionVertex:
        known = self._vertices.get(dataset_id)
        if known is not None:
            return known
        vertex_id = JobVertexID.of(dataset_id) if dataset_id else JobVertexID(self.job_id.hex)
        return ExecutionVertex(vertex_id, name, dataset_id)

    def _is_there(
        self,
        dataset_id: IntermediateDataSetID,
        kept: KeptDataSet,
        outcome: VertexOutcome,
        recovered: int | None,
        recovered_tasks: int | None,
    ) -> None:
        self._vertices[dataset_id] = replace(
            self._vertex(dataset_id, kept.manifest.dataset.computes),
            outcome=outcome,
            partitions=len(kept.manifest.partitions),
            bytes=kept.bytes,
            rows=kept.rows,
            reasons=(),
            recovered=recovered,
            recovered_tasks=recovered_tasks,
        )

    def _available(
        self,
        dataset_id: IntermediateDataSetID,
        descriptors: tuple[ResultPartitionDescriptor, ...],
        reasons: tuple[Reason, ...],
    ) -> None:
        self._vertices[dataset_id] = replace(
            self._vertices[dataset_id],
            partitions=len(descriptors),
            bytes=sum(each.bytes for each in descriptors),
            rows=sum(each.rows for each in descriptors),
            reasons=reasons,
        )
        self._descriptors[dataset_id] = descriptors
        self._incomplete.discard(dataset_id)

    def _reset(self, dataset_id: IntermediateDataSetID) -> None:
        known = self._vertices.get(dataset_id)
        if known is not None:
            self._vertices[dataset_id] = replace(
                _without_partitions(known), outcome=VertexOutcome.CREATED
            )


def _without_partitions(vertex: ExecutionVertex) -> ExecutionVertex:
    return replace(vertex, partitions=None, bytes=None, rows=None, taken_over=None)
