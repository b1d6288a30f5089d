"""Where a job can keep a table and use its rows at the same time."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from holdfast.graph.one_pass import one_pass_node
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.plan.traits import Trait

_handles = itertools.count()


def node(
    operator: str,
    *children: CanonicalNode,
    subqueries: tuple[CanonicalNode, ...] = (),
    ordered: bool = False,
    digest: str = "",
    layout_sensitive: bool = False,
    **more: Any,
) -> CanonicalNode:
    handle = next(_handles)
    digest = digest or f"{operator} {handle}"
    return CanonicalNode(
        *(operator, digest, children, subqueries, handle, (), ordered, 0, layout_sensitive), **more
    )


def kept(**more: Any) -> CanonicalNode:
    return node("Join", node("Range"), digest="kept", **more)


RANGE = node("Range")
AGGREGATE = node("Aggregate", node("Filter", kept()))
DEFINED = node("CTERelationDef", kept(), replaceable=False)
BARRIER, OBSERVES = frozenset({Trait.BARRIER}), frozenset({Trait.OBSERVES_SCAN})

FLOWS = [
    kept(),
    *(node(each, RANGE, kept()) for each in "Aggregate Filter Join Project Union".split()),
    node("Window", kept()),
    # What is above an aggregate is no matter.
    node("GlobalLimit", node("LocalLimit", node("Sort", AGGREGATE, ordered=True))),
    node("Unheard", AGGREGATE),
]
KEPT_FIRST = [
    # What takes some of the rows, or takes them twice.
    node("GlobalLimit", node("LocalLimit", kept())),
    node("Tail", node("Project", kept())),
    node("GlobalLimit", node("LocalLimit", node("Join", kept(), RANGE))),
    node("Sort", node("Filter", kept()), ordered=True),
    node("Unheard", kept()),
    # What stands in the plan twice, or is computed in several places.
    node("Join", kept(), kept()),
    node("Filter", kept(), subqueries=(kept(),)),
    node("Filter", RANGE, subqueries=(kept(),)),
    node("WithCTE", node("CTERelationRef"), DEFINED),
    node("Aggregate", DEFINED),
    # Rows that another run has otherwise.
    node("Aggregate", kept(layout_sensitive=True)),
    node("Aggregate", kept(doubts=(Why.RANDOM.of("Uuid"),))),
    # What waits for metrics, or runs its tasks together.
    node("Aggregate", node("CollectMetrics", kept())),
    node("Join", kept(), node("CollectMetrics", RANGE)),
    node("Join", kept(), node("MapInArrow", RANGE, traits=BARRIER)),
    node("Project", kept(), traits=OBSERVES),
    # A part of what is kept, too.
    node("Filter", node("Aggregate", kept(), digest="outer")),
]


def flows(root: CanonicalNode) -> bool:
    found = one_pass_node(root, "kept", lambda each: each.digest in ("kept", "outer"))
    assert found is None or found.digest == "kept"
    return found is not None


@pytest.mark.parametrize(
    ("root", "expected"),
    [*((each, True) for each in FLOWS), *((each, False) for each in KEPT_FIRST)],
    ids=lambda each: getattr(each, "operator", each),
)
def test_rows_flow_on_to_what_takes_them_all(root: CanonicalNode, expected: bool) -> None:
    assert flows(root) == expected
