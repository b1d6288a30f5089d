"""Roughly what a query reads, by which it is known what it can't have in common with others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True)
class AskedSources:
    """The sources of a query, each by its columns and by literals of the conditions right above it.

    For each part that two queries have in common, both read the same two sources, or the same one
    that is joined, or gathered, with no other.

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
        """Queries that share none of these compute nothing in common."""
        return frozenset(_alone_or_two(*self._parts()))

    @property
    def like(self) -> frozenset[str]:
        """The same with any literals."""
        every, alone = self._parts()
        return frozenset(_alone_or_two(_columns(every), _columns(alone)))

    def _parts(self) -> tuple[Sequence[str], Sequence[str]]:
        every, _, alone = self.text.partition(";")
        return every.split(), alone.split()


def _alone_or_two(every: Sequence[str], alone: Sequence[str]) -> Iterator[str]:
    yield from alone
    yield from map(" ".join, combinations(every, 2))


def _columns(sources: Sequence[str]) -> Sequence[str]:
    return [each.partition(".")[0] for each in sources]
