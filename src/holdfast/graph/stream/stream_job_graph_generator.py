"""Chains the operators of a stream graph into vertices."""

from __future__ import annotations

from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.partitioner import Forward
from holdfast.graph.stream.stream_graph import (
    CacheNode,
    CacheReaderSource,
    ChainingStrategy,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from holdfast.graph.stream.stream_job_graph import StreamJobEdge, StreamJobGraph, StreamJobVertex


class StreamJobGraphGenerator:
    """Makes the job graph of a stream graph.

    A node runs in one vertex with the node that it takes its records from where nothing moves on
    the way, neither of the two has others to deal with, and its chaining strategy allows it.

    Source: FLIP-205, "Stream Graph -> JobGraph".

    Args:
        stream_graph: the operators.
    """

    def __init__(self, stream_graph: StreamGraph) -> None:
        self._graph = stream_graph

    def generate(self) -> StreamJobGraph:
        """The job that does what the operators do."""
        chains: dict[int, list[StreamNode]] = {}
        for node in self._graph.nodes:
            entering = self._graph.in_edges(node.id)
            if len(entering) == 1 and self._is_chainable(entering[0]):
                chain = chains[node.id] = chains[entering[0].source]
                chain.append(node)
            else:
                chains[node.id] = [node]
        vertices: dict[int, StreamJobVertex] = {}
        for node in self._graph.nodes:
            if chains[node.id][0] is node:
                vertices[node.id] = StreamJobVertex(
                    len(vertices) + 1, tuple(chains[node.id]), _descriptor(node)
                )
        edges = tuple(
            _job_edge(edge, vertices[chains[edge.source][0].id], vertices[edge.target])
            for edge in self._graph.edges
            if edge.target in vertices
        )
        return StreamJobGraph(tuple(vertices.values()), edges)

    def _is_chainable(self, edge: StreamEdge) -> bool:
        target = self._graph.node(edge.target)
        return (
            isinstance(edge.partitioner, Forward)
            and edge.tag is None
            and target.chaining_strategy is ChainingStrategy.ALWAYS
            and len(self._graph.out_edges(edge.source)) == 1
        )


def _descriptor(head: StreamNode) -> IntermediateDataSetDescriptor | None:
    return head.what.descriptor if isinstance(head.what, CacheReaderSource) else None


def _job_edge(edge: StreamEdge, source: StreamJobVertex, target: StreamJobVertex) -> StreamJobEdge:
    kept = target.head.what
    if isinstance(kept, CacheNode):
        return StreamJobEdge(
            source.id,
            target.id,
            edge.partitioner,
            edge.tag,
            ResultPartitionType.BLOCKING_PERSISTENT,
            kept.transformation.dataset_id,
        )
    return StreamJobEdge(
        source.id, target.id, edge.partitioner, edge.tag, ResultPartitionType.PIPELINED
    )
