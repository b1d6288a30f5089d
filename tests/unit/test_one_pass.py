"""Where a job can keep a table and use its rows at the same time."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.one_pass import one_pass_node
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.traits import Trait

_handles = itertools.count()


def node(
    operator: str,
    *children: CanonicalNode,
    digest: str | None = None,
    subqueries: tuple[CanonicalNode, ...] = (),
    ordered: bool = False,
    layout_sensitive: bool = False,
    replaceable: bool = True,
    doubts: tuple[Reason, ...] = (),
    traits: frozenset[Trait] = frozenset(),
) -> CanonicalNode:
    handle = next(_handles)
    return CanonicalNode(
        operator,
        digest or f"{operator} {handle}",
        children,
        subqueries,
        handle,
        (),
        ordered,
        0,
        layout_sensitive,
        replaceable,
        doubts,
        traits=traits,
    )


def kept(**arguments: object) -> CanonicalNode:
    return node("Join", node("Range"), digest="kept", **arguments)  # type: ignore[arg-type]


def found(root: CanonicalNode, *cached: str) -> CanonicalNode | None:
    return one_pass_node(root, "kept", lambda each: each.digest in ("kept", *cached))


def test_the_plan_s_root_flows_on() -> None:
    root = kept()
    assert found(root) is root


@pytest.mark.parametrize("operator", ["Aggregate", "Filter", "Join", "Project", "Union", "Window"])
def test_rows_flow_on_to_what_takes_them_all(operator: str) -> None:
    below = kept()
    assert found(node(operator, node("Range"), below)) is below


@pytest.mark.parametrize(
    "root",
    [
        node("GlobalLimit", node("LocalLimit", kept())),
        node("Tail", node("Project", kept())),
        node("GlobalLimit", node("LocalLimit", node("Join", kept(), node("Range")))),
        node("Sort", node("Filter", kept()), ordered=True),
        node("Unheard", kept()),
    ],
)
def test_rows_do_not_flow_to_what_takes_some_or_takes_them_twice(root: CanonicalNode) -> None:
    assert found(root) is None


def test_what_is_above_an_aggregate_is_no_matter() -> None:
    below = kept()
    aggregate = node("Aggregate", node("Filter", below))
    sort = node("Sort", aggregate, ordered=True)
    assert found(node("GlobalLimit", node("LocalLimit", sort))) is below
    assert found(node("Unheard", aggregate)) is below


def test_rows_are_computed_once() -> None:
    assert found(node("Join", kept(), kept())) is None
    assert found(node("Filter", kept(), subqueries=(kept(),))) is None
    assert found(node("Filter", node("Range"), subqueries=(kept(),))) is None
    defined = node("CTERelationDef", kept(), replaceable=False)
    assert found(node("WithCTE", node("CTERelationRef"), defined)) is None
    assert found(node("Aggregate", defined)) is None


def test_what_is_part_of_another_kept_node_is_not_looked_for() -> None:
    outer = node("Aggregate", kept(), digest="outer")
    assert found(node("Filter", outer), "outer") is None


@pytest.mark.parametrize(
    "below", [kept(layout_sensitive=True), kept(doubts=(Why.RANDOM.of("Uuid"),))]
)
def test_rows_that_another_run_has_otherwise_are_kept_first(below: CanonicalNode) -> None:
    assert found(node("Aggregate", below)) is None


def test_who_waits_for_metrics_or_runs_tasks_together_gets_two_jobs() -> None:
    assert found(node("Aggregate", node("CollectMetrics", kept()))) is None
    assert found(node("Join", kept(), node("CollectMetrics", node("Range")))) is None
    barrier = frozenset({Trait.BARRIER})
    assert found(node("Join", kept(), node("MapInArrow", node("Range"), traits=barrier))) is None
    observes = frozenset({Trait.OBSERVES_SCAN})
    assert found(node("Project", kept(), traits=observes)) is None


@given(st.lists(st.sampled_from(["Project", "Filter", "Aggregate", "GlobalLimit", "Sort"])))
def test_nothing_that_stops_early_or_starts_twice_is_between(above: list[str]) -> None:
    below = root = kept()
    for operator in above:
        root = node(operator, root, ordered=operator == "Sort")
    first = next((each for each in above if each not in ("Project", "Filter")), "Aggregate")
    assert (found(root) is below) == (first == "Aggregate")
