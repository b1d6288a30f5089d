"""Expressions of any depth that Spark runs are kept and found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.plan.document import EXPRESSIONS
from holdfast.plan.file_sources import all_operators, with_listings
from holdfast.plan.size_guess import kept_part
from holdfast.spark.plan_reader import PlanReader


def sum_of_many() -> Column:
    total = F.col("id")
    for _ in range(300):
        total = total + F.col("id")
    return total


def nested_when() -> Column:
    value = F.lit(-1)
    for number in range(300):
        value = F.when(F.col("id") == number, number).otherwise(value)
    return value


def either_of_many() -> Column:
    condition = F.col("id") == -1
    for number in range(500):
        condition = condition | (F.col("id") == number)
    return condition


DEEP = {"sum": sum_of_many, "when": nested_when, "or": either_of_many}


@pytest.mark.parametrize("expression", DEEP.values(), ids=DEEP.keys())
@pytest.mark.sampled(2)
def test_a_deep_expression_is_kept_and_read(probe: Any, expression: Callable[[], Column]) -> None:
    def query(p: Any) -> Any:
        return p.spark.range(10).select("id", expression().alias("x"))

    probe.keep(query)
    probe.assert_reads(query)


# Each is walked by the test above, for what lies below as well.
@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(make, id=name, marks=() if name == "when" else pytest.mark.soak)
        for name, make in DEEP.items()
    ],
)
def test_a_deep_expression_reads_what_is_kept_below(
    probe: Any, expression: Callable[[], Column]
) -> None:
    def below(p: Any) -> Any:
        return p.spark.range(10).where("id > 3")

    probe.keep(below)
    probe.assert_reads(lambda p: below(p).select(expression().alias("x")))


def test_each_walk_takes_any_depth(probe: Any) -> None:
    jvm: Any = probe.spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    condition = catalyst.expressions.Literal.TrueLiteral()
    for _ in range(3000):
        condition = catalyst.expressions.IsNull(condition)
    below = probe.spark.range(3)._jdf.queryExecution().analyzed()
    plan = catalyst.plans.logical.UnresolvedHint(
        "h", jvm.org.apache.spark.api.python.PythonUtils.toSeq([condition]), below
    )
    operators = PlanReader.of(probe.spark).read(plan).operators
    assert len(all_operators(operators)) == 2
    again = with_listings(operators, lambda handle, listing: None)
    depth, value = 0, again[0]["f"][1][0]
    while value["c"].endswith("IsNull"):
        depth, value = depth + 1, value["f"][0]
    assert depth == 3000
    chain: Any = {"c": EXPRESSIONS + "Literal", "f": [True, {"type": "boolean"}], "o": []}
    for _ in range(3000):
        chain = {"c": EXPRESSIONS + "And", "f": [chain, {"c": EXPRESSIONS + "IsNotNull"}], "o": []}
    assert kept_part(chain) == 1.0
