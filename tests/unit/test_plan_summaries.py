"""What a plan does and reads, in a few words; and plans with parts replaced."""

from __future__ import annotations

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_version import FileVersion
from holdfast.plan.rows import Rows
from holdfast.plan.stand_ins import standing_in
from holdfast.plan.summary import summarize


def node(
    operator: str,
    *children: CanonicalNode,
    digest: str = "",
    subqueries: tuple[CanonicalNode, ...] = (),
    files: tuple[str, ...] = (),
) -> CanonicalNode:
    return CanonicalNode(
        *(operator, digest or operator, children, subqueries, 7, (1,), False, 0, False),
        files=tuple(FileVersion(path, 1, 1, "") for path in files),
        rows=Rows(f"rows of {digest or operator}", ""),
    )


def files(*paths: str) -> CanonicalNode:
    return node("LogicalRelation", files=paths)


def above(plan: CanonicalNode, *operators: str) -> CanonicalNode:
    for operator in reversed(operators):
        plan = node(operator, plan)
    return plan


ORDERS = files("file:/data/orders.parquet")
CUSTOMERS = files("file:/data/customer.csv")
JOIN = node("Join", CUSTOMERS, ORDERS)
SPARK = "part-00000-ab.parquet"


@pytest.mark.parametrize(
    ("plan", "summary"),
    [
        # Operators from the top, sources from the left, each of them once.
        (above(JOIN, "Aggregate", "Project"), "Aggregate, Join over customer.csv, orders.parquet"),
        (
            node("Filter", ORDERS, subqueries=(node("Aggregate", CUSTOMERS),)),
            "Filter, Aggregate over orders.parquet, customer.csv",
        ),
        # A selection of columns counts where there is nothing else to say.
        (node("Project", ORDERS), "Project over orders.parquet"),
        # No more than four are named.
        (above(ORDERS, *"ABCDE"), "A, B, C, D and 1 more over orders.parquet"),
        (
            files(*(f"/{each}.csv" for each in "abcdefg")),
            "Project over a.csv, b.csv, c.csv, d.csv and 3 more",
        ),
        (above(ORDERS, *["Filter"] * 20_000), "Filter over orders.parquet"),
        # The partitions of one directory are one source, called as it is.
        (files(*(f"/data/orders/day={day}/{SPARK}" for day in range(9))), "Project over orders"),
        (files(f"s3a://bucket/orders/day=2025-01-01/hour=3/{SPARK}"), "Project over orders"),
    ],
)
def test_a_plan_in_a_few_words(plan: CanonicalNode, summary: str) -> None:
    assert summarize(plan) == summary


def test_a_part_counts_as_another_one_and_the_rest_as_before() -> None:
    plan = node("top", node("other"), node("made", node("piece"), node("piece")))
    found = standing_in(plan, {"made": node("whole", node("files"))})
    assert [each.digest for each in found.walk()] == ["top", "other", "whole", "piece", "piece"]
    assert found.children[0] is plan.children[0] and found.rows == plan.rows
    assert found.children[1].rows == Rows("rows of whole", "")
    assert standing_in(plan, {"none": node("whole")}) is plan is standing_in(plan, {})
    deep = above(node("made"), *["above"] * 5_000)
    *_, lowest = standing_in(deep, {"made": node("whole")}).walk()
    assert lowest.digest == "whole"
