"""Many computations that are nearly one: each two of them are a pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.node import Node
from tests.fuzz.pair import Pair, start
from tests.fuzz.script import Build, Enter, Run, Script, Step

SIZE = 16
"""How many computations a family has at most."""


@dataclass(frozen=True)
class Variant:
    """One of a family, and the statements before it is made or run."""

    plan: Node
    state: str = ""


@dataclass(frozen=True)
class Family:
    """A computation and mutations of it, no two of which are written in the same way."""

    variants: tuple[Variant, ...]
    setup: str = ""
    ordered: bool = False

    @classmethod
    def of(cls, variants: Iterable[Variant], *, setup: str = "", ordered: bool = False) -> Family:
        """A family of what differs, not more than `SIZE` of it."""
        distinct = {(str(each.plan), each.state): each for each in variants}
        return cls(tuple(distinct.values())[:SIZE], setup, ordered)

    @classmethod
    def of_states(cls, plan: Node, states: Iterable[str], *, setup: str = "") -> Family:
        """A family of one plan in several states of the world."""
        return cls.of((Variant(plan, state) for state in states), setup=setup)

    @classmethod
    def of_plans(cls, plans: Iterable[Node], *, setup: str = "", ordered: bool = False) -> Family:
        """A family of several plans in one state of the world."""
        return cls.of(map(Variant, plans), setup=setup, ordered=ordered)

    @property
    def pairs(self) -> int:
        """How many pairs it has."""
        return len(self.variants) * (len(self.variants) - 1) // 2

    def only(self, variants: Iterable[Variant]) -> Family:
        """The same with some of its variants."""
        return replace(self, variants=tuple(variants))

    def pair(self, one: Variant, other: Variant) -> Pair:
        """Two of them."""
        return Pair(
            *(one.plan, other.plan, self.setup, one.state, other.state),
            ordered=self.ordered,
        )


def together(label: str, rng: Random, family: Family, *, cached: bool = True) -> Script:
    """The case of a family: each is kept where asked, and read again after all of the others."""
    steps: list[Step] = [start(rng, family.setup)]
    numbered = list(enumerate(family.variants))
    for letter, order, is_cached in (("t", numbered, cached), ("u", numbered[::-1], False)):
        for number, each in order:
            steps += [
                *([Enter(f"state {number}", each.state)] if each.state else []),
                Build(f"{letter}{number}", each.plan, is_cached),
                Run(f"{letter}{number}", family.ordered),
            ]
    return Script(label, tuple(steps), family.pairs)


def variants_of(pair: Pair) -> Family:
    """The family of two that a pair is."""
    first = Variant(pair.first, pair.first_state)
    second = Variant(pair.second, pair.second_state)
    return Family.of([first, second], setup=pair.setup, ordered=pair.ordered)
