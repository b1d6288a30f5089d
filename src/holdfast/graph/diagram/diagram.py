"""What a graph looks like to a person, whatever it is a graph of. It is rendered as text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PartKind(Enum):
    """What a part of a box stands for; it has a colour of its own."""

    SOURCE = "source"
    OPERATOR = "operator"
    SINK = "sink"
    CACHE = "cache to create"
    CACHE_READER = "cache to read"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class Part:
    """One name within a box.

    Attributes:
        name: may hold any character.
        kind: what it stands for.
    """

    name: str
    kind: PartKind


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the graph.

    Attributes:
        number: what others refer to it by, from 1.
        parts: what happens in it, in order.
        facts: what else is to be known of it, each in a few words.
    """

    number: int
    parts: tuple[Part, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge of the graph.

    Attributes:
        source: the number of the box that it leaves.
        target: the number of the box that it enters.
        labels: what is to be known of it, each in a few words.
        is_kept: whether what flows along it stays.
    """

    source: int
    target: int
    labels: tuple[str, ...] = ()
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Diagram:
    """A graph to show.

    Attributes:
        title: what it is a graph of.
        boxes: each after all boxes from which arrows enter it.
        arrows: by target.
    """

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def printable(text: str) -> str:
    """A text in which whatever could steer a terminal or break a document is shown as a code.

    Args:
        text: any text.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
