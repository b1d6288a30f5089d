"""What is kept is found at the top of a plan, wherever in it that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.substitution import find_matches


def node(
    name: str,
    *children: CanonicalNode,
    subqueries: tuple[CanonicalNode, ...] = (),
    reach: int = 0,
    replaceable: bool = True,
) -> CanonicalNode:
    """An operator whose digest is that of its name and its inputs."""
    digest = hash_parts(name, tuple(each.digest for each in (*children, *subqueries)))
    return CanonicalNode(
        name, digest, children, subqueries, 0, (), False, reach, False, replaceable
    )


def found(root: CanonicalNode, *wanted: str, below_root: bool = False) -> list[str]:
    """What the matches are called, in order."""
    matches = find_matches(root, lambda each: each.operator in wanted, below_root=below_root)
    return [each.operator for each in matches]


SOURCE = node("source")
FILTER = node("filter", SOURCE)
JOIN = node("join", FILTER, node("other"))
TOTAL = node("total", JOIN)


def test_nothing_is_found_where_nothing_is_wanted() -> None:
    assert found(TOTAL) == []


@pytest.mark.parametrize("name", ["total", "join", "filter", "source", "other"])
def test_a_node_is_found_at_any_depth(name: str) -> None:
    assert found(TOTAL, name) == [name]


def test_what_is_below_a_match_is_not_even_asked_for() -> None:
    asked: list[str] = []

    def wanted(each: CanonicalNode) -> bool:
        asked.append(each.operator)
        return each.operator == "filter"

    assert list(find_matches(TOTAL, wanted)) == [FILTER]
    assert asked == ["total", "join", "filter", "other"]


def test_matches_come_from_left_to_right_and_subqueries_last() -> None:
    plan = node("top", node("left", SOURCE), node("right"), subqueries=(node("x"), node("y")))
    assert found(plan, "y", "x", "right", "source") == ["source", "right", "x", "y"]


def test_a_node_that_stands_in_a_plan_twice_is_found_twice() -> None:
    assert found(node("self-join", JOIN, node("sort", JOIN)), "join") == ["join", "join"]


def test_a_match_inside_a_subquery_of_a_subquery_is_found() -> None:
    inner = node("inner", subqueries=(FILTER,))
    assert found(node("outer", SOURCE, subqueries=(inner,)), "filter") == ["filter"]


@pytest.mark.parametrize(
    "correlated",
    [node("exists", FILTER, reach=1), node("exists", FILTER, reach=2)],
    ids=["one plan outwards", "two plans outwards"],
)
def test_what_refers_to_an_enclosing_plan_is_passed_over_but_not_what_is_below_it(
    correlated: CanonicalNode,
) -> None:
    plan = node("top", SOURCE, subqueries=(correlated,))
    assert found(plan, "exists") == []
    assert found(plan, "exists", "filter") == ["filter"]


def test_what_nothing_may_replace_is_passed_over_but_not_what_is_below_it() -> None:
    fixed = node("command", FILTER, replaceable=False)
    assert found(node("top", fixed), "command") == []
    assert found(node("top", fixed), "command", "filter") == ["filter"]


def test_nobody_is_asked_for_what_could_not_be_replaced() -> None:
    asked: list[str] = []
    plan = node("top", node("fixed", SOURCE, replaceable=False), node("inner", reach=1))
    assert list(find_matches(plan, lambda each: bool(asked.append(each.operator)))) == []
    assert asked == ["top", "source"]


def test_a_plan_that_is_about_to_be_computed_is_not_read_instead() -> None:
    assert found(JOIN, "join") == ["join"]
    assert found(JOIN, "join", below_root=True) == []
    assert found(JOIN, "join", "filter", below_root=True) == ["filter"]


def test_the_same_computation_below_the_root_is_not_read_either_while_it_is_computed() -> None:
    same = CanonicalNode("again", JOIN.digest, (SOURCE,), (), 1, (), False, 0, False)
    plan = CanonicalNode("join", JOIN.digest, (same,), (), 0, (), False, 0, False)
    assert found(plan, "again", "source", below_root=True) == ["source"]
    assert found(plan, "again", "source") == ["again"]


def test_a_very_deep_plan_is_walked() -> None:
    plan = SOURCE
    for number in range(20_000):
        plan = CanonicalNode(f"step {number}", "0", (plan,), (), 0, (), False, 0, False)
    assert found(plan, "source") == ["source"]


@st.composite
def plans(draw: st.DrawFn) -> CanonicalNode:
    nodes = [node("0")]
    for number in range(1, draw(st.integers(1, 8))):
        children = draw(st.lists(st.sampled_from(nodes), max_size=2))
        subqueries = draw(st.lists(st.sampled_from(nodes), max_size=1))
        nodes.append(
            node(
                str(number),
                *children,
                subqueries=tuple(subqueries),
                reach=draw(st.sampled_from([0, 0, 0, 1])),
                replaceable=draw(st.sampled_from([True, True, True, False])),
            )
        )
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

    expected = list(_by_definition(plan, wanted))
    matches = find_matches(plan, lambda each: each.operator in names, below_root=below_root)
    assert list(matches) == expected
