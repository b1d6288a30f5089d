"""Spark pushes filters into kept files and reads no more columns of them than it needs."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment
from holdfast.api.table import Table
from tests.short_lived_jvm import NO_CODEGEN

pytestmark = pytest.mark.usefixtures("many_small_files")

LAYOUTS = {"unordered": "", "in one file": "1", "in a few files": "5", "in many files": "20"}


class Scans:
    """What the executed plan of a table says about its scans."""

    def __init__(self, table: DataFrame) -> None:
        df = table.to_dataframe() if isinstance(table, Table) else table
        assert isinstance(df, ClassicDataFrame)
        plan = df._jdf.queryExecution().executedPlan().toString()
        self.locations = re.findall(r"FileScan parquet", plan)
        self.schemas = set(re.findall(r"ReadSchema: (struct<.*>)", plan))
        self.filters = set(re.findall(r"PushedFilters: \[(.*?)\], ReadSchema", plan))


def kept(env: Environment, settings: Any, layout: str, df: DataFrame) -> Table:
    ordered = df.orderBy(F.desc(df.columns[0])) if layout else df
    hot = env.from_dataframe(ordered).cache()
    with settings(
        {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": layout or "4"},
    ):
        hot.count()
        hot.count()
    assert env.list_cached()[-1].partitions >= (int(layout or 1) // 2)
    return hot


def source(spark: SparkSession) -> DataFrame:
    return spark.range(0, 200, 1, 3).select(
        (F.col("id") * 37 % 200).alias("a"),
        F.col("id").cast("string").alias("b"),
        F.struct(F.col("id").alias("x"), F.lit("wide").alias("y")).alias("s"),
    )


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_filters_and_columns_reach_the_kept_files(
    spark: SparkSession, env: Environment, settings: Any, layout: str
) -> None:
    with settings({"spark.sql.adaptive.enabled": "false"}):
        hot = kept(env, settings, layout, source(spark))
        narrow = hot.where("a >= 190 AND b LIKE '1%'").select("a")
        scans = Scans(narrow)
        assert len(scans.locations) == 1
        assert scans.schemas == {"struct<a:bigint,b:string>"}
        (filters,) = scans.filters
        assert "GreaterThanOrEqual(a,190)" in filters
        assert "StringStartsWith(b,1)" in filters
        rows = [row.a for row in narrow.collect()]
        assert sorted(rows) == sorted(
            row.a for row in source(spark).where("a >= 190 AND b LIKE '1%'").collect()
        )
        if layout:
            assert rows == sorted(rows, reverse=True)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_filters_reach_columns_under_other_names(
    spark: SparkSession, env: Environment, settings: Any, layout: str
) -> None:
    with settings({"spark.sql.adaptive.enabled": "false"}):
        odd = source(spark).select(F.col("a").alias("odd name"), F.col("b").alias("ODD NAME!"), "s")
        hot = kept(env, settings, layout, odd)
        renamed = hot.withColumnRenamed("odd name", "n").where("n = 7").select("n")
        scans = Scans(renamed)
        assert scans.schemas == {"struct<c0:bigint>"}
        assert all("EqualTo(c0,7)" in filters for filters in scans.filters)
        assert [row.n for row in renamed.collect()] == [7]


def test_a_query_typed_with_other_names_pushes_as_well(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    kept(env, settings, "", source(spark))
    twin = spark.range(0, 200, 1, 3).select(
        (F.col("id") * 37 % 200).alias("first"),
        F.col("id").cast("string").alias("second"),
        F.struct(F.col("id").alias("x"), F.lit("wide").alias("y")).alias("third"),
    )
    table = env.from_dataframe(twin).where("first = 3").select("second")
    scans = Scans(table)
    assert scans.schemas == {"struct<a:bigint,b:string>"}
    assert all("EqualTo(a,3)" in filters for filters in scans.filters)
    assert table.collect() == twin.where("first = 3").select("second").collect()


def test_only_the_needed_fields_of_a_struct_are_read(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    hot = kept(env, settings, "", source(spark))
    table = hot.select("s.x").where("x > 197")
    scans = Scans(table)
    assert scans.schemas == {"struct<s:struct<x:bigint>>"}
    assert all("GreaterThan(s.x,197)" in filters for filters in scans.filters)
    assert sorted(row.x for row in table.collect()) == [198, 199]


def test_counting_reads_no_column(spark: SparkSession, env: Environment, settings: Any) -> None:
    hot = kept(env, settings, "", source(spark))
    counted = hot.agg(F.count(F.lit(1)).alias("n"))
    assert Scans(counted).schemas == {"struct<>"}
    assert counted.collect()[0].n == 200


def test_an_aggregate_above_an_order_pays_no_sort(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings({"spark.sql.adaptive.enabled": "false"}):
        hot = kept(env, settings, "20", source(spark))
        total = hot.agg(F.sum("a").alias("n"))
        scans = Scans(total)
        assert scans.schemas == {"struct<a:bigint>"}
        plan = total.to_dataframe()._jdf.queryExecution().executedPlan().toString()
        assert "Sort" not in plan
        assert total.collect()[0].n == sum(range(200))


def test_both_sides_of_a_self_join_are_pruned(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        hot = kept(env, settings, "", source(spark))
        left, right = hot.alias("l"), hot.alias("r")
        joined = left.join(right, F.col("l.a") == F.col("r.a")).where("r.a < 3").select("l.b")
        scans = Scans(joined)
        assert scans.schemas == {"struct<a:bigint,b:string>", "struct<a:bigint>"}
        assert all("LessThan(a,3)" in filters for filters in scans.filters)
        assert joined.count() == 3


def test_a_runtime_filter_of_a_subquery_still_reads_right_rows(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    hot = kept(env, settings, "", source(spark))
    hot.createOrReplaceTempView("kept_rows")
    try:
        table = env.sql("SELECT a FROM kept_rows WHERE a = (SELECT max(a) FROM kept_rows)")
        assert [row.a for row in table.collect()] == [199]
        assert env.last_job_result is not None
        assert env.last_job_result.vertices[0].outcome.value == "read from cache"
    finally:
        spark.catalog.dropTempView("kept_rows")


# --- what Parquet compares in another way ---------------------------------------------------------

_PARQUET = "spark.sql.parquet."
READERS = {
    "by default": {},
    "record by record": {
        _PARQUET + "enableVectorizedReader": "false",
        _PARQUET + "recordLevelFilter.enabled": "true",
    },
    "with bloom filters": {
        "parquet.bloom.filter.enabled": "true",
        "parquet.enable.dictionary": "false",
        "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
    },
}
FLOATING = ["x", "f", "s.x", "s.t.f"]
VALUES = ["0.0D", "-0.0D", "DOUBLE('NaN')"]
EVERYWHERE = ["{0} = {1}", "{0} >= {1} AND k > 5", "{0} IN ({1}, 7)", "{0} <=> {1}"]
CONDITIONS = [
    *EVERYWHERE,
    *(f"{{0}} {sign} {{1}}" for sign in ("<>", "<", "<=", ">", ">=")),
    *(f"NOT ({{0}} {sign} {{1}})" for sign in ("=", "<=>", ">", ">=")),
    "{0} NOT IN ({1}, 7)",
    "{0} BETWEEN {1} AND 0.5D",
    "{0} = {1} OR k = 11",
    "{0} = 0 AND {0} < {1}",
]
ASKED = [each.format("x", value) for each in CONDITIONS for value in VALUES] + [
    each.format(column, value)
    for each in EVERYWHERE
    for value in VALUES[:2]
    for column in FLOATING[1:]
]
TEXTS = [
    "CAST(X'fe' AS STRING)",
    "CAST(X'ff' AS STRING)",
    "CAST(X'61ff' AS STRING)",
    "CAST(X'efbfbd' AS STRING)",
    "'a'",
    "'é'",
]
ASKED_OF_TEXTS = [
    each.format(column, text)
    for each in (
        *(f"{{0}} {sign} {{1}}" for sign in ("=", "<=>", "<>", "<", "<=", ">", ">=")),
        *(f"NOT ({{0}} {sign} {{1}})" for sign in ("=", "<=>", "<=")),
        *("{0} IN ({1}, 'q')", "{0} NOT IN ({1}, 'q')", "{0} BETWEEN {1} AND 'é'"),
        *("startswith({0}, {1})", "endswith({0}, {1})", "contains({0}, {1})"),
        "{0} = {1} AND k > 5 OR k = 11",
    )
    for text in TEXTS[:4]
    for column in ("v", "s.v")
]
TOGETHER = 15
"""So many are asked in one job, which takes less time than a job for each."""


def floating(spark: SparkSession) -> DataFrame:
    """Zeros of either sign and NaNs: alone in some files, and mixed in others."""
    value = """CASE id DIV 12 WHEN 0 THEN -0.0D WHEN 1 THEN 0.0D WHEN 2 THEN DOUBLE('NaN')
        WHEN 3 THEN 1.5D ELSE CASE id % 6 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D
        WHEN 2 THEN DOUBLE('NaN') WHEN 3 THEN 1.5D WHEN 4 THEN -1.5D END END"""
    # More files than are read one after the other.
    numbers = spark.range(0, 72, 1, 18).selectExpr("id AS k", f"{value} AS x")
    return numbers.selectExpr("*", "float(x) AS f").selectExpr(
        "*", "struct(k, x, struct(f, k) AS t) AS s", "array(x) AS l"
    )


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_no_row_is_lost_to_the_sign_of_a_zero(
    spark: SparkSession, env: Environment, settings: Any, reader: dict[str, str]
) -> None:
    with settings(reader | NO_CODEGEN | {"spark.sql.adaptive.enabled": "false"}):
        assert_no_row_is_lost(env, floating(spark), ASKED)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_no_row_is_lost_to_texts_that_are_not_utf_8(
    spark: SparkSession, env: Environment, settings: Any, reader: dict[str, str]
) -> None:
    with settings(reader | {"spark.sql.adaptive.enabled": "false"}):
        assert_no_row_is_lost(env, texts(spark), ASKED_OF_TEXTS)


def texts(spark: SparkSession) -> DataFrame:
    """Texts that are UTF-8 and others: alone in some files, and mixed in others."""
    cases = " ".join(f"WHEN {n} THEN {text}" for n, text in enumerate(TEXTS))
    numbers = spark.range(0, 72, 1, 18).selectExpr(
        "id AS k", f"CASE IF(id < 48, id DIV 8, id % 7) {cases} END AS v"
    )
    return numbers.selectExpr("*", "struct(k, v) AS s")


def assert_no_row_is_lost(env: Environment, source: DataFrame, conditions: list[str]) -> None:
    hot = env.from_dataframe(source).cache()
    hot.count()
    read, flags = hot.to_dataframe(), [f"{each} AS c{n}" for n, each in enumerate(conditions)]
    assert Scans(read).locations
    # Spark alone, over rows that are nowhere written.
    expected = source.selectExpr("k", *flags).collect()
    for start in range(0, len(conditions), TOGETHER):
        some = list(enumerate(conditions))[start : start + TOGETHER]
        asked = [read.where(each).select(F.lit(n).alias("n"), "k") for n, each in some]
        found = sorted(map(tuple, reduce(DataFrame.unionAll, asked).collect()))
        assert found == [(n, row.k) for n, _ in some for row in expected if row[f"c{n}"]], some


@pytest.mark.parametrize("column", FLOATING)
def test_what_is_asked_beside_floating_points_is_pushed(
    spark: SparkSession, env: Environment, settings: Any, column: str
) -> None:
    with settings({"spark.sql.adaptive.enabled": "false", "spark.sql.files.openCostInBytes": "1"}):
        hot = env.from_dataframe(floating(spark)).cache()
        hot.count()
        # Of the first file, whose rows the files' statistics tell from all others.
        table = hot.where(f"{column} = 0 AND k < 3 AND s.k < 4").select("k").to_dataframe()
        (filters,) = Scans(table).filters
        assert "LessThan(k,3)" in filters and "LessThan(s.k,4)" in filters
        assert sorted(row.k for row in table.collect()) == [0, 1, 2]
        assert isinstance(table, ClassicDataFrame)
        plan = table._jdf.queryExecution().executedPlan()
        leaves = plan.collectLeaves()
        read = [
            leaves.apply(number).metrics().apply("numOutputRows").value()
            for number in range(leaves.size())
        ]
        assert sum(read) == 4
        schemas = Scans(table).schemas
        inner = {
            "s.x": "s:struct<k:bigint,x:double>",
            "s.t.f": "s:struct<k:bigint,t:struct<f:float>>",
        }
        wide = {"x": "x:double,s:struct<k:bigint>", "f": "f:float,s:struct<k:bigint>"} | inner
        assert schemas == {f"struct<k:bigint,{wide[column]}>"}


def test_a_join_over_zeros_finds_all_of_them(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    keys = {
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "true",
        "spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    source = floating(spark)
    zero = spark.sql("SELECT 0.0D AS x, 'zero' AS name")
    with settings(keys):
        hot = env.from_dataframe(source).cache()
        hot.count()
        joined = hot.join(zero, "x").select("k", "name")
        plain = source.join(zero, "x").select("k", "name")
        assert sorted(map(repr, joined.collect())) == sorted(map(repr, plain.collect())) != []
        hot.createOrReplaceTempView("hot")
        by_value = "SELECT k FROM hot WHERE x = (SELECT max(x) - max(x) FROM hot WHERE x = 1.5D)"
        assert len(env.sql(by_value).collect()) == plain.count()
        spark.catalog.dropTempView("hot")
