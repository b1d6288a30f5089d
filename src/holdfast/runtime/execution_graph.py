"""The job while it runs, and the archive of it that is left when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from holdfast.graph.job_graph import JobGraph, JobVertex
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.runtime.partitions import (
    BlockingPersistentResultPartitionMeta,
    ResultPartitionDescriptor,
)


class VertexOutcome(Enum):
    """The outcome of a vertex."""

    CREATED = "created"
    PRODUCED = "produced"
    """Computed, and its result kept."""
    READ = "read from cache"
    """Not computed: its result had been kept before, or another job kept it meanwhile."""
    RECOVERED = "recovered"
    """Not computed: an earlier start of this job had finished it."""
    RUN = "run"
    """Computed for the answer; nothing was to be kept."""
    NOT_KEPT = "not kept"
    """Its result could not be kept; the vertices that needed it computed it."""
    FAILED = "failed"


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
        reason: why, where the outcome needs one.
        recovered: how many of its partitions an earlier start of this job had finished; None where
            the job is not one that is recovered.
        recovered_tasks: how many map tasks of shuffles on the way to it were not run, as an earlier
            start of this job had run them; None where what they write is not kept.
    """

    vertex_id: JobVertexID
    name: str
    dataset_id: IntermediateDataSetID | None
    outcome: VertexOutcome = VertexOutcome.CREATED
    partitions: int | None = None
    bytes: int | None = None
    rows: int | None = None
    attempts: int = 0
    reason: str | None = None
    recovered: int | None = None
    recovered_tasks: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivedExecutionGraph:
    """What is left of an ExecutionGraph when the job has ended.

    Source: FLINK-12406, "the locations flow in this path".
    """

    job_id: JobID
    name: str
    vertices: tuple[ExecutionVertex, ...]
    persistent_result_partitions: BlockingPersistentResultPartitionMeta


@dataclass(slots=True)
class ExecutionGraph:
    """The run-time side of a JobGraph. Pure: it is told what happened.

    A job that is resubmitted goes on in the same ExecutionGraph with a new JobGraph, so that the
    attempts of a dataset's vertex add up.
    """

    job_id: JobID
    name: str
    _vertices: dict[IntermediateDataSetID | None, ExecutionVertex] = field(default_factory=dict)
    _descriptors: dict[IntermediateDataSetID, tuple[ResultPartitionDescriptor, ...]] = field(
        default_factory=dict
    )
    _incomplete: set[IntermediateDataSetID] = field(default_factory=set)

    def attach(self, graph: JobGraph) -> None:
        """Takes over the vertices of a (re)submitted job graph."""
        answering = self._vertices.pop(None, None)
        for vertex in graph.vertices:
            known = answering if vertex.produces is None else self._vertices.get(vertex.produces)
            self._vertices[vertex.produces] = ExecutionVertex(
                vertex.vertex_id,
                vertex.name,
                vertex.produces,
                attempts=known.attempts if known else 0,
            )

    def started(self, vertex: JobVertex) -> None:
        """A vertex has been handed to Spark."""
        known = self._vertices[vertex.produces]
        self._vertices[vertex.produces] = replace(known, attempts=known.attempts + 1)

    def ended(self, vertex: JobVertex, outcome: VertexOutcome, reason: str | None = None) -> None:
        """A vertex has ended without leaving partitions behind."""
        known = self._vertices[vertex.produces]
        self._vertices[vertex.produces] = replace(known, outcome=outcome, reason=reason)

    def available(
        self,
        dataset_id: IntermediateDataSetID,
        name: str,
        outcome: VertexOutcome,
        descriptors: tuple[ResultPartitionDescriptor, ...],
    ) -> None:
        """A dataset's partitions are all there, because this job produced them or before it."""
        known = self._vertices.get(dataset_id) or ExecutionVertex(
            JobVertexID.of(dataset_id), name, dataset_id
        )
        # A dataset that this job produced stays produced when the job then reads it.
        if known.outcome is VertexOutcome.PRODUCED:
            outcome = VertexOutcome.PRODUCED
        self._vertices[dataset_id] = replace(
            known,
            outcome=outcome,
            partitions=len(descriptors),
            bytes=sum(each.bytes for each in descriptors),
            rows=sum(each.rows for each in descriptors),
        )
        self._descriptors[dataset_id] = descriptors
        self._incomplete.discard(dataset_id)

    def incomplete(self, dataset_id: IntermediateDataSetID) -> None:
        """Some location of a dataset could not be collected (FLINK-12406, "Failure Handling")."""
        self._incomplete.add(dataset_id)
        self._descriptors.pop(dataset_id, None)

    def lost(self, dataset_id: IntermediateDataSetID) -> None:
        """A dataset's partitions are gone; its vertex has to run again."""
        self._descriptors.pop(dataset_id, None)
        known = self._vertices.get(dataset_id)
        if known is not None:
            self._vertices[dataset_id] = replace(
                known, outcome=VertexOutcome.CREATED, partitions=None, bytes=None, rows=None
            )

    def archive(self) -> ArchivedExecutionGraph:
        """What is reported back. The vertex that answers comes last."""
        vertices = sorted(self._vertices.values(), key=lambda vertex: vertex.dataset_id is None)
        return ArchivedExecutionGraph(
            self.job_id,
            self.name,
            tuple(vertices),
            BlockingPersistentResultPartitionMeta(
                dict(self._descriptors), frozenset(self._incomplete)
            ),
        )
