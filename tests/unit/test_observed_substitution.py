"""What is kept is computed all the same where the plan could tell that it was read."""

from __future__ import annotations

from dataclasses import replace

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.substitution import Obstacle, examine
from holdfast.plan.traits import Trait


def node(
    operator: str, *children: CanonicalNode, trait: Trait | None = None, ordered: bool = False
) -> CanonicalNode:
    digest = hash_parts(operator, ordered, tuple(each.digest for each in children))
    traits = frozenset() if trait is None else frozenset({trait})
    return CanonicalNode(operator, digest, children, (), 0, (), ordered, 0, False, traits=traits)


KEPT = node("Kept")
ORDERED = node("Kept", ordered=True)


def seen(root: CanonicalNode) -> list[tuple[bool, Obstacle | None]]:
    matches = examine(root, lambda each: each.operator == "Kept")
    return [(match.in_barrier, match.obstacle) for match in matches]


def observing(*children: CanonicalNode) -> CanonicalNode:
    return node("Project", *children, trait=Trait.OBSERVES_SCAN)


def barrier(*children: CanonicalNode) -> CanonicalNode:
    return node("MapInArrow", *children, trait=Trait.BARRIER)


def shuffled(*children: CanonicalNode) -> CanonicalNode:
    return node("Repartition", *children, trait=Trait.SHUFFLES)


def test_a_scan_is_observed_through_anything_but_a_shuffle() -> None:
    hidden = (False, Obstacle.SCAN_OBSERVED)
    assert seen(observing(KEPT)) == [hidden]
    assert seen(observing(node("Aggregate", node("Join", KEPT, ORDERED)))) == [hidden, hidden]
    assert seen(observing(shuffled(KEPT))) == [(False, None)]


def test_a_barrier_takes_partitions_one_by_one() -> None:
    assert seen(barrier(node("Project", node("Filter", KEPT)))) == [(True, None)]
    assert seen(barrier(node("Aggregate", KEPT))) == [(True, Obstacle.BARRIER)]
    assert seen(barrier(ORDERED)) == [(True, Obstacle.BARRIER)]
    assert seen(barrier(node("Filter", shuffled(node("Aggregate", ORDERED))))) == [(False, None)]


def test_what_holds_for_a_node_holds_for_its_equals() -> None:
    both = node("Union", observing(KEPT), KEPT)
    assert seen(both) == [(False, Obstacle.SCAN_OBSERVED)] * 2
    assert seen(node("Union", KEPT, barrier(KEPT))) == [(True, None)] * 2


def test_what_is_defined_is_used_anywhere() -> None:
    definition = replace(node("Filter", KEPT), replaceable=False)
    assert seen(node("WithCTE", definition, observing(node("Reference")))) == [
        (False, Obstacle.SCAN_OBSERVED)
    ]
    assert seen(node("WithCTE", definition, node("Reference"))) == [(False, None)]
