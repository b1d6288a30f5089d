"""A larger query reads the part that is kept, wherever that stands and however it was written."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_reads, outcomes
from tests.spark.conftest import Probe, Query

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN
COUNTS = "SELECT a, count(*) AS n FROM trips GROUP BY a"


def counts(p: Probe) -> DataFrame:
    return p.env.table("trips").groupBy("a").count()


CONTAINING: dict[str, Query] = {
    "itself": COUNTS,
    "itself by the DataFrame API": counts,
    "a filter": f"SELECT a FROM ({COUNTS}) WHERE n > 1",
    "an aggregate": f"SELECT max(n) FROM ({COUNTS})",
    "a join": f"SELECT * FROM riders JOIN ({COUNTS}) USING (a)",
    "a join with itself": f"SELECT * FROM ({COUNTS}) x JOIN ({COUNTS}) y ON x.n = y.n",
    "a union with itself": f"({COUNTS}) UNION ALL ({COUNTS})",
    "IN": f"SELECT * FROM riders WHERE a IN (SELECT a FROM ({COUNTS}) WHERE n > 1)",
    "EXISTS": f"SELECT * FROM riders r WHERE EXISTS (SELECT 1 FROM ({COUNTS}) x WHERE x.a = r.a)",
    "a scalar subquery": f"SELECT a, (SELECT max(n) FROM ({COUNTS})) AS top FROM riders",
    "a lateral subquery": (
        f"SELECT r.a, x.n FROM riders r, LATERAL (SELECT n FROM ({COUNTS}) y WHERE y.a = r.a) x"
    ),
    "a CTE that is used twice": (
        f"WITH x AS ({COUNTS}) SELECT * FROM x WHERE n > (SELECT avg(n) FROM x)"
    ),
    "a CTE of a CTE": (
        f"WITH x AS (WITH y AS ({COUNTS}) SELECT * FROM y WHERE n > 1) SELECT count(*) FROM x"
    ),
    "a correlated subquery's CTE": (
        f"SELECT * FROM riders r WHERE e > (WITH x AS ({COUNTS}) SELECT max(n) FROM x"
        " WHERE x.a = r.a)"
    ),
    "a window": f"SELECT a, rank() OVER (ORDER BY n) FROM ({COUNTS})",
    "an explode": f"SELECT a, explode(sequence(1, n)) FROM ({COUNTS})",
    "a function": lambda p: counts(p).select(F.udf(lambda n: n + 1, "long")("count")),
    "a view": "SELECT * FROM counted",
    "a view of a view": "SELECT k FROM recounted WHERE m > 1",
    "a view by its name": lambda p: p.env.table("recounted"),
    "a table that SQL is given": lambda p: p.env.sql("SELECT sum(n) FROM {t}", t=p.table(COUNTS)),
}


@pytest.fixture(scope="module")
def _views(spark: SparkSession, tables: Path) -> Iterator[None]:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW counted AS {COUNTS}")
    spark.sql("CREATE OR REPLACE TEMP VIEW recounted AS SELECT a AS k, n AS m FROM counted")
    yield
    spark.catalog.dropTempView("recounted")
    spark.catalog.dropTempView("counted")


@pytest.mark.usefixtures("_views")
def test_a_larger_query_would_read_what_is_kept(probe: Probe) -> None:
    probe.keep(COUNTS)
    for query in CONTAINING.values():
        assert_reads(probe.table(query))


@pytest.mark.usefixtures("_views")
@pytest.mark.parametrize("where", CONTAINING)
@pytest.mark.sampled(10)
def test_a_larger_query_reads_what_is_kept(probe: Probe, where: str) -> None:
    probe.keep(COUNTS)
    probe.assert_reads(CONTAINING[where])


def test_a_cte_keeps_what_a_dataframe_has_cached(probe: Probe) -> None:
    probe.table(lambda p: counts(p).where("count > 1")).cache()
    probe.table(counts).cache()
    query = f"WITH x AS ({COUNTS}), y AS (SELECT * FROM x WHERE n > 1) SELECT * FROM y, x"
    rows = probe.rows(probe.table(query))
    assert probe.outcomes().count(PRODUCED) == 2
    assert sorted(rows) == sorted(probe.plain_rows(query))


def test_the_outermost_of_nested_ones_is_read_and_several_beside_each_other(probe: Probe) -> None:
    probe.keep(COUNTS)
    probe.keep(f"SELECT * FROM ({COUNTS}) WHERE n > 1")
    probe.keep("SELECT a, max(e) AS top FROM riders GROUP BY a")
    probe.assert_reads(f"SELECT count(*) FROM (SELECT * FROM ({COUNTS}) WHERE n > 1)")
    probe.assert_reads(
        f"SELECT * FROM ({COUNTS}) JOIN (SELECT a, max(e) AS m FROM riders GROUP BY a) USING (a)",
        times=2,
    )


def test_what_was_kept_sorted_comes_sorted(probe: Probe) -> None:
    query = "SELECT * FROM trips ORDER BY b DESC, i, c"
    probe.keep(query)
    probe.assert_reads(query, ordered=True)
    probe.assert_reads(f"SELECT * FROM ({query}) WHERE i > 1", ordered=True)


def test_what_matches_only_itself_does_match_itself(probe: Probe) -> None:
    moment = probe.table("SELECT a, uuid() AS u, current_timestamp() AS t FROM trips")
    first = probe.rows(moment.cache())
    assert sorted(probe.rows(moment)) == sorted(first)
    assert len(probe.rows(moment.where("a = 1"))) == 3
    assert READ in probe.outcomes()
    assert len(probe.rows(moment.join(moment.select("u"), "u"))) == len(first)
    assert READ in probe.outcomes()


# -- subqueries that refer to the plan around them -------------------------------------------------

MATCH = "(SELECT 1 FROM s WHERE s.a = r.a)"
LARGEST = "(SELECT max(c) FROM s WHERE s.a = r.a)"
CORRELATED = [
    f"SELECT * FROM r WHERE EXISTS {MATCH}",
    "SELECT * FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c > r.b)",
    "SELECT * FROM r WHERE a IN (SELECT a FROM s WHERE s.c <= r.b) OR b = 20",
    f"SELECT a, {LARGEST} AS m FROM r",
    f"SELECT a, {LARGEST} + b, (SELECT count(*) FROM s) FROM r",
    f"SELECT *, EXISTS {MATCH} AS e FROM r",
    f"SELECT max({LARGEST}) AS m FROM r",
    "SELECT a FROM r GROUP BY a HAVING max(b) > (SELECT min(c) FROM s WHERE s.a = r.a)",
    "SELECT a, (SELECT count(*) FROM r z WHERE z.b < r.b) AS m FROM r",
    "SELECT * FROM r, LATERAL (SELECT r.b + c AS z FROM s WHERE s.a = r.a)",
    "SELECT * FROM r LEFT JOIN LATERAL (SELECT max(c) AS m FROM s WHERE s.a = r.a)",
    "SELECT * FROM r x JOIN r y ON x.a = y.a AND EXISTS (SELECT 1 FROM s WHERE s.a = x.a)",
    f"""SELECT a, {LARGEST[:-1]}
        AND EXISTS (SELECT 1 FROM r z WHERE z.b = s.c)) AS m FROM r""",
]


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[None]:
    """`r` and `s`, small and of several partitions each."""
    left = spark.createDataFrame([(1, 10), (1, 20), (2, 20), (3, 30)], "a int, b int")
    right = spark.createDataFrame([(1, 10), (2, 5), (2, 7), (9, 9)], "a int, c int")
    left.repartition(3).createOrReplaceTempView("r")
    right.repartition(3).createOrReplaceTempView("s")
    yield
    spark.catalog.dropTempView("r")
    spark.catalog.dropTempView("s")


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("cached", ["rs", "r", "s"])
@pytest.mark.sampled(3)
def test_correlated_subqueries_read_what_is_kept(
    probe: Probe, caplog: pytest.LogCaptureFixture, cached: str
) -> None:
    for name in cached:
        probe.env.table(name).cache().collect()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        for number, query in enumerate(CORRELATED):
            times = sum(f"FROM {name}" in query for name in cached)
            if number % 6 == 0:
                probe.assert_reads(query, times)
            elif times:
                assert_reads(probe.table(query))
    assert not caplog.records


# -- expressions of any depth that Spark runs ------------------------------------------------------


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


@pytest.mark.parametrize("expression", [nested_when, sum_of_many, either_of_many])
@pytest.mark.sampled(3)
def test_a_deep_expression_is_kept_and_reads(
    probe: Probe, expression: Callable[[], Column]
) -> None:
    def below(p: Probe) -> DataFrame:
        return p.env.range(10).where("id > 3")

    def query(p: Probe) -> DataFrame:
        return below(p).select("id", expression().alias("x"))

    probe.keep(below)
    assert_reads(probe.table(query))
    probe.table(query).cache().collect()
    assert PRODUCED in probe.outcomes()
    probe.assert_reads(query)


def test_plans_and_expressions_of_thousands_of_levels_are_looked_into(probe: Probe) -> None:
    """As Spark's optimizer or a library may make them."""
    jvm = probe.spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    catalyst = jvm.catalyst

    def deep(p: Probe) -> DataFrame:
        plan = p.env.table("riders")._jdf.queryExecution().analyzed()
        condition = catalyst.expressions.Literal.TrueLiteral()
        for _ in range(1001):
            condition = catalyst.expressions.Not(catalyst.expressions.Not(condition))
            plan = catalyst.plans.logical.Filter(catalyst.expressions.Literal.TrueLiteral(), plan)
        plan = catalyst.plans.logical.Filter(condition, plan)
        made = jvm.classic.Dataset.ofRows(p.spark._jsparkSession, plan)
        return p.env.from_dataframe(ClassicDataFrame(made, p.spark))

    probe.keep("SELECT * FROM riders")
    assert_reads(deep(probe))


# -- what is looked for before a plan is read ------------------------------------------------------

TABLE = "SELECT id + 1 AS i FROM parts_table"
CTE = f"WITH t AS ({TABLE}) SELECT"
ALIKE: dict[str, tuple[Query, Query]] = {
    "files, and each of them": (
        lambda p: p.env.read.parquet(str(p.home / "riders.parquet")),
        lambda p: p.env.read.parquet(*map(str, (p.home / "riders.parquet").glob("part-*"))),
    ),
    "a table, and its files": ("SELECT * FROM parts_table", lambda p: located(p)),
    "files, and a table of them": (lambda p: located(p), "SELECT * FROM parts_table"),
    "a subquery": (
        "SELECT max(id) AS m FROM parts_table",
        "SELECT id FROM range(30) WHERE id = (SELECT max(id) FROM parts_table)",
    ),
    "a CTE that is used twice": (TABLE, f"{CTE} * FROM t, t u"),
    "a CTE that is kept": (f"{CTE} i FROM t", TABLE),
    "a view": (
        "SELECT id FROM parts_view WHERE id > 3",
        "SELECT count(*) FROM (SELECT id FROM parts_table WHERE id > 3)",
    ),
    "a range": ("SELECT * FROM range(9) WHERE id > 3", "SELECT sum(id) FROM range(9) WHERE 3 < id"),
    "rows of a program": (lambda p: handed_in(p),) * 2,
}


def located(p: Probe) -> DataFrame:
    described = p.spark.sql("DESCRIBE FORMATTED parts_table").where("col_name = 'Location'")
    return p.env.read.parquet(str(described.collect()[0].data_type))


def handed_in(p: Probe) -> DataFrame:
    return p.spark.createDataFrame([(1, "a"), (2, "b")], "n int, s string")


@pytest.fixture(scope="module")
def parts_table(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE TABLE parts_table USING parquet AS SELECT * FROM range(12)")
    spark.sql("CREATE TEMPORARY VIEW parts_view AS SELECT * FROM parts_table")
    yield
    spark.sql("DROP VIEW parts_view")
    spark.sql("DROP TABLE parts_table")


@pytest.mark.usefixtures("parts_table")
@pytest.mark.parametrize("case", ALIKE)
@pytest.mark.sampled(4)
def test_a_job_of_the_same_source_in_other_words_reads(probe: Probe, case: str) -> None:
    kept, asked = ALIKE[case]
    probe.keep(kept)
    rows = probe.rows(probe.table(asked))
    assert READ in probe.outcomes()
    assert sorted(rows) == sorted(probe.plain_rows(asked))


def test_a_cached_table_is_found_however_many_others_were_asked_before(env: Environment) -> None:
    numbers = env.range(10)
    other = numbers.where("id > 5")
    assert other.count() == 4
    hot = numbers.where("id > 4").cache()
    for _ in range(2):
        assert other.count() == 4 and outcomes(env) == [RUN]
    numbers.where("id > 5").cache()
    assert other.count() == 4 and outcomes(env) == [PRODUCED, RUN]
    assert hot.count() == 5 and outcomes(env) == [PRODUCED, RUN]


def test_what_spark_has_persisted_is_looked_into_when_it_no_longer_is(env: Environment) -> None:
    query = env.range(10).where("id > 4").cache().groupBy("id").count()
    plain = env.spark.range(10).where("id > 4").groupBy("id").count().persist()
    try:
        query.collect()
        assert outcomes(env) == [RUN]
    finally:
        plain.unpersist(blocking=True)
    query.collect()
    assert outcomes(env) == [PRODUCED, RUN]
