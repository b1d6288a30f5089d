"""Where two computations part that are not the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode


@dataclass(frozen=True, slots=True)
class ComputationDifference:
    """The first place, from the top, at which two computations aren't the same any more.

    Attributes:
        kind: `operator`, `expression`, `source` or `setting`; or `reason`, where one matches only
            itself, whatever it is compared with.
        one: what the first computation has there.
        other: what the second one has there.

    >>> print(ComputationDifference("setting", "case sensitive=true", "case sensitive=false"))
    they differ in a setting: case sensitive=true, and case sensitive=false
    """

    kind: str
    one: str
    other: str

    def __str__(self) -> str:
        article = "an" if self.kind[0] in "aeiou" else "a"
        return f"they differ in {article} {self.kind}: {self.one}, and {self.other}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A computation, as far as comparing it needs.

    Attributes:
        root: its canonical plan.
        settings: those that count for its rows.
        text: of one of its nodes, as Spark prints it.
    """

    root: CanonicalNode
    settings: Mapping[str, str]
    text: Callable[[CanonicalNode], str]


def difference(one: Compared, other: Compared) -> ComputationDifference | None:
    """Where two computations part; None for the same one.

    Args:
        one: a computation.
        other: another one, perhaps of another program.
    """
    if one.root.digest == other.root.digest:
        return _of_settings(one.settings, other.settings)
    nodes = one.root, other.root
    while True:
        first, second = nodes
        for node in nodes:
            if own := node.own_doubts() or node.of_session:
                shown = [str(own[0]) if each is node else each.operator for each in nodes]
                return ComputationDifference("reason", *shown)
        if first.operator != second.operator:
            return ComputationDifference("operator", one.text(first), other.text(second))
        if first.files != second.files:
            return ComputationDifference("source", _files(first, second), _files(second, first))
        below = [*_inputs(first)], [*_inputs(second)]
        if len(below[0]) != len(below[1]):
            return ComputationDifference("operator", one.text(first), other.text(second))
        parted = [pair for pair in zip(*below, strict=True) if pair[0].digest != pair[1].digest]
        if not parted:
            kind = "expression" if below[0] else "source"
            return ComputationDifference(kind, one.text(first), other.text(second))
        nodes = parted[0]


def _inputs(node: CanonicalNode) -> tuple[CanonicalNode, ...]:
    return (*node.children, *node.subqueries)


def _files(node: CanonicalNode, other: CanonicalNode) -> str:
    own = [str(file) for file in node.files if file not in other.files]
    return ", ".join(own[:3]) or "no other files"


def _of_settings(one: Mapping[str, str], other: Mapping[str, str]) -> ComputationDifference | None:
    for key in sorted(one.keys() | other.keys()):
        if one.get(key) != other.get(key):
            return ComputationDifference(
                "setting", *(f"{key}={each.get(key, '(unset)')}" for each in (one, other))
            )
    return None
