"""The job as the JobMaster gets it: vertices, and the edges that keep what flows along them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode


class ResultPartitionType(Enum):
    """How long the partitions of a vertex's result live.

    Source: FLIP-36, "In order to implement the default intermediate result storage".
    """

    BLOCKING_PERSISTENT = "BLOCKING_PERSISTENT"
    """Written whole before anybody reads it, and not deleted when the job exits."""
    PIPELINED = "PIPELINED"
    """Handed to whoever asked for the job; nothing is kept."""


@dataclass(frozen=True, slots=True)
class JobVertex:
    """One Spark job: everything between two blocking edges, Spark's own shuffles included.

    Attributes:
        vertex_id: identifies the vertex within its job.
        name: what it does, for people.
        plan: what it computes.
        produces: the dataset that it leaves behind; None for the vertex that answers.
        result_type: how long its result lives.
    """

    vertex_id: JobVertexID
    name: str
    plan: CanonicalNode
    produces: IntermediateDataSetID | None
    result_type: ResultPartitionType


@dataclass(frozen=True, slots=True)
class JobEdge:
    """A dataset that one vertex produces and another reads."""

    source: JobVertexID
    target: JobVertexID
    dataset_id: IntermediateDataSetID


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A job: vertices in an order in which each comes after all that it reads from.

    Attributes:
        job_id: identifies the job.
        name: what the person asked for.
        vertices: the last one answers, the ones before it produce datasets.
        edges: which vertex reads which other's dataset.
        reads: datasets that were kept before this job and that it reads.
    """

    job_id: JobID
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    reads: tuple[IntermediateDataSetID, ...]

    def producers(self) -> Iterator[tuple[JobVertex, IntermediateDataSetID]]:
        """The vertices that leave a dataset behind, in order, each with its dataset."""
        for vertex in self.vertices:
            if vertex.produces is not None:
                yield vertex, vertex.produces
