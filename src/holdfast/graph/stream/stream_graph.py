"""A stream's program as operators and the ways in which records travel between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.stream.edge_graph import EdgeGraph
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Operator
from holdfast.graph.stream.partitioner import Partitioner
from holdfast.graph.stream.transformations import CacheTransformation


class ChainingStrategy(Enum):
    """Whether a node runs in one vertex with the node that it takes its records from."""

    ALWAYS = "ALWAYS"
    """It does, where that is possible."""
    HEAD = "HEAD"
    """It doesn't: it begins a vertex of its own, which others may be chained to."""


@dataclass(frozen=True, slots=True)
class SourceRead:
    """What a node does that reads a source.

    Attributes:
        source: the source; opaque here.
    """

    source: Any


@dataclass(frozen=True, slots=True)
class SinkWrite:
    """What a node does that writes to a sink.

    Attributes:
        sink: the sink; opaque here.
    """

    sink: Any


@dataclass(frozen=True, slots=True)
class CacheNode:
    """What a virtual node does: nothing. What arrives at it is to be kept, and then goes on.

    Source: FLIP-205, "DataStream -> Stream Graph".

    Attributes:
        transformation: whose descriptor is to be populated once the cache is created.
    """

    transformation: CacheTransformation


@dataclass(frozen=True, slots=True)
class CacheReaderSource:
    """What a source does that reads a cached intermediate result.

    Source: FLIP-205, "DataStream -> Stream Graph".

    Attributes:
        transformation: whose result it is.
        descriptor: how to read it, as it was when the graph was made.
    """

    transformation: CacheTransformation
    descriptor: IntermediateDataSetDescriptor


NodeRole: TypeAlias = Operator | SourceRead | SinkWrite | CacheNode | CacheReaderSource

_KINDS = {
    SourceRead: PartKind.SOURCE,
    SinkWrite: PartKind.SINK,
    CacheNode: PartKind.CACHE,
    CacheReaderSource: PartKind.CACHE_READER,
}


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One operator.

    Attributes:
        id: its number in its graph, from 1. A node comes after all that it takes records from.
        name: what it does, for people.
        parallelism: how many subtasks it runs in.
        chaining_strategy: whether it may run in one vertex with its input.
        what: what it does.
    """

    id: int
    name: str
    parallelism: int
    chaining_strategy: ChainingStrategy
    what: NodeRole

    @property
    def part(self) -> Part:
        """How it is shown."""
        return Part(self.name, _KINDS.get(type(self.what), PartKind.OPERATOR))


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """The way of records from one operator to another.

    Attributes:
        source: the id of the node that they leave.
        target: the id of the node that they enter.
        partitioner: which of the target's subtasks a record goes to.
        tag: which side output of the source they are; None: its main output.
    """

    source: int
    target: int
    partitioner: Partitioner
    tag: OutputTag | None = None


@dataclass(frozen=True)
class StreamGraph(EdgeGraph[StreamEdge]):
    """Operators, and the ways of records between them.

    Attributes:
        nodes: by id.
        edges: by target, for each target in the order of its inputs. Where a stream was united with
            itself, an edge is there several times.
    """

    nodes: tuple[StreamNode, ...]
    edges: tuple[StreamEdge, ...]

    def node(self, node_id: int) -> StreamNode:
        """A node by its id.

        Args:
            node_id: its number, from 1.

        Raises:
            KeyError: when there is no such node.
        """
        return self._nodes_by_id[node_id]

    @property
    def diagram(self) -> Diagram:
        """The graph, to be printed or drawn."""
        return Diagram(
            "StreamGraph",
            tuple(Box(node.id, (node.part,), _facts(node)) for node in self.nodes),
            tuple(
                Arrow(edge.source, edge.target, edge_labels(edge.partitioner, edge.tag))
                for edge in self.edges
            ),
        )

    @cached_property
    def _nodes_by_id(self) -> Mapping[int, StreamNode]:
        return {node.id: node for node in self.nodes}


def edge_labels(partitioner: Partitioner, tag: OutputTag | None) -> tuple[str, ...]:
    """What is to be known of an edge, each in a few words.

    Args:
        partitioner: how records travel along it.
        tag: which side output they are; None: the main output.
    """
    return (partitioner.label,) if tag is None else (partitioner.label, f"side {tag.tag_id!r}")


def _facts(node: StreamNode) -> tuple[str, ...]:
    facts = [f"parallelism {node.parallelism}", node.chaining_strategy.value]
    if isinstance(node.what, CacheReaderSource):
        facts.insert(0, f"reads dataset {node.what.descriptor.dataset_id}")
    elif isinstance(node.what, CacheNode):
        facts.insert(0, PartKind.CACHE.value)
    return tuple(facts)
