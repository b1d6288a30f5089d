"""Other ways to write the same are read; what only looks the same is computed."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast.testing import assert_differ, assert_same
from tests.spark import frame_functions
from tests.spark.asking import families
from tests.spark.conftest import Probe, Query

pytest_plugins = ["tests.spark.asking"]

COUNTS = "SELECT a, count(*) AS n FROM trips GROUP BY a"
DAYS = "VALUES (1L, DATE'2020-01-01'), (2L, DATE'2020-01-03') AS days(a, dt)"
JOIN = "SELECT t.a, t.b, r.e FROM trips t JOIN riders r ON t.a = r.a"

SAME = rf"""
SELECT one.a x, one.b AS y, other.e AS z FROM trips one JOIN riders AS other ON one.a = other.a
  ~ {JOIN}
SELECT trips.a, b FROM trips WHERE trips.b > 10 ~ SELECT a, trips.b FROM trips WHERE b > 10
SELECT * FROM trips WHERE a > 0 AND (b > 5 OR c = 'x' OR d > 1) AND i > 0
  ~ SELECT * FROM trips WHERE i > 0 AND a > 0 AND (d > 1 OR b > 5 OR c = 'x')
SELECT * FROM trips t JOIN riders r ON t.a = r.a AND t.b <=> r.e
  ~ SELECT * FROM trips t JOIN riders r ON r.e <=> t.b AND r.a = t.a
SELECT * FROM trips WHERE a < b AND b >= 10 ~ SELECT * FROM trips WHERE b > a AND 10 <= b
SELECT a + b, a * b, a & b FROM trips ~ SELECT b + a, b * a, b & a FROM trips
SELECT * FROM trips WHERE a IN (1, 2, 3) ~ SELECT * FROM trips WHERE a IN (3, 1, 2)
SELECT a, e, c FROM riders WHERE e > 10
  ~ SELECT x AS a, y, z FROM (SELECT a AS x, e AS y, c AS z FROM riders) WHERE y > 10
WITH x AS ({COUNTS}) SELECT * FROM x WHERE n > 1 ~ SELECT * FROM ({COUNTS}) WHERE n > 1
WITH x AS ({COUNTS}), y AS (SELECT * FROM x WHERE n > 1)
    SELECT x.a, x.n, y.n AS m FROM x JOIN y ON x.a = y.a
  ~ SELECT l.a, l.n, r.n FROM ({COUNTS}) l
    JOIN (WITH z AS ({COUNTS}) SELECT * FROM z WHERE n > 1) r ON l.a = r.a
FROM trips |> WHERE a > 1 |> SELECT a, b ~ SELECT a, b FROM trips WHERE a > 1
SELECT * FROM trips WHERE a IN (SELECT a FROM riders WHERE e > 10)
  ~ SELECT * FROM trips AS t WHERE t.a IN (SELECT r.a FROM riders r WHERE 10 < r.e)
SELECT * FROM trips WHERE EXISTS (SELECT 1 FROM riders WHERE riders.a = trips.a)
  ~ SELECT * FROM trips x WHERE EXISTS (SELECT 1 FROM riders y WHERE x.a = y.a)
SELECT a, (SELECT max(e) FROM riders r WHERE r.a = t.a) AS top FROM trips t
  ~ SELECT a, (SELECT max(e) FROM riders s WHERE s.a = u.a) AS best FROM trips u
SELECT t.a, x.e FROM trips t, LATERAL (SELECT * FROM riders r WHERE r.a = t.a) x
  ~ SELECT u.a, y.e FROM trips u, LATERAL (SELECT * FROM riders s WHERE s.a = u.a) y
SELECT * FROM range(7) ~ SELECT id AS number FROM range(0, 7)
SELECT * FROM VALUES (1, 'a', -0.0D), (2, 'it''s', NULL) AS t(x, y, z)
  ~ SELECT * FROM VALUES (1, 'a', -0.0D), (2, 'it\'s', NULL) AS u(k, l, m)
SELECT transform(arr, x -> x + 1), filter(arr, (x, i) -> x > i) FROM trips
  ~ SELECT transform(arr, y -> y + 1), filter(arr, (e, pos) -> e > pos) FROM trips
SELECT aggregate(arr, 0L, (s, x) -> s + x), transform(arr, x -> transform(arr, y -> x - y))
    FROM trips
  ~ SELECT aggregate(arr, 0L, (k, e) -> k + e), transform(arr, y -> transform(arr, x -> y - x))
    FROM trips
SELECT a, sum(b) OVER (PARTITION BY a ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    FROM trips
  ~ SELECT a, sum(b) OVER w AS s FROM trips
    WINDOW w AS (PARTITION BY a ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
SELECT a AS k, c, sum(b) FROM trips GROUP BY ROLLUP (a, c)
  ~ SELECT t.a AS l, t.c, sum(t.b) AS s FROM trips t GROUP BY ROLLUP (t.a, t.c)
SELECT a, c, grouping_id(), sum(b) FROM trips GROUP BY GROUPING SETS ((a), (a, c), ())
  ~ SELECT a, c, grouping_id() AS g, sum(b) FROM trips GROUP BY GROUPING SETS ((a), (a, c), ())
SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x', 'y'))
  ~ SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x' AS q, 'y' AS r))
SELECT * FROM riders UNPIVOT (v FOR name IN (a, e))
  ~ SELECT r.c AS k, name AS n, v AS w FROM riders r UNPIVOT (v FOR name IN (a, e))
SELECT a, x FROM trips LATERAL VIEW explode(arr) v AS x
  ~ SELECT a, y FROM trips LATERAL VIEW explode(arr) AS y
SELECT a, posexplode(arr) FROM trips ~ SELECT a, posexplode(arr) AS (place, item) FROM trips
SELECT id, rand(42) AS r FROM range(5) ~ SELECT id, rand(42) AS other FROM range(5)
(SELECT a FROM trips INTERSECT SELECT a FROM riders) EXCEPT ALL SELECT 2L
  ~ (SELECT t.a FROM trips t INTERSECT SELECT r.a AS k FROM riders r) EXCEPT ALL SELECT 2L
SELECT a, collect_list(i), first(c), max_by(c, i) FROM trips GROUP BY a
  ~ SELECT a, collect_list(i) AS l, first(c) AS f, max_by(c, i) AS m FROM trips GROUP BY a
SELECT a, sum(DISTINCT b) FILTER (WHERE i > 1) FROM trips GROUP BY a HAVING count(*) > 1
  ~ SELECT a, sum(DISTINCT b) FILTER (WHERE 1 < i) AS s FROM trips GROUP BY a HAVING count(*) > 1
SELECT * FROM trips WHERE a > 1 ~ SELECT * FROM (SELECT * FROM trips WHERE a > 1) WHERE a > 1
SELECT a, b, c FROM trips ~ SELECT c, a, b FROM trips ~ SELECT c AS x, a AS c, b AS a FROM trips
SELECT a, b FROM trips ~ SELECT b, a, b AS again FROM trips
SELECT a + 1 AS x, b * 2 AS y FROM trips
  ~ SELECT x, z AS y FROM (SELECT a + 1 AS x, b * 2 AS z, c FROM trips)
SELECT (a + b) * 2 AS x FROM trips ~ SELECT s * 2 AS x FROM (SELECT a + b AS s FROM trips)
SELECT a, b FROM (SELECT * FROM trips WHERE i > 1)
  ~ SELECT a, b FROM (SELECT a, b, i FROM trips) WHERE i > 1
SELECT a FROM trips WHERE a > 1 AND b > 5
  ~ SELECT a FROM (SELECT a, a > 1 AND b > 5 AS p FROM trips) WHERE p
SELECT a, i FROM trips ~ SELECT CAST(a AS BIGINT) AS a, CAST(i AS INT) AS i FROM trips
SELECT * FROM trips WHERE a + b BETWEEN 10 AND 21
  ~ SELECT * FROM trips WHERE 10 <= a + b AND a + b <= 21
SELECT * FROM trips WHERE isnotnull(a) ~ SELECT * FROM trips WHERE NOT isnull(a)
SELECT t.a, r.e FROM trips t JOIN (SELECT * FROM riders WHERE e > 10) r ON t.a = r.a
  ~ SELECT t.a, r.e FROM (SELECT * FROM riders WHERE e > 10) r JOIN trips t ON t.a = r.a
SELECT t.b, r.e FROM trips t FULL JOIN riders r ON t.a = r.a
  ~ SELECT t.b, r.e FROM riders r FULL JOIN trips t ON t.a = r.a
SELECT * FROM trips WHERE a > '1' AND b > 5 AND a IN (2, 3)
  ~ SELECT * FROM (SELECT * FROM trips WHERE a IN (3, 2) AND 5 < b) WHERE a > '1'
SELECT * FROM trips WHERE a % 3 = 1 AND d * 2 > 1 AND d / 4 < 3
  ~ SELECT * FROM trips WHERE d / 4 < 3 AND 1 = a % 3 AND 2 * d > 1
SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.a)
  ~ SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE t.a = r.a)
SELECT a FROM {DAYS} WHERE CAST(dt AS STRING) > '2020-01-02' AND a > 1
  ~ SELECT a FROM {DAYS} WHERE a > 1 AND CAST(dt AS STRING) > '2020-01-02'
"""

OTHER = """
SELECT * FROM (SELECT * FROM trips ORDER BY i LIMIT 3) WHERE i > 1
  ~ SELECT * FROM (SELECT * FROM trips WHERE i > 1) ORDER BY i LIMIT 3
SELECT t.a, t.b, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a
  ~ SELECT t.a, t.b, r.e FROM riders r LEFT JOIN trips t ON t.a = r.a
SELECT t.a, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a AND r.e > 10
  ~ SELECT t.a, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a WHERE r.e > 10
SELECT x.b FROM trips x JOIN trips y ON x.a = y.b
  ~ SELECT y.b FROM trips x JOIN trips y ON x.a = y.b
SELECT r.z FROM trips t LEFT JOIN (SELECT *, coalesce(e, 0) AS z FROM riders) r ON t.a = r.a
  ~ SELECT coalesce(r.e, 0) AS z FROM trips t LEFT JOIN riders r ON t.a = r.a
SELECT a FROM (SELECT DISTINCT a, i FROM trips) ~ SELECT DISTINCT a FROM trips
SELECT a, b FROM trips UNION ALL SELECT a, e FROM riders
  ~ SELECT b, a FROM trips UNION ALL SELECT a, e FROM riders
SELECT a, b FROM trips EXCEPT SELECT a, e FROM riders
  ~ SELECT a, b FROM trips EXCEPT SELECT e, a FROM riders
SELECT * FROM trips WHERE (a, b) IN (SELECT a, e FROM riders)
  ~ SELECT * FROM trips WHERE (a, b) IN (SELECT e, a FROM riders)
SELECT count(*) AS n FROM trips WHERE a > 100
  ~ SELECT count(*) AS n FROM trips WHERE a > 100 GROUP BY 'x'
SELECT * FROM trips WHERE a > 1 AND b > 5 ~ SELECT * FROM trips WHERE a > 1 OR b > 5
SELECT (d + a) + b AS x FROM trips ~ SELECT d + (a + b) AS x FROM trips
SELECT * FROM trips WHERE NOT (a > 1 AND b > 5)
  ~ SELECT * FROM trips WHERE NOT (a > 1) AND NOT (b > 5)
SELECT to_json(struct(x, y)) AS j FROM (SELECT a AS x, b AS y FROM trips)
  ~ SELECT to_json(struct(y, x)) AS j FROM (SELECT b AS x, a AS y FROM trips)
SELECT t.a FROM trips t JOIN riders r ON t.a = r.a LIMIT 2
  ~ SELECT t.a FROM riders r JOIN trips t ON t.a = r.a LIMIT 2
"""

# Each may throw, unless something else decides first.
THROWING = f"""
SELECT * FROM trips WHERE a <> 0 AND 10 / a > 1 ~ SELECT * FROM trips WHERE 10 / a > 1 AND a <> 0
SELECT * FROM trips WHERE a * 2 > 1 AND b > 1 ~ SELECT * FROM trips WHERE b > 1 AND a * 2 > 1
SELECT * FROM trips WHERE a % b > 1 AND b > 1 ~ SELECT * FROM trips WHERE b > 1 AND a % b > 1
SELECT a FROM (SELECT a, 10 DIV b AS x FROM trips) t
    WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.x)
  ~ SELECT a FROM (SELECT a, 10 DIV b AS x FROM trips) t
    WHERE EXISTS (SELECT 1 FROM riders r WHERE t.x = r.a)
SELECT a FROM {DAYS} WHERE dt > TIMESTAMP'2020-01-02 00:00:00' AND a > 1
  ~ SELECT a FROM {DAYS} WHERE a > 1 AND dt > TIMESTAMP'2020-01-02 00:00:00'
SELECT * FROM (SELECT * FROM trips WHERE a <> 0) WHERE 10 / a > 1
  ~ SELECT * FROM (SELECT * FROM trips WHERE 10 / a > 1) WHERE a <> 0
{JOIN} AND 10 / t.b > 1 WHERE r.e > t.b ~ {JOIN} AND r.e > t.b WHERE 10 / t.b > 1
SELECT a FROM (SELECT a, 10 / b AS x FROM trips) WHERE a > 1 OR x > 1
  ~ SELECT a FROM (SELECT a, 10 / b AS x FROM trips) WHERE x > 1 OR a > 1
SELECT a + 10 DIV b AS x FROM trips ~ SELECT 10 DIV b + a AS x FROM trips
SELECT * FROM trips WHERE a > 10 DIV b ~ SELECT * FROM trips WHERE 10 DIV b < a
SELECT * FROM trips WHERE a IN (1, 10 DIV b) ~ SELECT * FROM trips WHERE a IN (10 DIV b, 1)
"""


# In Python; what is no code is SQL.
SAME_IN_PYTHON = """
trips.where("a > 1").where("b > 5").where("i < 6")
  ~ trips.where("i < 6").where((F.col("b") > 5) & (F.col("a") > 1))
SELECT * FROM (SELECT a, count(*) AS n FROM trips GROUP BY a) WHERE n > 1
  ~ trips.groupBy("a").count().where("count > 1")
sql("SELECT * FROM trips WHERE a = :k AND c = :c", {"k": 1, "c": "x"})
  ~ sql("SELECT * FROM trips WHERE a = ? AND c = ?", [1, "x"])
  ~ SELECT * FROM trips WHERE a = 1 AND c = 'x'
spark.range(7) ~ spark.range(0, 7, 1)
SELECT a, rank() OVER (PARTITION BY a ORDER BY b DESC NULLS LAST) AS r FROM trips
  ~ trips.select("a", F.rank().over(W.partitionBy("a").orderBy(F.col("b").desc_nulls_last())))
trips.groupBy("a").pivot("c", ["x", "y"]).sum("b")
  ~ trips.groupBy("a").pivot("c", ["x", "y"]).agg(F.sum("b"))
SELECT * FROM riders ORDER BY e, c LIMIT 3 OFFSET 1 ~ riders.orderBy("e", "c").offset(1).limit(3)
SELECT a, e FROM riders UNION ALL SELECT a, b FROM trips
  ~ riders.select("a", "e").union(trips.select(F.col("a").alias("k"), "b"))
trips.select("a", "d").distinct() ~ trips.select("d", "a").dropDuplicates()
riders.select(F.udf(lambda x: x, "bigint")("e"))
  ~ riders.select(F.udf(lambda x: x, "bigint")("e").alias("y"))
riders.groupBy("a").agg(F.pandas_udf(total, "long")("e"))
  ~ riders.groupBy("a").agg(F.pandas_udf(total, "long")("e").alias("s"))
riders.select("a", "e").mapInPandas(each_doubled, "a long, e long")
  ~ riders.select("a", "e").mapInPandas(each_doubled, "a long, e long")
read.parquet(f"{home}/riders.parquet") ~ sql(f"SELECT * FROM parquet.`{home}/riders.parquet`")
  ~ read.parquet(f"file://{home}/../{home.name}//riders.parquet/")
read.csv(f"{home}/riders.csv", header=True, inferSchema=True)
  ~ read.options(inferschema="true", HEADER="true").format("csv").load(f"{home}/riders.csv")
read.orc(f"{home}/riders.orc").where("e > 10")
  ~ read.format("orc").load(f"{home}/riders.orc").filter("10 < e")
spark.createDataFrame(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}))
  ~ spark.createDataFrame(pd.DataFrame({"x": [1, 2], "y": ["a", "b"]}))
"""
# Above no rows; what a function sees; what is drawn of rows, and in which order.
OTHER_IN_PYTHON = """
trips.where("a > 100").select().distinct() ~ trips.where("a > 100").agg(F.count("*")).select()
trips.select("a", "b").mapInPandas(first_column, "v double")
  ~ trips.select("b", "a").mapInPandas(first_column, "v double")
spark.range(200).where("id % 2 = 0").sample(0.3, 7)
  ~ spark.range(200).sample(0.3, 7).where("id % 2 = 0")
spark.range(100).where((F.rand(1) > 0.4) & (F.rand(2) > 0.4))
  ~ spark.range(100).where((F.rand(2) > 0.4) & (F.rand(1) > 0.4))
"""


def made(text: str) -> Query:
    """A query that is written in SQL or in Python."""
    if text.split(" ", 1)[0] in ("SELECT", "WITH", "FROM") or text.startswith("(SELECT"):
        return text

    def query(p: Probe) -> DataFrame:
        names = {"home": p.home, "spark": p.env, "read": p.env.read, "sql": p.env.sql}
        names |= {name: p.env.table(name) for name in ("trips", "riders")}
        modules = {"__name__": "__main__", "F": F, "W": Window, "pd": pd, **vars(frame_functions)}
        return eval(text, modules | names)  # type: ignore[no-any-return]

    return query


def pairs(texts: str) -> Any:
    """Each query with the first one of its family, by which it is called."""
    found = [(one, other) for one, *others in families(texts) for other in others]
    cases = [pytest.param(made(one), made(other), id=one[:80]) for one, other in found]
    return pytest.mark.parametrize(("one", "other"), cases)


@pairs(SAME + SAME_IN_PYTHON)
def test_another_way_to_write_it_is_the_same(asked: Probe, one: Query, other: Query) -> None:
    assert_same(asked.table(one), asked.table(other))


# That what is read has the columns that were asked for takes a job to see.
@pairs(SAME + SAME_IN_PYTHON)
@pytest.mark.sampled(8)
def test_another_way_to_write_it_is_read(probe: Probe, one: Query, other: Query) -> None:
    probe.keep(one)
    probe.assert_reads(other)


@pairs(OTHER + OTHER_IN_PYTHON)
def test_what_only_looks_the_same_is_computed(asked: Probe, one: Query, other: Query) -> None:
    assert_differ(asked.table(one), asked.table(other))


@pairs(THROWING)
def test_what_throws_is_not_moved(asked: Probe, one: Query, other: Query) -> None:
    assert_differ(asked.table(one), asked.table(other))


@pairs(OTHER + THROWING + OTHER_IN_PYTHON)
@pytest.mark.sampled(12, 1)
def test_what_only_looks_the_same_has_its_own_rows(probe: Probe, one: Query, other: Query) -> None:
    probe.keep(one)
    probe.assert_computes(other)


def test_columns_in_another_order_are_read_above_a_join(probe: Probe) -> None:
    probe.keep("SELECT a, b AS x, c FROM trips WHERE b > 5")
    probe.assert_reads(
        "SELECT r.e, s.c, s.y FROM (SELECT c, b AS y, a FROM trips WHERE b > 5) s"
        " JOIN riders r ON s.a = r.a WHERE s.y < 30"
    )


def test_an_ordered_table_is_read_in_its_order(probe: Probe) -> None:
    probe.keep("SELECT a, b, i FROM trips ORDER BY i DESC")
    probe.assert_reads("SELECT i, b AS x, a FROM trips ORDER BY i DESC", ordered=True)


CONDITIONS = ("a > 1", "NOT b <= 10", "i BETWEEN 2 AND 5", "a = 2 OR b IS NULL", "d < 1")


def in_some_way(table: DataFrame, conditions: list[str], columns: list[str], draw: Any) -> Any:
    """The same rows and columns: filters and selections in any order, one by one or together."""
    left = draw(st.permutations(conditions))
    while left:
        taken = draw(st.integers(1, len(left)))
        table = table.where(" AND ".join(f"({each})" for each in left[:taken]))
        left = left[taken:]
        if draw(st.booleans()):
            table = table.select(*draw(st.permutations(table.columns)))
    names = {each: f"x{draw(st.integers(0, 99))}_{each}" for each in columns}
    return table.select(
        *[F.col(each).alias(names[each]) for each in draw(st.permutations(columns))]
    )


@settings(max_examples=settings.default.max_examples // 2)
@given(
    conditions=st.lists(st.sampled_from(CONDITIONS), max_size=4),
    columns=st.lists(st.sampled_from("abi"), min_size=1, max_size=3, unique=True),
    data=st.data(),
)
def test_any_way_to_write_filters_and_columns_is_the_same(
    asked: Probe, conditions: list[str], columns: list[str], data: st.DataObject
) -> None:
    table = asked.table("SELECT a, b, c, d, i FROM trips")
    one = in_some_way(table, conditions, columns, data.draw)
    assert_same(one, in_some_way(table, conditions, columns, data.draw))
    if conditions:
        fewer = [each for each in conditions if each != conditions[0]]
        assert_differ(one, in_some_way(table, fewer, columns, data.draw))
