"""What is kept is found at the top of a plan, wherever in it that is, unless the plan could see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.substitution import Obstacle, examine, find_matches
from holdfast.plan.traits import Trait


def node(
    name: str,
    *children: CanonicalNode,
    subqueries: tuple[CanonicalNode, ...] = (),
    reach: int = 0,
    replaceable: bool = True,
    ordered: bool = False,
    traits: frozenset[Trait] = frozenset(),
) -> CanonicalNode:
    """An operator whose digest is that of its name and its inputs."""
    digest = hash_parts(name, ordered, tuple(each.digest for each in (*children, *subqueries)))
    return CanonicalNode(
        *(name, digest, children, subqueries, 0, (), ordered, reach, False, replaceable),
        traits=traits,
    )


def found(root: CanonicalNode, *wanted: str, below_root: bool = False) -> list[str]:
    """What the matches are called, in order."""
    matches = find_matches(root, lambda each: each.operator in wanted, below_root=below_root)
    return [each.operator for each in matches]


SOURCE = node("source")
FILTER = node("filter", SOURCE)
JOIN = node("join", FILTER, node("other"))


def test_a_plan_that_is_about_to_be_computed_is_not_read_instead() -> None:
    assert found(JOIN, "join", below_root=True) == []
    assert found(JOIN, "join", "filter", below_root=True) == ["filter"]
    same = replace(node("again", SOURCE), digest=JOIN.digest)
    plan = replace(node("join", same), digest=JOIN.digest)
    assert found(plan, "again", "source", below_root=True) == ["source"]
    assert found(plan, "again", "source") == ["again"]


@st.composite
def plans(draw: st.DrawFn) -> CanonicalNode:
    nodes = [node("0")]
    for number in range(1, draw(st.integers(1, 8))):
        children = draw(st.lists(st.sampled_from(nodes), max_size=2))
        subqueries = tuple(draw(st.lists(st.sampled_from(nodes), max_size=1)))
        reach = draw(st.sampled_from([0, 0, 0, 1]))
        replaceable = draw(st.sampled_from([True, True, True, False]))
        more = {"reach": reach, "replaceable": replaceable}
        nodes.append(node(str(number), *children, subqueries=subqueries, **more))
    return nodes[-1]


def _by_definition(
    plan: CanonicalNode, wanted: Callable[[CanonicalNode], bool]
) -> Iterator[CanonicalNode]:
    if wanted(plan) and plan.reach == 0 and plan.replaceable:
        yield plan
        return
    for each in (*plan.children, *plan.subqueries):
        yield from _by_definition(each, wanted)


@given(plan=plans(), names=st.sets(st.integers(0, 8).map(str)), below_root=st.booleans())
def test_matches_are_those_of_the_definition(
    plan: CanonicalNode, names: set[str], below_root: bool
) -> None:
    def wanted(each: CanonicalNode) -> bool:
        return each.operator in names and not (below_root and each is plan)

    matches = find_matches(plan, lambda each: each.operator in names, below_root=below_root)
    assert list(matches) == list(_by_definition(plan, wanted))


# -- where the plan could see that it was read -----------------------------------------------------

KEPT, ORDERED = node("Kept"), node("Kept", ordered=True)


def observing(*children: CanonicalNode) -> CanonicalNode:
    return node("Project", *children, traits=frozenset({Trait.OBSERVES_SCAN}))


def barrier(*children: CanonicalNode) -> CanonicalNode:
    return node("MapInArrow", *children, traits=frozenset({Trait.BARRIER}))


def shuffled(*children: CanonicalNode) -> CanonicalNode:
    return node("Repartition", *children, traits=frozenset({Trait.SHUFFLES}))


SEEN = (False, Obstacle.SCAN_OBSERVED)
DEFINITION = replace(node("Filter", KEPT), replaceable=False)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        # A scan is observed through anything but a shuffle.
        (observing(KEPT), [SEEN]),
        (observing(node("Aggregate", node("Join", KEPT, ORDERED))), [SEEN, SEEN]),
        (observing(shuffled(KEPT)), [(False, None)]),
        # A barrier takes partitions one by one.
        (barrier(node("Project", node("Filter", KEPT))), [(True, None)]),
        (barrier(node("Aggregate", KEPT)), [(True, Obstacle.BARRIER)]),
        (barrier(ORDERED), [(True, Obstacle.BARRIER)]),
        (barrier(node("Filter", shuffled(node("Aggregate", ORDERED)))), [(False, None)]),
        # What holds for a node holds for its equals, and what is defined is used anywhere.
        (node("Union", observing(KEPT), KEPT), [SEEN, SEEN]),
        (node("Union", KEPT, barrier(KEPT)), [(True, None), (True, None)]),
        (node("WithCTE", DEFINITION, observing(node("Reference"))), [SEEN]),
        (node("WithCTE", DEFINITION, node("Reference")), [(False, None)]),
    ],
)
def test_what_could_be_seen_is_computed(
    plan: CanonicalNode, expected: list[tuple[bool, Obstacle | None]]
) -> None:
    matches = examine(plan, lambda each: each.operator == "Kept")
    assert [(match.in_barrier, match.obstacle) for match in matches] == expected
