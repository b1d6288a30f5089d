"""A plan is told in a few words: what it does, and what it reads."""

from __future__ import annotations

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.summary import summarize


def node(
    operator: str,
    *children: CanonicalNode,
    subqueries: tuple[CanonicalNode, ...] = (),
    files: tuple[str, ...] = (),
) -> CanonicalNode:
    return CanonicalNode(
        operator,
        "0" * 64,
        children,
        subqueries,
        0,
        (),
        False,
        0,
        False,
        files=tuple((path, 1, 2) for path in files),
    )


def files(*paths: str) -> CanonicalNode:
    return node("LogicalRelation", files=paths)


ORDERS = files("file:/data/orders.parquet")
CUSTOMERS = files("file:/data/customer.csv")
RANGE = node("Range")


def test_operators_are_listed_from_the_top_and_sources_from_the_left() -> None:
    plan = node("Aggregate", node("Project", node("Filter", node("Join", CUSTOMERS, ORDERS))))
    assert summarize(plan) == "Aggregate, Filter, Join over customer.csv, orders.parquet"


def test_an_operator_and_a_source_are_named_once() -> None:
    plan = node("Join", node("Filter", ORDERS), node("Filter", node("Join", ORDERS, ORDERS)))
    assert summarize(plan) == "Join, Filter over orders.parquet"


def test_what_a_subquery_does_and_reads_counts() -> None:
    plan = node("Filter", ORDERS, subqueries=(node("Aggregate", CUSTOMERS),))
    assert summarize(plan) == "Filter, Aggregate over orders.parquet, customer.csv"


def test_a_selection_of_columns_is_told_where_there_is_nothing_else_to_tell() -> None:
    assert summarize(node("Project", ORDERS)) == "Project over orders.parquet"
    assert summarize(ORDERS) == "Project over orders.parquet"
    assert summarize(node("Sort", node("Project", ORDERS))) == "Sort over orders.parquet"


def test_a_limit_within_a_partition_is_not_told_beside_the_limit() -> None:
    plan = node("GlobalLimit", node("LocalLimit", ORDERS))
    assert summarize(plan) == "GlobalLimit over orders.parquet"


@pytest.mark.parametrize("operator", ["LocalRelation", "LogicalRDD", "LogicalRelation"])
def test_rows_without_files_are_rows_in_memory(operator: str) -> None:
    assert summarize(node("Distinct", node(operator))) == "Distinct over rows in memory"


def test_a_range_is_a_source() -> None:
    assert summarize(node("Filter", RANGE)) == "Filter over a range"
    assert summarize(RANGE) == "Project over a range"


def test_a_plan_that_reads_nothing_says_nothing_of_it() -> None:
    assert summarize(node("OneRowRelation")) == "OneRowRelation"
    assert summarize(node("Project")) == "Project"


def test_five_operators_or_sources_are_one_more_than_are_named() -> None:
    four = node("A", node("B", node("C", node("D", ORDERS))))
    assert summarize(four) == "A, B, C, D over orders.parquet"
    assert summarize(node("Top", four)) == "Top, A, B, C and 1 more over orders.parquet"
    sources = [f"/data/{name}.csv" for name in "abcdefg"]
    assert summarize(files(*sources[:4])) == "Project over a.csv, b.csv, c.csv, d.csv"
    assert summarize(files(*sources)) == "Project over a.csv, b.csv, c.csv, d.csv and 3 more"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("file:/data/orders/part-00000-ab.zstd.parquet", "orders"),
        ("s3a://bucket/lake/orders/day=2025-01-01/hour=3/part-00000-ab.parquet", "orders"),
        ("/orders/part-00000-ab.parquet", "orders"),
        ("part-00000-ab.parquet", "part-00000-ab.parquet"),
        ("file:/data/day=2025-01-01/orders.parquet", "orders.parquet"),
        ("file:/data/Müller & Söhne.csv", "Müller & Söhne.csv"),
    ],
)
def test_files_that_spark_wrote_are_called_by_their_directory(path: str, told: str) -> None:
    assert summarize(files(path)) == f"Project over {told}"


def test_the_partitions_of_one_directory_are_one_source() -> None:
    parts = files(*(f"/data/orders/day={day}/part-0000{day}-x.parquet" for day in range(9)))
    assert summarize(parts) == "Project over orders"


def test_a_very_deep_plan_is_told() -> None:
    plan = ORDERS
    for _ in range(20_000):
        plan = node("Filter", plan)
    assert summarize(plan) == "Filter over orders.parquet"
