"""The graph in the making: what translators are given, and what they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.errors import InvalidTransformationError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.partitioner import Forward, Partitioner, Rebalance
from holdfast.graph.stream.stream_graph import (
    CacheReaderSource,
    ChainingStrategy,
    NodeRole,
    StreamEdge,
    StreamGraph,
    StreamNode,
)
from holdfast.graph.stream.transformations import Transformation

T = TypeVar("T", bound=Transformation, contravariant=True)


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where a consumer gets records from.

    Attributes:
        node: which node they leave.
        partitioner: how they are to travel; None: as the parallelisms want it.
        tag: which side output of the node they are; None: its main output.
    """

    node: StreamNode
    partitioner: Partitioner | None = None
    tag: OutputTag | None = None


class Translation:
    """A graph in the making.

    Args:
        default_parallelism: of the nodes whose parallelism nobody has set.
    """

    def __init__(self, default_parallelism: int) -> None:
        self.default_parallelism = default_parallelism
        self._nodes: list[StreamNode] = []
        self._edges: list[StreamEdge] = []
        self._outlets: dict[Transformation, tuple[Outlet, ...]] = {}

    @property
    def graph(self) -> StreamGraph:
        """What has been made so far."""
        return StreamGraph(tuple(self._nodes), tuple(self._edges))

    def outlets(self, transformation: Transformation) -> tuple[Outlet, ...]:
        """Where the records of a transformation come from.

        Args:
            transformation: one that has been translated.
        """
        return self._outlets[transformation]

    def finish(self, transformation: Transformation, outlets: Iterable[Outlet]) -> None:
        """Notes that a transformation has been translated.

        Args:
            transformation: which one.
            outlets: where its records come from.
        """
        self._outlets[transformation] = tuple(outlets)

    def add_node(
        self,
        name: str,
        parallelism: int,
        chaining_strategy: ChainingStrategy,
        what: NodeRole,
        inputs: Iterable[Outlet] = (),
    ) -> StreamNode:
        """Adds a node, and an edge from each of its inputs.

        Args:
            name: what it does, for people.
            parallelism: how many subtasks it runs in.
            chaining_strategy: whether it may run in one vertex with its input.
            what: what it does.
            inputs: where it gets its records from.

        Raises:
            InvalidTransformationError: when records are to stay in subtasks of which the node has
                another number.
        """
        node = StreamNode(len(self._nodes) + 1, name, parallelism, chaining_strategy, what)
        self._edges.extend(
            StreamEdge(outlet.node.id, node.id, _partitioner(outlet, node), outlet.tag)
            for outlet in inputs
        )
        self._nodes.append(node)
        return node


class TransformationTranslator(Protocol[T]):
    """Makes nodes and edges of the transformations of one type."""

    def needs(self, transformation: T) -> tuple[Transformation, ...]:
        """What must have been translated before.

        Args:
            transformation: what is to be translated.
        """

    def translate(self, transformation: T, translation: Translation) -> Iterable[Outlet]:
        """Adds a transformation to the graph.

        Args:
            transformation: what is to be translated.
            translation: the graph in the making.

        Returns:
            Where consumers get the transformation's records from.

        Raises:
            InvalidTransformationError: when it doesn't fit what is there.
        """


def _partitioner(outlet: Outlet, target: StreamNode) -> Partitioner:
    if outlet.node.parallelism == target.parallelism:
        return Forward() if outlet.partitioner is None else outlet.partitioner
    if outlet.partitioner is None:
        return Rebalance()
    if isinstance(outlet.partitioner, Forward):
        # A cache was made by another job, whose parallelism must not make this one fail.
        if isinstance(outlet.node.what, CacheReaderSource):
            return Rebalance()
        raise InvalidTransformationError(
            target.name,
            f"it has parallelism {target.parallelism}, but its records are forwarded from "
            f"{outlet.node.name!r}, which has {outlet.node.parallelism}: expected the same "
            "parallelism. Set it on both, or call rebalance()",
        )
    return outlet.partitioner
