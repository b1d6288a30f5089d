"""What every graph of numbered things can tell: which edges enter and leave one, and its text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from holdfast.graph.diagram.diagram import Diagram
from holdfast.graph.diagram.diagram_text import diagram_text


class Edge(Protocol):
    """Leads from one numbered thing to another."""

    @property
    def source(self) -> int:
        """Where it begins."""

    @property
    def target(self) -> int:
        """Where it ends."""


E = TypeVar("E", bound=Edge)


class EdgeGraph(ABC, Generic[E]):
    """A graph that is known by its edges, each list in the order in which they were given."""

    edges: tuple[E, ...]

    @property
    @abstractmethod
    def diagram(self) -> Diagram:
        """The graph, to be printed or drawn."""

    @property
    def text(self) -> str:
        """The graph as lines of text. The same program has the same text everywhere."""
        return diagram_text(self.diagram)

    def in_edges(self, number: int) -> tuple[E, ...]:
        """The edges that enter a node or a vertex.

        Args:
            number: its number, from 1.
        """
        return self._entering.get(number, ())

    def out_edges(self, number: int) -> tuple[E, ...]:
        """The edges that leave a node or a vertex.

        Args:
            number: its number, from 1.
        """
        return self._leaving.get(number, ())

    @cached_property
    def _entering(self) -> Mapping[int, tuple[E, ...]]:
        return _grouped(self.edges, lambda edge: edge.target)

    @cached_property
    def _leaving(self) -> Mapping[int, tuple[E, ...]]:
        return _grouped(self.edges, lambda edge: edge.source)


def _grouped(edges: Iterable[E], end: Callable[[E], int]) -> Mapping[int, tuple[E, ...]]:
    groups: defaultdict[int, list[E]] = defaultdict(list)
    for edge in edges:
        groups[end(edge)].append(edge)
    return {number: tuple(found) for number, found in groups.items()}
