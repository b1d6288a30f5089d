"""What a job keeps while it is answered, instead of before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.catalog.near_misses import AskedFor
from holdfast.graph.job_graph import JobGraph, JobVertex
from holdfast.graph.one_pass import one_pass_node
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.runtime.result_book import Claim
from holdfast.runtime.vertex_runner import TeedVertex

D = TypeVar("D")


class PassFailedError(Exception):
    """An answer that was to keep something on its way has failed: it is to be computed alone."""


@dataclass(frozen=True, slots=True)
class OnTheWay(Generic[D]):
    """A vertex that is produced while the job is answered.

    Attributes:
        claim: the right to produce it.
        vertex: what it is the result of.
        teed: the engine's side of it.
        asked: what was asked for of other programs.
    """

    claim: Claim
    vertex: JobVertex
    teed: TeedVertex[D]
    asked: AskedFor | None


def kept_on_the_way(
    graph: JobGraph,
    root: CanonicalNode,
    is_cached: Callable[[CanonicalNode], bool],
    may_be_teed: Callable[[IntermediateDataSetID, CanonicalNode], bool],
) -> IntermediateDataSetID | None:
    """The dataset that the answering vertex of a job can keep while it runs. Pure.

    Args:
        graph: the job.
        root: the canonical plan of the answer.
        is_cached: whether a node's rows are, or are going to be, kept.
        may_be_teed: whether a dataset may be kept at that node of the plan.

    Returns:
        one that only the answering vertex reads, or None.
    """
    answering = graph.vertices[-1].vertex_id
    read_before = {edge.dataset_id for edge in graph.edges if edge.target != answering}
    for vertex, dataset_id in reversed(list(graph.producers())):
        if dataset_id not in read_before:
            node = one_pass_node(root, vertex.plan.digest, is_cached)
            if node is not None and may_be_teed(dataset_id, node):
                return dataset_id
    return None
