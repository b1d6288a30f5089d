"""Texts with holes: what plans and expressions are generated, mutated and shrunk as."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


def listed(block: str) -> tuple[str, ...]:
    """The texts between tildes and ends of lines."""
    return tuple(filter(None, map(str.strip, re.split(r" ~ |\n", block))))


def listed_by_key(block: str) -> dict[str, tuple[str, ...]]:
    """The same by what stands before a colon; lines that are indented go on with the last one."""
    pairs = (each.partition(": ") for each in re.split(r"\n(?! )", block.strip()))
    return {key: listed(texts) for key, _, texts in pairs}


@dataclass(frozen=True)
class Node:
    """A text with the nodes that fill its holes; only one of its kind may take its place."""

    template: str
    children: tuple[Node, ...] = ()
    kind: str = "text"

    def __str__(self) -> str:
        if not self.children:
            # Braces of a text are no holes.
            return self.template
        pieces = self.template.split("{}")
        texts = [pieces[0]]
        for child, piece in zip(self.children, pieces[1:], strict=True):
            texts += [str(child), piece]
        return "".join(texts)

    @classmethod
    def filled(cls, text: str, fill: Callable[[str], Node | str], kind: str = "text") -> Node:
        """A template whose holes are named; a text that fills one is part of the template."""
        template, children = "", []
        for piece in re.split(r"(\{.*?\})", text):
            found = fill(piece[1:-1]) if piece.startswith("{") else piece
            template += found if isinstance(found, str) else "{}"
            children += [found] if isinstance(found, Node) else []
        return cls(template, tuple(children), kind)

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def places(self) -> list[tuple[int, ...]]:
        """The way to each node below, as positions of children; this node itself is `()`."""
        return [
            (),
            *((i, *rest) for i, child in enumerate(self.children) for rest in child.places()),
        ]

    def at(self, place: tuple[int, ...]) -> Node:
        """The node at a place."""
        return self if not place else self.children[place[0]].at(place[1:])

    def with_at(self, place: tuple[int, ...], other: Node) -> Node:
        """This node with another one at a place."""
        if not place:
            return other
        children = list(self.children)
        children[place[0]] = children[place[0]].with_at(place[1:], other)
        return replace(self, children=tuple(children))

    def with_all(self, old: Node, new: Node) -> Node:
        """This node with `new` wherever `old` was."""
        if self == old:
            return new
        return replace(self, children=tuple(child.with_all(old, new) for child in self.children))
