"""What computes the same is read, however it was written."""

from __future__ import annotations

import os
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from holdfast.runtime.vertex_outcome import VertexOutcome

pytestmark = pytest.mark.usefixtures("interpreted")

COUNTS = "SELECT a, count(*) AS n FROM trips GROUP BY a"
JOINED = "SELECT t.a, t.b, r.e FROM trips t JOIN riders r ON t.a = r.a"


def counts(probe: Any) -> DataFrame:
    return probe.spark.table("trips").groupBy("a").count()


def plus_one() -> Any:
    @F.udf(LongType())
    def add(x: int | None) -> int | None:
        return None if x is None else x + 1

    return add


def times(factor: int) -> Any:
    return F.udf(lambda x: None if x is None else x * factor, "bigint")


def doubled_in_pandas(batches: Any) -> Any:
    for batch in batches:
        yield batch.assign(e=batch["e"] * 2)


def pandas_sum() -> Any:
    @F.pandas_udf("long")
    def total(values: pd.Series) -> int:
        return int(values.sum())

    return total


def between_bounds(column: Column) -> Column:
    lower, upper = 1, 2
    return (column >= lower) & (column <= upper)


SAME_QUERY = {
    "the same text": (JOINED, JOINED),
    "SQL, then the DataFrame API": (COUNTS, counts),
    "the DataFrame API, then SQL": (counts, COUNTS),
    "other aliases inside and at the output": (
        JOINED,
        "SELECT one.a x, one.b AS y, other.e AS z FROM trips one JOIN riders AS other"
        " ON one.a = other.a",
    ),
    "a qualified column and a plain one": (
        "SELECT trips.a, b FROM trips WHERE trips.b > 10",
        "SELECT a, trips.b FROM trips WHERE b > 10",
    ),
    "and the other way round": (
        lambda p: p.spark.table("trips").where((F.col("a") > 1) & (F.col("b") > 5)),
        lambda p: p.spark.table("trips").where((F.col("b") > 5) & (F.col("a") > 1)),
    ),
    "a chain of conditions in another order": (
        "SELECT * FROM trips WHERE a > 0 AND (b > 5 OR c = 'x' OR d > 1) AND i > 0",
        "SELECT * FROM trips WHERE i > 0 AND a > 0 AND (d > 1 OR b > 5 OR c = 'x')",
    ),
    "an equation the other way round": (
        "SELECT * FROM trips t JOIN riders r ON t.a = r.a AND t.b <=> r.e",
        "SELECT * FROM trips t JOIN riders r ON r.e <=> t.b AND r.a = t.a",
    ),
    "less and greater": (
        "SELECT * FROM trips WHERE a < b AND b >= 10",
        "SELECT * FROM trips WHERE b > a AND 10 <= b",
    ),
    "sums and products the other way round": (
        "SELECT a + b, a * b, a & b FROM trips",
        "SELECT b + a, b * a, b & a FROM trips",
    ),
    "an IN list in another order": (
        "SELECT * FROM trips WHERE a IN (1, 2, 3)",
        "SELECT * FROM trips WHERE a IN (3, 1, 2)",
    ),
    "a variable of Python by another name": (
        lambda p: p.spark.table("trips").where(between_bounds(F.col("a"))),
        lambda p: p.spark.table("trips").where((F.col("a") >= 1) & (F.col("a") <= 2)),
    ),
    "a projection that only renames, left out": (
        "SELECT a, e, c FROM riders WHERE e > 10",
        "SELECT x AS a, y, z FROM (SELECT a AS x, e AS y, c AS z FROM riders) WHERE y > 10",
    ),
    "a star": (
        lambda p: p.spark.table("riders").where("e > 10").select("*"),
        lambda p: p.spark.table("riders").select("a", "e", "c").where("e > 10"),
    ),
    "a hint more": (JOINED, JOINED.replace("SELECT", "SELECT /*+ BROADCAST(r) */")),
    "a DataFrame's hint more": (
        lambda p: p.spark.table("trips").join(p.spark.table("riders"), "a"),
        lambda p: p.spark.table("trips").join(p.spark.table("riders").hint("merge"), "a"),
    ),
    "a CTE, then a subquery": (
        f"WITH x AS ({COUNTS}) SELECT * FROM x WHERE n > 1",
        f"SELECT * FROM ({COUNTS}) WHERE n > 1",
    ),
    "a subquery, then a DataFrame": (
        f"SELECT * FROM ({COUNTS}) WHERE n > 1",
        lambda p: counts(p).where("count > 1"),
    ),
    "CTEs in CTEs, used twice": (
        f"WITH x AS ({COUNTS}), y AS (SELECT * FROM x WHERE n > 1)"
        " SELECT x.a, x.n, y.n AS m FROM x JOIN y ON x.a = y.a",
        f"SELECT l.a, l.n, r.n FROM ({COUNTS}) l"
        f" JOIN (WITH z AS ({COUNTS}) SELECT * FROM z WHERE n > 1) r ON l.a = r.a",
    ),
    "parameters, then literals": (
        lambda p: p.env.sql("SELECT * FROM trips WHERE a = :k AND c = :c", {"k": 1, "c": "x"}),
        "SELECT * FROM trips WHERE a = 1 AND c = 'x'",
    ),
    "positional parameters, then named ones": (
        lambda p: p.env.sql("SELECT * FROM trips WHERE a = ?", [1]),
        lambda p: p.env.sql("SELECT * FROM trips WHERE a = :a", {"a": 1}),
    ),
    "SQL's pipes": (
        "FROM trips |> WHERE a > 1 |> SELECT a, b",
        "SELECT a, b FROM trips WHERE a > 1",
    ),
    "IN over a subquery": (
        "SELECT * FROM trips WHERE a IN (SELECT a FROM riders WHERE e > 10)",
        "SELECT * FROM trips AS t WHERE t.a IN (SELECT r.a FROM riders r WHERE 10 < r.e)",
    ),
    "a correlated EXISTS": (
        "SELECT * FROM trips WHERE EXISTS (SELECT 1 FROM riders WHERE riders.a = trips.a)",
        "SELECT * FROM trips x WHERE EXISTS (SELECT 1 FROM riders y WHERE x.a = y.a)",
    ),
    "a correlated scalar subquery": (
        "SELECT a, (SELECT max(e) FROM riders r WHERE r.a = t.a) AS top FROM trips t",
        "SELECT a, (SELECT max(e) FROM riders s WHERE s.a = u.a) AS best FROM trips u",
    ),
    "a lateral subquery": (
        "SELECT t.a, x.e FROM trips t, LATERAL (SELECT * FROM riders r WHERE r.a = t.a) x",
        "SELECT u.a, y.e FROM trips u, LATERAL (SELECT * FROM riders s WHERE s.a = u.a) y",
    ),
    "a range": ("SELECT * FROM range(7)", "SELECT id AS number FROM range(0, 7)"),
    "a DataFrame's range": (lambda p: p.spark.range(7), lambda p: p.spark.range(0, 7, 1)),
    "an inline table": (
        "SELECT * FROM VALUES (1, 'a', -0.0D), (2, 'it''s', NULL) AS t(x, y, z)",
        "SELECT * FROM VALUES (1, 'a', -0.0D), (2, 'it\\'s', NULL) AS u(k, l, m)",
    ),
    "higher-order functions with other variables": (
        "SELECT transform(arr, x -> x + 1), filter(arr, (x, i) -> x > i),"
        " aggregate(arr, 0L, (s, x) -> s + x), transform(arr, x -> transform(arr, y -> x - y))"
        " FROM trips",
        "SELECT transform(arr, y -> y + 1), filter(arr, (e, pos) -> e > pos),"
        " aggregate(arr, 0L, (acc, e) -> acc + e), transform(arr, y -> transform(arr, x -> y - x))"
        " FROM trips",
    ),
    "windows, inline and named": (
        "SELECT a, sum(b) OVER (PARTITION BY a ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
        " FROM trips",
        "SELECT a, sum(b) OVER w AS s FROM trips"
        " WINDOW w AS (PARTITION BY a ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    ),
    "windows of the DataFrame API": (
        "SELECT a, rank() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS r FROM trips",
        lambda p: p.spark.table("trips").select(
            "a",
            F.rank().over(Window.partitionBy("a").orderBy(F.col("b").desc_nulls_last())),
        ),
    ),
    "rollup under other names": (
        "SELECT a AS k, c, sum(b) FROM trips GROUP BY ROLLUP (a, c)",
        "SELECT t.a AS l, t.c, sum(t.b) AS s FROM trips t GROUP BY ROLLUP (t.a, t.c)",
    ),
    "grouping sets": (
        "SELECT a, c, grouping_id(), sum(b) FROM trips GROUP BY GROUPING SETS ((a), (a, c), ())",
        "SELECT a, c, grouping_id() AS g, sum(b) FROM trips"
        " GROUP BY GROUPING SETS ((a), (a, c), ())",
    ),
    "a pivot": (
        "SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x', 'y'))",
        "SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x' AS q, 'y' AS r))",
    ),
    "a DataFrame's pivot": (
        lambda p: p.spark.table("trips").groupBy("a").pivot("c", ["x", "y"]).sum("b"),
        lambda p: p.spark.table("trips").groupBy("a").pivot("c", ["x", "y"]).agg(F.sum("b")),
    ),
    "an unpivot": (
        "SELECT * FROM riders UNPIVOT (v FOR name IN (a, e))",
        "SELECT r.c AS k, name AS n, v AS w FROM riders r UNPIVOT (v FOR name IN (a, e))",
    ),
    "a lateral view under other names": (
        "SELECT a, x FROM trips LATERAL VIEW explode(arr) v AS x",
        "SELECT a, y FROM trips LATERAL VIEW explode(arr) AS y",
    ),
    "an explode in the projection": (
        "SELECT a, posexplode(arr) FROM trips",
        "SELECT a, posexplode(arr) AS (place, item) FROM trips",
    ),
    "a sample of the same seed": (
        lambda p: p.spark.range(50).sample(fraction=0.5, seed=3),
        lambda p: p.spark.range(50).sample(withReplacement=False, fraction=0.5, seed=3),
    ),
    "random numbers of the same seed": (
        "SELECT id, rand(42) AS r FROM range(5)",
        "SELECT id, rand(42) AS other FROM range(5)",
    ),
    "a limit after a sort": (
        "SELECT * FROM riders ORDER BY e, c LIMIT 3 OFFSET 1",
        lambda p: p.spark.table("riders").orderBy("e", "c").offset(1).limit(3),
    ),
    "unions": (
        "SELECT a, e FROM riders UNION ALL SELECT a, b FROM trips",
        lambda p: (
            p.spark.table("riders")
            .select("a", "e")
            .union(p.spark.table("trips").select(F.col("a").alias("k"), "b"))
        ),
    ),
    "set operations": (
        "(SELECT a FROM trips INTERSECT SELECT a FROM riders) EXCEPT ALL SELECT 2L",
        "(SELECT t.a FROM trips t INTERSECT SELECT r.a AS k FROM riders r) EXCEPT ALL SELECT 2L",
    ),
    "distinct rows": (
        "SELECT DISTINCT a, c FROM trips",
        lambda p: p.spark.table("trips").select("a", "c").distinct(),
    ),
    "aggregates that depend on the order": (
        "SELECT a, collect_list(i), first(c), max_by(c, i) FROM trips GROUP BY a",
        "SELECT a, collect_list(i) AS l, first(c) AS f, max_by(c, i) AS m FROM trips GROUP BY a",
    ),
    "aggregates with filters": (
        "SELECT a, sum(DISTINCT b) FILTER (WHERE i > 1) FROM trips GROUP BY a HAVING count(*) > 1",
        "SELECT a, sum(DISTINCT b) FILTER (WHERE 1 < i) AS s FROM trips GROUP BY a"
        " HAVING count(*) > 1",
    ),
    "a Python function defined twice": (
        lambda p: p.spark.table("riders").select(plus_one()("e")),
        lambda p: p.spark.table("riders").select(plus_one()("e").alias("next")),
    ),
    "a Python function over the same closure": (
        lambda p: p.spark.table("riders").select(times(3)("e")),
        lambda p: p.spark.table("riders").select(times(2 + 1)("e")),
    ),
    "a pandas aggregate": (
        lambda p: p.spark.table("riders").groupBy("a").agg(pandas_sum()("e")),
        lambda p: p.spark.table("riders").groupBy("a").agg(pandas_sum()("e").alias("s")),
    ),
    "mapInPandas": (
        lambda p: p.spark.table("riders").mapInPandas(doubled_in_pandas, "a long, e long"),
        lambda p: p.spark.table("riders").mapInPandas(doubled_in_pandas, "a long, e long"),
    ),
    "Parquet, read twice": (
        lambda p: p.env.read.parquet(str(p.home / "riders.parquet")),
        lambda p: p.env.sql(f"SELECT * FROM parquet.`{p.home / 'riders.parquet'}`"),
    ),
    "the same path, spelled otherwise": (
        lambda p: p.env.read.parquet(str(p.home / "riders.parquet")),
        lambda p: p.env.read.parquet(f"file://{p.home}/../{p.home.name}//riders.parquet{os.sep}"),
    ),
    "CSV by an equal reader": (
        lambda p: p.env.read.csv(str(p.home / "riders.csv"), header=True, inferSchema=True),
        lambda p: (
            p.env.read.format("csv")
            .options(inferschema="true", HEADER="true")
            .load(str(p.home / "riders.csv"))
        ),
    ),
    "JSON": (
        lambda p: p.env.read.json(str(p.home / "riders.json")),
        lambda p: p.env.read.format("json").load(str(p.home / "riders.json")),
    ),
    "ORC": (
        lambda p: p.env.read.orc(str(p.home / "riders.orc")).where("e > 10"),
        lambda p: p.env.read.format("orc").load(str(p.home / "riders.orc")).filter("10 < e"),
    ),
    "a partitioned directory": (
        lambda p: p.env.read.parquet(str(p.home / "by_e")).where("e = 20"),
        lambda p: p.env.read.parquet(str(p.home / "by_e")).filter(F.col("e") == 20),
    ),
    "rows handed in through pandas": (
        lambda p: p.spark.createDataFrame(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})),
        lambda p: p.spark.createDataFrame(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})),
    ),
}


@pytest.mark.parametrize(("first", "second"), SAME_QUERY.values(), ids=SAME_QUERY.keys())
@pytest.mark.sampled(2)
def test_the_same_computation_is_read(probe: Any, first: Any, second: Any) -> None:
    probe.keep(first)
    probe.assert_reads(second)


CONTAINING = {
    "a filter on top": f"SELECT a FROM ({COUNTS}) WHERE n > 1",
    "an aggregate on top": f"SELECT max(n) FROM ({COUNTS})",
    "in a join": f"SELECT * FROM riders JOIN ({COUNTS}) USING (a)",
    "in a join with itself": f"SELECT * FROM ({COUNTS}) x JOIN ({COUNTS}) y ON x.n = y.n",
    "in a union with itself": f"({COUNTS}) UNION ALL ({COUNTS})",
    "in IN": f"SELECT * FROM riders WHERE a IN (SELECT a FROM ({COUNTS}) WHERE n > 1)",
    "in a correlated EXISTS": (
        f"SELECT * FROM riders WHERE EXISTS (SELECT 1 FROM ({COUNTS}) x WHERE x.a = riders.a)"
    ),
    "in a scalar subquery": f"SELECT a, (SELECT max(n) FROM ({COUNTS})) AS top FROM riders",
    "in a lateral subquery": (
        f"SELECT r.a, x.n FROM riders r, LATERAL (SELECT n FROM ({COUNTS}) y WHERE y.a = r.a) x"
    ),
    "in a CTE that is used twice": (
        f"WITH x AS ({COUNTS}) SELECT * FROM x WHERE n > (SELECT avg(n) FROM x)"
    ),
    "in a CTE of a CTE": (
        f"WITH x AS (WITH y AS ({COUNTS}) SELECT * FROM y WHERE n > 1) SELECT count(*) FROM x"
    ),
    "below a window": f"SELECT a, rank() OVER (ORDER BY n) FROM ({COUNTS})",
    "below an explode": f"SELECT a, explode(sequence(1, n)) FROM ({COUNTS})",
    "below a Python function": lambda p: counts(p).select(plus_one()("count")),
    "in a correlated subquery's CTE": (
        f"SELECT * FROM riders r WHERE e > (WITH x AS ({COUNTS}) SELECT max(n) FROM x"
        " WHERE x.a = r.a)"
    ),
}


@pytest.mark.parametrize("query", CONTAINING.values(), ids=CONTAINING.keys())
@pytest.mark.sampled(3)
def test_a_larger_query_reads_the_part_that_is_kept(probe: Any, query: Any) -> None:
    probe.keep(COUNTS)
    probe.assert_reads(query)


def test_a_join_with_itself_reads_on_both_sides(probe: Any) -> None:
    hot = probe.keep(COUNTS)
    twice = hot.join(hot, "a")
    rows = probe.rows(twice)
    assert probe.outcomes() == [VertexOutcome.READ, VertexOutcome.RUN]
    executed = twice.to_dataframe()._jdf.queryExecution().analyzed().toString()
    assert executed.count("parquet") >= 2
    assert "trips" not in executed.lower()
    assert sorted(rows) == sorted(probe.plain_rows(lambda p: hot.join(hot, "a")))


def test_below_a_view_and_a_view_of_a_view(probe: Any) -> None:
    probe.keep(COUNTS)
    probe.spark.sql(f"CREATE OR REPLACE TEMP VIEW counted AS {COUNTS}")
    probe.spark.sql("CREATE OR REPLACE TEMP VIEW recounted AS SELECT a AS k, n AS m FROM counted")
    try:
        probe.assert_reads("SELECT * FROM counted")
        probe.assert_reads("SELECT k FROM recounted WHERE m > 1")
        probe.assert_reads(lambda p: p.env.table("recounted"))
    finally:
        probe.spark.catalog.dropTempView("recounted")
        probe.spark.catalog.dropTempView("counted")


def test_a_dataframe_s_view_reads_too(probe: Any) -> None:
    counts(probe).createOrReplaceTempView("counted")
    try:
        probe.keep("SELECT * FROM counted")
        probe.assert_reads(COUNTS)
    finally:
        probe.spark.catalog.dropTempView("counted")


def test_a_table_given_to_sql_by_name_reads(probe: Any) -> None:
    hot = probe.keep(COUNTS)
    probe.assert_reads(lambda p: p.env.sql("SELECT sum(n) FROM {hot}", hot=hot))


def test_whoever_comes_first_keeps_it(probe: Any) -> None:
    probe.table(counts).cache()
    probe.rows(probe.table(f"SELECT * FROM ({COUNTS}) WHERE n > 1"))
    assert probe.outcomes() == [VertexOutcome.PRODUCED, VertexOutcome.RUN]
    probe.assert_reads(counts)


def test_a_cte_that_comes_first_keeps_what_a_dataframe_cached(probe: Any) -> None:
    probe.table(lambda p: counts(p).where("count > 1")).cache()
    probe.table(counts).cache()
    query = f"WITH x AS ({COUNTS}), y AS (SELECT * FROM x WHERE n > 1) SELECT * FROM y, x"
    rows = probe.rows(probe.table(query))
    assert probe.outcomes().count(VertexOutcome.PRODUCED) == 2
    assert sorted(rows) == sorted(probe.plain_rows(query))


def test_nested_caches_read_the_outermost(probe: Any) -> None:
    probe.keep(COUNTS)
    probe.keep(f"SELECT * FROM ({COUNTS}) WHERE n > 1")
    probe.assert_reads(f"SELECT count(*) FROM (SELECT * FROM ({COUNTS}) WHERE n > 1)")


def test_two_kept_parts_of_one_query_are_both_read(probe: Any) -> None:
    probe.keep(COUNTS)
    probe.keep("SELECT a, max(e) AS top FROM riders GROUP BY a")
    probe.assert_reads(
        f"SELECT * FROM ({COUNTS}) JOIN (SELECT a, max(e) AS m FROM riders GROUP BY a) USING (a)",
        times=2,
    )


def test_what_was_kept_sorted_comes_sorted(probe: Any) -> None:
    query = "SELECT * FROM trips ORDER BY b DESC, i, c"
    probe.keep(query)
    probe.assert_reads(query, ordered=True)
    probe.assert_reads(
        lambda p: p.spark.table("trips").orderBy(F.desc("b"), "i", "c").where("i > 1"),
        ordered=True,
    )


def test_what_matches_only_itself_does_match_itself(probe: Any) -> None:
    moment = probe.table("SELECT a, uuid() AS u, current_timestamp() AS t FROM trips")
    first = probe.rows(moment.cache())
    assert sorted(probe.rows(moment)) == sorted(first)
    assert VertexOutcome.READ in probe.outcomes()
    assert len(probe.rows(moment.where("a = 1"))) == 3
    assert VertexOutcome.READ in probe.outcomes()
    both = moment.join(moment.select("u"), "u")
    assert len(probe.rows(both)) == len(first)
    assert VertexOutcome.READ in probe.outcomes()


def test_rows_handed_in_by_python_match_the_same_dataframe(probe: Any) -> None:
    handed = probe.spark.createDataFrame([(1, "a"), (2, "b")], "x int, y string")
    probe.keep(lambda p: handed.where("x > 1"))
    probe.assert_reads(lambda p: handed.where("x > 1"))
    probe.assert_reads(lambda p: handed.where("1 < x").select("y"))


def test_settings_that_only_move_work_around_do_not_count(probe: Any) -> None:
    probe.keep(COUNTS)
    settings = {"spark.sql.shuffle.partitions": "3", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with probe.settings(settings):
        probe.assert_reads(COUNTS)


def test_a_setting_set_back_makes_the_kept_rows_match_again(probe: Any) -> None:
    query = "SELECT cast(ts AS STRING) AS s FROM trips"
    probe.keep(query)
    with probe.settings({"spark.sql.session.timeZone": "Asia/Tokyo"}):
        probe.assert_computes(lambda p: p.spark.table("trips").select("ts"))
    probe.assert_reads(query)
