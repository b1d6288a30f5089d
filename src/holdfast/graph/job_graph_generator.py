"""Cuts a table's plan into vertices at the nodes that are cached."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.graph.job_graph import JobEdge, JobGraph, JobVertex, ResultPartitionType
from holdfast.graph.transformation import TableCacheTransformation
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.substitution import find_matches


class JobGraphGenerator:
    """Makes job graphs. Pure: what is cached and what is kept is told.

    Args:
        cached: the transformation that keeps a node, where somebody cached the same computation.
        kept: whether a dataset is there to be read.
    """

    def __init__(
        self,
        cached: Callable[[CanonicalNode], TableCacheTransformation | None],
        kept: Callable[[IntermediateDataSetID], bool],
    ) -> None:
        self._cached = cached
        self._kept = kept

    def generate(self, job_id: JobID, name: str, plan: CanonicalNode) -> JobGraph:
        """The job that answers `plan` and leaves behind every cached node that isn't kept yet.

        A node that the plan contains several times, or under other names, is produced once. A
        cached node inside another one is produced first, as a vertex of its own.

        Args:
            job_id: identifies the job.
            name: what the person asked for.
            plan: the canonical plan of the answer.
        """
        return _Generation(self._cached, self._kept).run(job_id, name, plan)


class _Generation:
    def __init__(
        self,
        cached: Callable[[CanonicalNode], TableCacheTransformation | None],
        kept: Callable[[IntermediateDataSetID], bool],
    ) -> None:
        self._cached = cached
        self._kept = kept
        self._producers: dict[IntermediateDataSetID, JobVertex] = {}
        self._edges: list[JobEdge] = []
        self._reads: dict[IntermediateDataSetID, None] = {}

    def run(self, job_id: JobID, name: str, plan: CanonicalNode) -> JobGraph:
        answering = JobVertex(
            JobVertexID.of(job_id), name, plan, None, ResultPartitionType.PIPELINED
        )
        self._inputs_of(answering, below_root=False)
        vertices = (*self._producers.values(), answering)
        return JobGraph(job_id, name, vertices, tuple(self._edges), tuple(self._reads))

    def _inputs_of(self, vertex: JobVertex, *, below_root: bool) -> None:
        read_here: set[IntermediateDataSetID] = set()
        for node in find_matches(
            vertex.plan, lambda node: self._cached(node) is not None, below_root=below_root
        ):
            transformation = self._cached(node)
            if transformation is None or transformation.dataset_id in read_here:
                continue
            read_here.add(transformation.dataset_id)
            if self._kept(transformation.dataset_id):
                self._reads[transformation.dataset_id] = None
                continue
            source = self._producer(transformation)
            self._edges.append(
                JobEdge(source.vertex_id, vertex.vertex_id, transformation.dataset_id)
            )

    def _producer(self, transformation: TableCacheTransformation) -> JobVertex:
        vertex = self._producers.get(transformation.dataset_id)
        if vertex is None:
            vertex = JobVertex(
                JobVertexID.of(transformation.dataset_id),
                transformation.name,
                transformation.input,
                transformation.dataset_id,
                ResultPartitionType.BLOCKING_PERSISTENT,
            )
            # Its inputs first: the dictionary's order is the order of execution.
            self._inputs_of(vertex, below_root=True)
            self._producers[transformation.dataset_id] = vertex
        return vertex
