"""Spark pushes filters into kept files and reads no more columns of them than it needs."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

pytestmark = pytest.mark.usefixtures("many_small_files")

# Into how many partitions rows are sorted before they are kept; none: they aren't.
LAYOUTS = {"unordered": 0, "in one file": 1, "in a few files": 5, "in many files": 20}
NO_STAGES = {"spark.sql.adaptive.enabled": "false"}


class Scans:
    """What the executed plan of a table says about its scans."""

    def __init__(self, table: Any) -> None:
        self.plan = str(table.to_dataframe()._jdf.queryExecution().executedPlan().toString())
        self.schemas = set(re.findall(r"ReadSchema: (struct<.*>)", self.plan))
        self.filters = set(re.findall(r"PushedFilters: \[(.*?)\], ReadSchema", self.plan))


def kept(env: Environment, settings: Any, df: DataFrame, layout: int = 0) -> Any:
    ordered = df.orderBy(F.desc(df.columns[0])) if layout else df
    hot = env.from_dataframe(ordered).cache()
    with settings({**NO_STAGES, "spark.sql.shuffle.partitions": str(layout or 4)}):
        hot.count()
    assert env.list_cached()[-1].partitions >= (layout or 1) // 2
    return hot


def source(spark: SparkSession, *names: str) -> DataFrame:
    one, two, three = names or ("a", "b", "s")
    return spark.range(0, 200, 1, 3).select(
        (F.col("id") * 37 % 200).alias(one),
        F.col("id").cast("string").alias(two),
        F.struct(F.col("id").alias("x"), F.lit("wide").alias("y")).alias(three),
    )


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.sampled(4, 3)
def test_filters_and_columns_reach_the_kept_files(
    spark: SparkSession, env: Environment, settings: Any, layout: int
) -> None:
    with settings(NO_STAGES):
        hot = kept(env, settings, source(spark), layout)
        narrow = hot.where("a >= 190 AND b LIKE '1%'").select("a")
        scans = Scans(narrow)
        assert scans.schemas == {"struct<a:bigint,b:string>"}
        (filters,) = scans.filters
        assert "GreaterThanOrEqual(a,190)" in filters
        assert "StringStartsWith(b,1)" in filters
        rows = [row.a for row in narrow.collect()]
        expected = source(spark).where("a >= 190 AND b LIKE '1%'").collect()
        assert sorted(rows) == sorted(row.a for row in expected)
        if layout:
            assert rows == sorted(rows, reverse=True)


def test_filters_reach_columns_under_other_names(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings(NO_STAGES):
        hot = kept(env, settings, source(spark, "odd name", "ODD NAME!", "s"), 5)
        renamed = hot.withColumnRenamed("odd name", "n").where("n = 7").select("n")
        scans = Scans(renamed)
        assert scans.schemas == {"struct<c0:bigint>"}
        assert all("EqualTo(c0,7)" in filters for filters in scans.filters)
        assert [row.n for row in renamed.collect()] == [7]


def test_only_what_a_query_needs_is_read(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    hot = kept(env, settings, source(spark))
    # Written with other names.
    named = env.from_dataframe(source(spark, "p", "q", "r")).where("p = 3").select("q")
    of_struct = hot.select("s.x").where("x > 197")
    counted = hot.agg(F.count(F.lit(1)).alias("n"))
    for table, schema, filters in (
        (named, "struct<a:bigint,b:string>", "EqualTo(a,3)"),
        (of_struct, "struct<s:struct<x:bigint>>", "GreaterThan(s.x,197)"),
        (counted, "struct<>", ""),
    ):
        scans = Scans(table)
        assert scans.schemas == {schema}
        assert all(filters in each for each in scans.filters)
    assert named.collect() == source(spark).where("a = 3").select(F.col("b").alias("q")).collect()
    assert sorted(row.x for row in of_struct.collect()) == [198, 199]
    assert counted.collect()[0].n == 200


def test_an_aggregate_above_an_order_pays_no_sort(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings(NO_STAGES):
        total = kept(env, settings, source(spark), 20).agg(F.sum("a").alias("n"))
        scans = Scans(total)
        assert scans.schemas == {"struct<a:bigint>"} and "Sort" not in scans.plan
        assert total.collect()[0].n == sum(range(200))


def test_both_sides_of_a_self_join_are_pruned(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        hot = kept(env, settings, source(spark))
        left, right = hot.alias("l"), hot.alias("r")
        joined = left.join(right, F.col("l.a") == F.col("r.a")).where("r.a < 3").select("l.b")
        scans = Scans(joined)
        assert scans.schemas == {"struct<a:bigint,b:string>", "struct<a:bigint>"}
        assert all("LessThan(a,3)" in filters for filters in scans.filters)
        assert joined.count() == 3


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
TEXTS = [*(f"CAST(X'{each}' AS STRING)" for each in ("fe", "ff", "61ff", "efbfbd")), "'a'", "'é'"]
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


def texts(spark: SparkSession) -> DataFrame:
    """Texts that are UTF-8 and others: alone in some files, and mixed in others."""
    cases = " ".join(f"WHEN {n} THEN {text}" for n, text in enumerate(TEXTS))
    numbers = spark.range(0, 72, 1, 18).selectExpr(
        "id AS k", f"CASE IF(id < 48, id DIV 8, id % 7) {cases} END AS v"
    )
    return numbers.selectExpr("*", "struct(k, v) AS s")


LOST = {"signs of zeros": (floating, ASKED), "texts that are not UTF-8": (texts, ASKED_OF_TEXTS)}


@pytest.mark.parametrize("made", LOST)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("every", [11, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.sampled(3)
def test_no_row_is_lost(
    spark: SparkSession, env: Environment, settings: Any, made: str, reader: str, every: int
) -> None:
    make, asked = LOST[made]
    source, conditions = make(spark), asked[::every]
    with settings(READERS[reader] | NO_STAGES):
        hot = env.from_dataframe(source).cache()
        hot.count()
        read, flags = hot.to_dataframe(), [f"{each} AS c{n}" for n, each in enumerate(conditions)]
        assert Scans(hot).schemas
        # Spark alone, over rows that are nowhere written.
        expected = source.selectExpr("k", *flags).collect()
        for start in range(0, len(conditions), TOGETHER):
            some = list(enumerate(conditions))[start : start + TOGETHER]
            parts = [read.where(each).select(F.lit(n).alias("n"), "k") for n, each in some]
            found = sorted(map(tuple, reduce(DataFrame.unionAll, parts).collect()))
            assert found == [(n, row.k) for n, _ in some for row in expected if row[f"c{n}"]], some


def test_what_is_asked_beside_floating_points_is_pushed(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings({**NO_STAGES, "spark.sql.files.openCostInBytes": "1"}):
        hot = env.from_dataframe(floating(spark)).cache()
        hot.count()
        # Of the first file, whose rows the files' statistics tell from all others.
        table = hot.where("s.t.f = 0 AND k < 3 AND s.k < 4").select("k")
        scans = Scans(table)
        (filters,) = scans.filters
        assert "LessThan(k,3)" in filters and "LessThan(s.k,4)" in filters
        assert scans.schemas == {"struct<k:bigint,s:struct<k:bigint,t:struct<f:float>>>"}
        ran = table.to_dataframe()
        assert sorted(row.k for row in ran.collect()) == [0, 1, 2]
        leaves = ran._jdf.queryExecution().executedPlan().collectLeaves()
        places = range(leaves.size())
        metrics = [leaves.apply(n).metrics().apply("numOutputRows") for n in places]
        assert sum(each.value() for each in metrics) == 4


def test_a_join_over_zeros_finds_all_of_them(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    bloom = "spark.sql.optimizer.runtime.bloomFilter."
    keys = {
        bloom + "enabled": "true",
        bloom + "applicationSideScanSizeThreshold": "0",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    table, zero = floating(spark), spark.sql("SELECT 0.0D AS x, 'zero' AS name")
    with settings(keys):
        hot = env.from_dataframe(table).cache()
        hot.count()
        joined, plain = (each.join(zero, "x").select("k", "name") for each in (hot, table))
        assert sorted(map(repr, joined.collect())) == sorted(map(repr, plain.collect())) != []
        by_value = "SELECT k FROM {t} WHERE x = (SELECT max(x) - max(x) FROM {t} WHERE x = 1.5D)"
        assert len(env.sql(by_value, t=hot).collect()) == plain.count()
        assert outcomes(env)[0] is VertexOutcome.READ
