"""Which edges enter and leave the nodes of a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class Edge(Protocol):
    """Leads from one numbered thing to another."""

    @property
    def source(self) -> int:
        """Where it begins."""

    @property
    def target(self) -> int:
        """Where it ends."""


E = TypeVar("E", bound=Edge)


class Adjacency(Generic[E]):
    """An index of edges by their ends, each list in the order in which the edges were given.

    Args:
        edges: all edges.
    """

    def __init__(self, edges: Iterable[E]) -> None:
        entering: defaultdict[int, list[E]] = defaultdict(list)
        leaving: defaultdict[int, list[E]] = defaultdict(list)
        for edge in edges:
            entering[edge.target].append(edge)
            leaving[edge.source].append(edge)
        self._entering = {node: tuple(found) for node, found in entering.items()}
        self._leaving = {node: tuple(found) for node, found in leaving.items()}

    def entering(self, node: int) -> tuple[E, ...]:
        """The edges that end at a node.

        Args:
            node: its number.
        """
        return self._entering.get(node, ())

    def leaving(self, node: int) -> tuple[E, ...]:
        """The edges that begin at a node.

        Args:
            node: its number.
        """
        return self._leaving.get(node, ())
