"""What a plan's text holds: digests that are kept on disk are taken of it, so it has to stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.plan_reader import PlanReader

VALUES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "null": (lambda jvm: None, None),
    "boolean": (lambda jvm: True, True),
    "integer": (lambda jvm: 3, 3),
    "long": (lambda jvm: 2**40, 2**40),
    "double": (lambda jvm: 1.5, {"number": "java.lang.Double", "v": "1.5"}),
    "string": (lambda jvm: 'a"\\\n\x01\u2028\u00e9\U0001f600', 'a"\\\n\x01\u2028\u00e9\U0001f600'),
    "bytes": (lambda jvm: bytearray(b"\x00\xff\x80"), {"bytes": "AP+A"}),
    "utf8": (lambda jvm: _unsafe(jvm).UTF8String.fromString('"x"'), '"x"'),
    "some": (lambda jvm: jvm.scala.Some(jvm.scala.Some("x")), "x"),
    "none": (lambda jvm: jvm.scala.Option.empty(), None),
    "sequence": (lambda jvm: _seq(jvm, 1, "a", None, _seq(jvm)), [1, "a", None, []]),
    "product": (lambda jvm: jvm.scala.Tuple2("k", 1), {"c": "scala.Tuple2", "f": ["k", 1]}),
    "type": (
        lambda jvm: _types(jvm).DataType.fromJson('"integer"'),
        {"type": "integer"},
    ),
    "metadata": (
        lambda jvm: _types(jvm).Metadata.fromJson('{"k":"v"}'),
        {"metadata": {"k": "v"}},
    ),
    "decimal": (
        lambda jvm: _types(jvm).Decimal.apply("1.20"),
        {"number": "org.apache.spark.sql.types.Decimal", "v": "1.20"},
    ),
    "Scala's enumeration": (
        lambda jvm: jvm.org.apache.spark.sql.catalyst.expressions.EvalMode.ANSI(),
        {"enum": "scala.Enumeration$Val", "v": "ANSI"},
    ),
    "Java's enumeration": (
        lambda jvm: jvm.java.util.concurrent.TimeUnit.DAYS,
        {"enum": "java.util.concurrent.TimeUnit", "v": "DAYS"},
    ),
    "class": (
        lambda jvm: jvm.java.lang.Class.forName("java.lang.String"),
        {"class": "java.lang.String"},
    ),
    "expression": (
        lambda jvm: _true(jvm),
        {
            "c": "org.apache.spark.sql.catalyst.expressions.Literal",
            "f": [True, {"type": "boolean"}],
            "o": [],
        },
    ),
    "file": (
        lambda jvm: jvm.org.apache.hadoop.fs.FileStatus(
            5, False, 1, 1, 77, jvm.org.apache.hadoop.fs.Path("/a b")
        ),
        ["/a b", 5, 77, ""],
    ),
    "opaque": (lambda jvm: jvm.java.util.ArrayList(), {"opaque": "java.util.ArrayList"}),
}


def _unsafe(jvm: Any) -> Any:
    return jvm.org.apache.spark.unsafe.types


def _types(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.types


def _seq(jvm: Any, *items: Any) -> Any:
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(items))


def _true(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral()


def _holding(spark: SparkSession, *values: Any) -> Any:
    """A plan with an operator that takes any arguments."""
    jvm: Any = spark._jvm
    below = spark.range(3)._jdf.queryExecution().analyzed()
    logical = jvm.org.apache.spark.sql.catalyst.plans.logical
    return logical.UnresolvedHint("h", _seq(jvm, *values), below)


@pytest.mark.parametrize(("make", "expected"), VALUES.values(), ids=VALUES.keys())
def test_each_kind_of_argument(
    spark: SparkSession, make: Callable[[Any], Any], expected: Any
) -> None:
    plan = _holding(spark, make(spark._jvm), make(spark._jvm))
    hint, below = PlanReader.of(spark).read(plan).operators
    assert hint["f"] == ["h", [expected, expected], {"child": True}]
    assert (hint["i"], hint["n"], hint["t"]) == (0, 1, None)
    assert (below["i"], below["n"], below["t"]) == (1, 0, None)


def test_subqueries_have_handles_in_their_place(spark: SparkSession) -> None:
    plan = spark.sql("SELECT (SELECT max(id) FROM range(5)) AS m, id FROM range(3)")
    reading = PlanReader.of(spark).read(plan._jdf.queryExecution().analyzed())
    assert [each["i"] for each in reading.operators] == [0, 3]
    names = [reading.node(handle).nodeName() for handle in range(4)]
    assert names == ["Project", "Aggregate", "Range", "Range"]


def test_deep_plans_are_read(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    condition = _true(jvm)
    for _ in range(300):
        condition = catalyst.expressions.Not(condition)
    plan = _holding(spark, condition)
    for _ in range(3000):
        plan = catalyst.plans.logical.Filter(_true(jvm), plan)
    assert len(PlanReader.of(spark).read(plan).operators) == 3002
