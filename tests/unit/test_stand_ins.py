"""Parts of plans that count as others with the same rows."""

from __future__ import annotations

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.rows import Rows
from holdfast.plan.stand_ins import standing_in


def node(digest: str, *children: CanonicalNode) -> CanonicalNode:
    rows = Rows(f"rows of {digest}", "")
    return CanonicalNode("Op", digest, children, (), 7, (1,), False, 0, False, rows=rows)


def test_a_part_counts_as_another_one_and_the_rest_as_before() -> None:
    plan = node("top", node("other"), node("made", node("piece"), node("piece")))
    found = standing_in(plan, {"made": node("whole", node("files"))})
    assert [each.digest for each in found.walk()] == ["top", "other", "whole", "piece", "piece"]
    whole = found.children[1]
    assert whole.rows == Rows("rows of whole", "")
    assert found.children[0] is plan.children[0]
    assert (found.rows, found.handle, whole.handle) == (plan.rows, 7, 7)


def test_plans_without_such_parts_stay_as_they_are() -> None:
    plan = node("top", node("other"))
    assert standing_in(plan, {"made": node("whole")}) is plan
    assert standing_in(plan, {}) is plan


def test_plans_may_be_deep() -> None:
    plan = node("made")
    for _ in range(5_000):
        plan = node("above", plan)
    *_, lowest = standing_in(plan, {"made": node("whole")}).walk()
    assert lowest.digest == "whole"
