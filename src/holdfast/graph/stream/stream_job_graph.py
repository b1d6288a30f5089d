"""A stream's job: operators chained into vertices, and the results that travel between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.diagram.diagram import Arrow, Box, Diagram
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.edge_graph import EdgeGraph
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.partitioner import Partitioner
from holdfast.graph.stream.stream_graph import StreamNode, edge_labels
from holdfast.ids import IntermediateDataSetID


@dataclass(frozen=True, slots=True)
class StreamJobVertex:
    """Operators that run one after the other in the same pass.

    Attributes:
        id: its number in its graph, from 1. A vertex comes after all that it takes records from.
        nodes: the chain, at least one node. Records enter at the first and leave from the last,
            the main output of each but the last being the next one's input.
        descriptor: how to read the cached result that the chain begins with, if it does.
    """

    id: int
    nodes: tuple[StreamNode, ...]
    descriptor: IntermediateDataSetDescriptor | None = None

    @property
    def name(self) -> str:
        """What it does, for people."""
        return " -> ".join(node.name for node in self.nodes)

    @property
    def parallelism(self) -> int:
        """How many subtasks it runs in."""
        return self.head.parallelism

    @property
    def head(self) -> StreamNode:
        """Where records enter."""
        return self.nodes[0]

    @property
    def tail(self) -> StreamNode:
        """Where records leave."""
        return self.nodes[-1]


@dataclass(frozen=True, slots=True)
class StreamJobEdge:
    """A result of one vertex that another one reads.

    Attributes:
        source: the id of the vertex whose last node it comes from.
        target: the id of the vertex whose first node reads it.
        partitioner: which of the target's subtasks a record goes to.
        tag: which side output it is; None: the main output.
        result_type: how long its partitions live.
        dataset_id: what it is kept as; None where it isn't kept, or where that isn't known yet.
    """

    source: int
    target: int
    partitioner: Partitioner
    tag: OutputTag | None
    result_type: ResultPartitionType
    dataset_id: IntermediateDataSetID | None = None


@dataclass(frozen=True)
class StreamJobGraph(EdgeGraph[StreamJobEdge]):
    """A stream's job: vertices, and the results that travel between them.

    Attributes:
        vertices: by id.
        edges: by target, for each target in the order of its inputs. Where a stream was united with
            itself, an edge is there several times.
    """

    vertices: tuple[StreamJobVertex, ...]
    edges: tuple[StreamJobEdge, ...]

    def vertex(self, vertex_id: int) -> StreamJobVertex:
        """A vertex by its id.

        Args:
            vertex_id: its number, from 1.

        Raises:
            KeyError: when there is no such vertex.
        """
        return self._vertices_by_id[vertex_id]

    @property
    def diagram(self) -> Diagram:
        """The graph, to be printed or drawn."""
        return Diagram(
            "JobGraph",
            tuple(
                Box(vertex.id, tuple(node.part for node in vertex.nodes), _facts(vertex))
                for vertex in self.vertices
            ),
            tuple(
                Arrow(
                    edge.source,
                    edge.target,
                    _labels(edge),
                    edge.result_type is ResultPartitionType.BLOCKING_PERSISTENT,
                )
                for edge in self.edges
            ),
        )

    @cached_property
    def _vertices_by_id(self) -> Mapping[int, StreamJobVertex]:
        return {vertex.id: vertex for vertex in self.vertices}


def _facts(vertex: StreamJobVertex) -> tuple[str, ...]:
    parallelism = f"parallelism {vertex.parallelism}"
    if vertex.descriptor is None:
        return (parallelism,)
    return (f"reads dataset {vertex.descriptor.dataset_id}", parallelism)


def _labels(edge: StreamJobEdge) -> tuple[str, ...]:
    labels = [*edge_labels(edge.partitioner, edge.tag), edge.result_type.value]
    if edge.dataset_id is not None:
        labels.append(f"dataset {edge.dataset_id}")
    return tuple(labels)
