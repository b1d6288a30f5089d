"""What rows depend on and operators don't show: splits, settings, bytes, bodies of functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast.testing import assert_computes, assert_differ, assert_reads, assert_same, difference
from holdfast.testing import parts as parts_of
from tests.spark.asking import assert_apart, families
from tests.spark.conftest import Probe
from tests.spark.conftest import assert_same as assert_same_rows

pytest_plugins = ["tests.spark.asking"]

# -- how files are read ----------------------------------------------------------------------------

HADOOP = "mapreduce.input.linerecordreader.line.maxlength"
# Who is said to have set it.
SETTERS = ("programmatically", "mapred-site.xml", "Set by Spark from keys with 'spark.hive'")


def test_what_is_set_in_hadoop_s_configuration_counts(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(0, 400, 7)) + "12345\n")
    configuration = probe.spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    kept = probe.keep(lambda p: p.env.read.text(str(tmp_path / "lines")))
    for setter in SETTERS:
        configuration.set(HADOOP, "3", setter)
        try:
            assert_computes(kept)
            if setter == SETTERS[-1]:
                assert len(probe.rows(kept)) == len(probe.plain_rows(lambda _: kept)) < 59
        finally:
            configuration.unset(HADOOP)
        assert_reads(kept)


# -- settings --------------------------------------------------------------------------------------

SETTINGS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "parquet.strings.signed-min-max.enabled": "true",
}
MOVE_WORK_AROUND = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


def test_a_setting_that_was_changed_between_jobs(probe: Probe) -> None:
    kept = probe.keep(
        "SELECT date_format(ts, 'HH y') AS h, try_cast(c AS INT) AS i, map(i, a) AS m,"
        " CAST(array(a, NULL) AS STRING) AS s FROM trips WHERE i > 0"
    )
    for key, value in SETTINGS.items():
        with probe.settings({key: value}):
            assert_computes(kept)
            if key in ("spark.sql.session.timeZone", "spark.sql.ansi.enabled"):
                assert_same_rows(probe.rows(kept), probe.plain_rows(lambda _: kept))
    with probe.settings(MOVE_WORK_AROUND):
        assert_reads(kept)
    assert_reads(kept)


MADE_UNDER: dict[str, tuple[str, str, str]] = {
    "ansi.enabled": ("true", "false", "CAST(e AS TINYINT) + 100Y AS x FROM riders WHERE e < 25"),
    "session.timeZone": ("Asia/Tokyo", "UTC", "CAST(ts AS STRING) AS s FROM trips"),
    "legacy.sizeOfNull": ("true", "false", "size(NULL) AS x FROM riders"),
    "legacy.statisticalAggregate": ("true", "false", "stddev(e) AS x FROM riders GROUP BY a"),
    "legacy.createEmptyCollectionUsingStringType": ("true", "false", "array() AS x FROM riders"),
    "decimalOperations.allowPrecisionLoss": (
        *("true", "false"),
        "CAST(e AS DECIMAL(38, 10)) * CAST(e AS DECIMAL(38, 10)) AS x FROM riders",
    ),
    "orderByOrdinal": ("true", "false", "e, a FROM riders ORDER BY 2"),
    "groupByAliases": ("true", "false", "e + 1 AS k, count(*) FROM riders GROUP BY e + 1"),
    "legacy.charVarcharAsString": ("true", "false", "CAST(c AS CHAR(3)) AS x FROM riders"),
    "parser.escapedStringLiterals": ("true", "false", r"'\n' AS x FROM riders"),
    "timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMP'2020-01-01' AS x FROM riders"),
    "legacy.integerGroupingId": (
        *("true", "false"),
        "a, grouping_id() FROM riders GROUP BY ROLLUP (a)",
    ),
    "legacy.setopsPrecedence.enabled": (
        *("true", "false"),
        "a FROM riders UNION SELECT e FROM riders INTERSECT SELECT a FROM trips",
    ),
}


@pytest.mark.parametrize("key", MADE_UNDER)
def test_plans_made_under_settings_that_have_been_set_back(asked: Probe, key: str) -> None:
    """They are the same only where their rows and types are."""
    *values, query = MADE_UNDER[key]
    made = []
    for value in values:
        with asked.settings({f"spark.sql.{key}": value}):
            made.append(asked.env.sql(f"SELECT {query}"))
    if difference(*made) is None:
        one, other = made
        assert_same_rows(*(asked.plain_rows(lambda _, each=each: each) for each in made))
        assert one.schema == other.schema


def test_a_path_read_as_a_time_under_another_zone(asked: Probe, tmp_path: Path) -> None:
    times = asked.spark.range(2).selectExpr("id", "timestamp_seconds(id * 8640000) AS t")
    times.write.partitionBy("t").parquet(str(tmp_path / "by_time"))

    def read_in(zone: str) -> DataFrame:
        with asked.settings({"spark.sql.session.timeZone": zone}):
            return asked.env.read.parquet(str(tmp_path / "by_time"))

    assert_differ(read_in("UTC"), read_in("Asia/Tokyo"))


@pytest.mark.parametrize(
    "expression", ["histogram_numeric(id, 3)", "hll_sketch_agg(id)", "approx_top_k(id)"]
)
def test_aggregates_of_an_order_have_several_right_answers(probe: Probe, expression: str) -> None:
    query = f"SELECT {expression} AS x FROM range(9)"
    assert_same(probe.table(query), probe.table(query))
    (part,) = parts_of(probe.table(query).cache())
    assert any(fact.startswith("one of several right answers") for fact in part.facts)


# -- values ----------------------------------------------------------------------------------------


def test_texts_that_are_not_valid_utf8_are_told_apart(probe: Probe) -> None:
    jvm = probe.spark._jvm.org.apache.spark  # type: ignore[union-attr]
    catalyst = jvm.sql.catalyst
    text_type = jvm.sql.types.StringType.apply("UTF8_BINARY")

    def folded(text: str) -> Callable[[Probe], DataFrame]:
        """As Spark's optimizer leaves the literal."""
        value = jvm.unsafe.types.UTF8String.fromBytes(bytearray.fromhex(text))
        literal = catalyst.expressions.Literal.create(value, text_type)
        condition = catalyst.expressions.IsNotNull(literal)
        below = probe.spark.range(3)._jdf.queryExecution().analyzed()
        plan = catalyst.plans.logical.Filter(condition, below)
        made = jvm.sql.classic.Dataset.ofRows(probe.spark._jsparkSession, plan)
        return lambda p: ClassicDataFrame(made, p.spark)

    texts = ("ff", "fe", "efbfbd", "c328", "", "61ff", "61fe", "edA080", "edb080")
    tables = [f"VALUES (1, CAST(X'{each}' AS STRING))" for each in texts]
    assert_apart(probe, tables)
    assert_apart(probe, [f"SELECT CAST(X'{each}' AS STRING) AS s FROM trips" for each in texts])
    assert_apart(probe, map(folded, texts))
    probe.keep(tables[0])
    probe.assert_reads(tables[0])


# -- what a query names ----------------------------------------------------------------------------

# A call of a function in SQL, what the function is, and what takes its place.
SAME_IN_SQL = """
f(a) ~ f(x BIGINT) RETURNS BIGINT RETURN x + 1 ~ f(y BIGINT) RETURNS BIGINT RETURN y + 1
f(a) * 2 ~ f(x BIGINT) RETURNS BIGINT NOT DETERMINISTIC RETURN x + 1
  ~ f(x BIGINT) RETURNS BIGINT NOT DETERMINISTIC RETURN x + 1
"""
OTHER_IN_SQL = """
f(a) ~ f(x BIGINT) RETURNS BIGINT RETURN x + 1 ~ f(x BIGINT) RETURNS BIGINT RETURN x + 2
f(a) ~ f(x BIGINT, y BIGINT DEFAULT 4) RETURNS BIGINT RETURN x * y
  ~ f(x BIGINT, y BIGINT DEFAULT 5) RETURNS BIGINT RETURN x * y
f(a) ~ f(x BIGINT) RETURNS STRING RETURN x ~ f(x DOUBLE) RETURNS STRING RETURN x
f(a) ~ f(x BIGINT) RETURNS BIGINT RETURN x ~ f(x BIGINT) RETURNS STRING RETURN x
f(a) ~ f(x BIGINT) RETURNS BIGINT RETURN SELECT max(e) FROM riders WHERE riders.a = x
  ~ f(x BIGINT) RETURNS BIGINT RETURN SELECT min(e) FROM riders WHERE riders.a = x
f(a) * 2 ~ f(x BIGINT) RETURNS DOUBLE DETERMINISTIC RETURN x + rand()
  ~ f(x BIGINT) RETURNS DOUBLE DETERMINISTIC RETURN x + rand()
f(ts) ~ f(x TIMESTAMP) RETURNS INT RETURN hour(x) ~ f(x TIMESTAMP) RETURNS INT RETURN hour(x)
"""


@pytest.mark.parametrize(("call", "one", "other"), families(SAME_IN_SQL) + families(OTHER_IN_SQL))
def test_a_call_of_a_function_in_sql_counts_as_its_body(
    asked: Probe, call: str, one: str, other: str
) -> None:
    # Functions are evaluated under the settings under which they were created.
    zone = {"spark.sql.session.timeZone": "Asia/Tokyo"} if call == "f(ts)" else {}
    asked_for = []
    try:
        for function, settings in ((one, zone), (other, {})):
            with asked.settings(settings):
                asked.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {function}")
            asked_for.append(asked.table(f"SELECT {call} AS r FROM trips"))
        is_same = [call, one, other] in families(SAME_IN_SQL)
        (assert_same if is_same else assert_differ)(*asked_for)
    finally:
        asked.spark.sql("DROP TEMPORARY FUNCTION IF EXISTS f")


# What a query names, made twice, and what removes it.
NAMED: dict[str, tuple[Callable[[Any, int], object], str, str]] = {
    "a variable": (
        lambda s, n: s.sql(f"DECLARE OR REPLACE VARIABLE named BIGINT DEFAULT {n}"),
        "SELECT * FROM riders WHERE e > named",
        "DROP TEMPORARY VARIABLE named",
    ),
    "a view": (
        lambda s, n: s.sql(
            f"CREATE OR REPLACE TEMP VIEW named AS SELECT * FROM riders WHERE e > {n}"
        ),
        "SELECT * FROM named",
        "DROP VIEW named",
    ),
    "a function of Python": (
        lambda s, n: s.udf.register("named", lambda x: x + n, "bigint"),
        "SELECT named(e) AS x FROM riders",
        "DROP TEMPORARY FUNCTION named",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_what_a_name_means_now_is_what_counts(probe: Probe, kind: str) -> None:
    make, query, drop = NAMED[kind]
    try:
        make(probe.spark, 1)
        probe.keep(query)
        assert_reads(probe.table(query))
        make(probe.spark, 20)
        probe.assert_computes(query)
    finally:
        probe.spark.sql(drop)


def test_parameters_of_other_values_or_types(asked: Probe) -> None:
    query, values = "SELECT * FROM riders WHERE e > :x", (10, 10.0, "10", 20)
    assert_apart(asked, [lambda p, x=x: p.env.sql(query, {"x": x}) for x in values])


def test_rows_by_way_of_pandas(asked: Probe) -> None:
    frames = [
        pd.DataFrame({"x": each}) for each in ([1, 2], [1, 3], [2, 1], ["1", "2"], [1.0, 2.0])
    ]
    assert_apart(asked, [lambda p, frame=frame: p.spark.createDataFrame(frame) for frame in frames])
