"""Roughly what a query reads: what it can't have in common with another is known by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class AskedSources:
    """The sources of a query, each by its columns and by literals of the conditions right above it.

    Whatever two queries compute alike, they read at least two sources for it that both have, or one
    that both join or gather with no other.

    Attributes:
        text: the sources, and after a semicolon those that are joined, or gathered, with no other.

    >>> one, other = AskedSources("a.1 b.1;a.1"), AskedSources("a.1 b.2;b.2")
    >>> sorted(one.known_by)
    ['a.1', 'a.1 b.1']
    >>> one.known_by.isdisjoint(other.known_by), one.like.isdisjoint(other.like)
    (True, False)
    """

    text: str

    @property
    def known_by(self) -> frozenset[str]:
        """Nothing is computed alike by queries that have none of these in common."""
        return frozenset(_said(*self._parts()))

    @property
    def like(self) -> frozenset[str]:
        """The same for whatever literals."""
        every, alone = self._parts()
        return frozenset(_said(_columns(every), _columns(alone)))

    def _parts(self) -> tuple[Sequence[str], Sequence[str]]:
        every, _, alone = self.text.partition(";")
        return every.split(), alone.split()


def _said(every: Sequence[str], alone: Sequence[str]) -> Iterator[str]:
    yield from alone
    yield from map(" ".join, combinations(every, 2))


def _columns(sources: Sequence[str]) -> Sequence[str]:
    return [each.partition(".")[0] for each in sources]
