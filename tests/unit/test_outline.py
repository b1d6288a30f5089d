"""What a plan is made of, for a drawing."""

from __future__ import annotations

from dataclasses import replace

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_version import FileVersion
from holdfast.plan.outline import PlanStep, outline


def node(operator: str, *children: CanonicalNode, digest: str = "") -> CanonicalNode:
    return CanonicalNode(
        operator, digest or operator, children, (), len(children), (), False, 0, False
    )


FILE = replace(
    node("LogicalRelation"), files=(FileVersion("file:/data/sales/part-0.parquet", 1, 1, ""),)
)


def test_inputs_come_first_and_equal_ones_once() -> None:
    filtered = node("Filter", FILE)
    plan = node("Join", filtered, node("SubqueryAlias", filtered, digest="Filter"))
    assert outline(plan) == (
        PlanStep("LogicalRelation", (), ("sales",)),
        PlanStep("Filter", (0,)),
        PlanStep("Join", (1,)),
    )


def test_subqueries_are_inputs() -> None:
    plan = replace(node("Filter", FILE), subqueries=(node("LocalRelation"),))
    assert outline(plan) == (
        PlanStep("Rows in memory"),
        PlanStep("LogicalRelation", (), ("sales",)),
        PlanStep("Filter", (1, 0)),
    )


def test_plans_that_are_too_large_are_not_drawn() -> None:
    plan = FILE
    for number in range(500):
        plan = node("Project", plan, digest=f"{number}")
    assert outline(plan) == ()
