"""Other ways to write the same are read; what only looks the same is computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

pytestmark = pytest.mark.usefixtures("interpreted")

TRIPS = "SELECT a, b, c, d, i FROM trips"
DAYS = "VALUES (1L, DATE'2020-01-01'), (2L, DATE'2020-01-03') AS days(a, dt)"
JOIN = "SELECT t.a, t.b, r.e FROM trips t JOIN riders r ON t.a = r.a"

SAME = {
    "two filters, and both conditions in one": (
        "SELECT * FROM (SELECT * FROM trips WHERE a > 1) WHERE b > 5",
        "SELECT * FROM trips WHERE a > 1 AND b > 5",
    ),
    "filters in another order": (
        lambda p: p.spark.table("trips").where("a > 1").where("b > 5").where("i < 6"),
        lambda p: p.spark.table("trips").where("i < 6").where("a > 1").where("b > 5"),
    ),
    "a condition twice": (
        "SELECT * FROM trips WHERE a > 1",
        "SELECT * FROM (SELECT * FROM trips WHERE a > 1) WHERE a > 1",
    ),
    "columns in another order": ("SELECT a, b, c FROM trips", "SELECT c, a, b FROM trips"),
    "columns in another order under other names": (
        "SELECT a, b, c FROM trips",
        "SELECT c AS x, a AS c, b AS a FROM trips",
    ),
    "a column twice": ("SELECT a, b FROM trips", "SELECT b, a, b AS again FROM trips"),
    "a column once": ("SELECT b, a, b AS again FROM trips", "SELECT a, b FROM trips"),
    "a selection of a selection": (
        "SELECT a + 1 AS x, b * 2 AS y FROM trips",
        "SELECT x, z AS y FROM (SELECT a + 1 AS x, b * 2 AS z, c FROM trips)",
    ),
    "an expression over a named one": (
        "SELECT (a + b) * 2 AS x FROM trips",
        "SELECT s * 2 AS x FROM (SELECT a + b AS s FROM trips)",
    ),
    "columns chosen before the filter": (
        "SELECT a, b FROM (SELECT * FROM trips WHERE i > 1)",
        "SELECT a, b FROM (SELECT a, b, i FROM trips) WHERE i > 1",
    ),
    "a filter on a named condition": (
        "SELECT a FROM trips WHERE a > 1 AND b > 5",
        "SELECT a FROM (SELECT a, a > 1 AND b > 5 AS p FROM trips) WHERE p",
    ),
    "a cast to the same type": (
        "SELECT a, i FROM trips",
        "SELECT CAST(a AS BIGINT) AS a, CAST(i AS INT) AS i FROM trips",
    ),
    "a negated comparison": (
        "SELECT * FROM trips WHERE NOT (a <= 1)",
        "SELECT * FROM trips WHERE a > 1",
    ),
    "a negated equation": (
        "SELECT * FROM trips WHERE NOT (a = 1 OR b = 20)",
        "SELECT * FROM trips WHERE a != 1 AND b != 20",
    ),
    "between, and two comparisons": (
        "SELECT * FROM trips WHERE b BETWEEN 10 AND 20",
        "SELECT * FROM trips WHERE b >= 10 AND b <= 20",
    ),
    "between of an expression": (
        "SELECT * FROM trips WHERE a + b BETWEEN 10 AND 21",
        "SELECT * FROM trips WHERE 10 <= a + b AND a + b <= 21",
    ),
    "not null": (
        "SELECT * FROM trips WHERE isnotnull(a)",
        "SELECT * FROM trips WHERE NOT isnull(a)",
    ),
    "if, and case": (
        "SELECT if(a > 1, b, i) AS x FROM trips",
        "SELECT CASE WHEN a > 1 THEN b ELSE i END AS x FROM trips",
    ),
    "the sides of a join": (
        JOIN,
        "SELECT t.a, t.b, r.e FROM riders r JOIN trips t ON r.a = t.a",
    ),
    "the sides of a join with a filter on one": (
        "SELECT t.a, r.e FROM trips t JOIN (SELECT * FROM riders WHERE e > 10) r ON t.a = r.a",
        "SELECT t.a, r.e FROM (SELECT * FROM riders WHERE e > 10) r JOIN trips t ON t.a = r.a",
    ),
    "a left join, and a right one": (
        "SELECT t.a, t.b, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a",
        "SELECT t.a, t.b, r.e FROM riders r RIGHT JOIN trips t ON t.a = r.a",
    ),
    "the sides of a full join": (
        "SELECT t.b, r.e FROM trips t FULL JOIN riders r ON t.a = r.a",
        "SELECT t.b, r.e FROM riders r FULL JOIN trips t ON t.a = r.a",
    ),
    "a join's condition in WHERE": (
        JOIN,
        "SELECT t.a, t.b, r.e FROM trips t, riders r WHERE t.a = r.a",
    ),
    "group keys in another order": (
        "SELECT a, c, count(*) AS n FROM trips GROUP BY a, c",
        "SELECT a, c, count(*) AS n FROM trips GROUP BY c, a",
    ),
    "aggregates in another order": (
        "SELECT a, count(*) AS n, max(b) AS m FROM trips GROUP BY a",
        "SELECT max(b) AS m, a, count(*) AS n FROM trips GROUP BY a",
    ),
    "conditions, of which none throws": (
        "SELECT * FROM trips WHERE a > '1' AND b > 5 AND a IN (2, 3)",
        "SELECT * FROM (SELECT * FROM trips WHERE a IN (3, 2) AND 5 < b) WHERE a > '1'",
    ),
    "arithmetic that doesn't throw": (
        "SELECT * FROM trips WHERE a % 3 = 1 AND d * 2 > 1 AND d / 4 < 3",
        "SELECT * FROM trips WHERE d / 4 < 3 AND 1 = a % 3 AND 2 * d > 1",
    ),
    "the condition of a subquery": (
        "SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.a)",
        "SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE t.a = r.a)",
    ),
    "conditions, of which one makes a text of a day": (
        f"SELECT a FROM {DAYS} WHERE CAST(dt AS STRING) > '2020-01-02' AND a > 1",
        f"SELECT a FROM {DAYS} WHERE a > 1 AND CAST(dt AS STRING) > '2020-01-02'",
    ),
    "distinct, and a group by all": (
        "SELECT DISTINCT a, c FROM trips",
        "SELECT c, a FROM trips GROUP BY a, c",
    ),
    "distinct, and duplicates dropped": (
        lambda p: p.spark.table("trips").select("a", "d").distinct(),
        lambda p: p.spark.table("trips").select("d", "a").dropDuplicates(),
    ),
}

DIFFERENT = {
    "a filter before and after a limit": (
        "SELECT * FROM (SELECT * FROM trips ORDER BY i LIMIT 3) WHERE i > 1",
        "SELECT * FROM (SELECT * FROM trips WHERE i > 1) ORDER BY i LIMIT 3",
    ),
    "the sides of a left join": (
        "SELECT t.a, t.b, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a",
        "SELECT t.a, t.b, r.e FROM riders r LEFT JOIN trips t ON t.a = r.a",
    ),
    "a condition on and above a left join": (
        "SELECT t.a, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a AND r.e > 10",
        "SELECT t.a, r.e FROM trips t LEFT JOIN riders r ON t.a = r.a WHERE r.e > 10",
    ),
    "a column of one side and of the other": (
        "SELECT x.b FROM trips x JOIN trips y ON x.a = y.b",
        "SELECT y.b FROM trips x JOIN trips y ON x.a = y.b",
    ),
    "a value computed below and above an outer join": (
        "SELECT r.z FROM trips t LEFT JOIN (SELECT *, coalesce(e, 0) AS z FROM riders) r"
        " ON t.a = r.a",
        "SELECT coalesce(r.e, 0) AS z FROM trips t LEFT JOIN riders r ON t.a = r.a",
    ),
    "distinct of more columns": (
        "SELECT a FROM (SELECT DISTINCT a, i FROM trips)",
        "SELECT DISTINCT a FROM trips",
    ),
    "columns that change places in a union": (
        "SELECT a, b FROM trips UNION ALL SELECT a, e FROM riders",
        "SELECT b, a FROM trips UNION ALL SELECT a, e FROM riders",
    ),
    "columns that change places in EXCEPT": (
        "SELECT a, b FROM trips EXCEPT SELECT a, e FROM riders",
        "SELECT a, b FROM trips EXCEPT SELECT e, a FROM riders",
    ),
    "columns that change places in IN": (
        "SELECT * FROM trips WHERE (a, b) IN (SELECT a, e FROM riders)",
        "SELECT * FROM trips WHERE (a, b) IN (SELECT e, a FROM riders)",
    ),
    "no group, and groups by a constant": (
        "SELECT count(*) AS n FROM trips WHERE a > 100",
        "SELECT count(*) AS n FROM trips WHERE a > 100 GROUP BY 'x'",
    ),
    "no column of distinct rows, and of one row": (
        lambda p: p.spark.table("trips").where("a > 100").select().distinct(),
        lambda p: p.spark.table("trips").where("a > 100").agg(F.count("*")).select(),
    ),
    "a cast, and none": ("SELECT a FROM trips", "SELECT CAST(a AS INT) AS a FROM trips"),
    "and, or": (
        "SELECT * FROM trips WHERE a > 1 AND b > 5",
        "SELECT * FROM trips WHERE a > 1 OR b > 5",
    ),
    "conditions, of which one throws unless the other decides": (
        "SELECT * FROM trips WHERE a <> 0 AND 10 / a > 1",
        "SELECT * FROM trips WHERE 10 / a > 1 AND a <> 0",
    ),
    "conditions, of which one overflows": (
        "SELECT * FROM trips WHERE a * 2 > 1 AND b > 1",
        "SELECT * FROM trips WHERE b > 1 AND a * 2 > 1",
    ),
    "conditions, of which one may divide by 0": (
        "SELECT * FROM trips WHERE a % b > 1 AND b > 1",
        "SELECT * FROM trips WHERE b > 1 AND a % b > 1",
    ),
    "the condition of a subquery on a column that throws": (
        "SELECT a FROM (SELECT a, 10 DIV b AS x FROM trips) t"
        " WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.x)",
        "SELECT a FROM (SELECT a, 10 DIV b AS x FROM trips) t"
        " WHERE EXISTS (SELECT 1 FROM riders r WHERE t.x = r.a)",
    ),
    "conditions, of which one makes a time of a day": (
        f"SELECT a FROM {DAYS} WHERE dt > TIMESTAMP'2020-01-02 00:00:00' AND a > 1",
        f"SELECT a FROM {DAYS} WHERE a > 1 AND dt > TIMESTAMP'2020-01-02 00:00:00'",
    ),
    "filters, of which one throws": (
        "SELECT * FROM (SELECT * FROM trips WHERE a <> 0) WHERE 10 / a > 1",
        "SELECT * FROM (SELECT * FROM trips WHERE 10 / a > 1) WHERE a <> 0",
    ),
    "a join's conditions, of which one throws": (
        f"{JOIN} AND 10 / t.b > 1 WHERE r.e > t.b",
        f"{JOIN} AND r.e > t.b WHERE 10 / t.b > 1",
    ),
    "a named value that throws, and a condition": (
        "SELECT a FROM (SELECT a, 10 / b AS x FROM trips) WHERE a > 1 OR x > 1",
        "SELECT a FROM (SELECT a, 10 / b AS x FROM trips) WHERE x > 1 OR a > 1",
    ),
    "operands, of which one throws beside null": (
        "SELECT a + 10 DIV b AS x FROM trips",
        "SELECT 10 DIV b + a AS x FROM trips",
    ),
    "a comparison with what throws": (
        "SELECT * FROM trips WHERE a > 10 DIV b",
        "SELECT * FROM trips WHERE 10 DIV b < a",
    ),
    "a list of what throws": (
        "SELECT * FROM trips WHERE a IN (1, 10 DIV b)",
        "SELECT * FROM trips WHERE a IN (10 DIV b, 1)",
    ),
    "sums in other brackets": (
        "SELECT (d + a) + b AS x FROM trips",
        "SELECT d + (a + b) AS x FROM trips",
    ),
    "a null in a condition": (
        "SELECT * FROM trips WHERE NOT (a > 1 AND b > 5)",
        "SELECT * FROM trips WHERE NOT (a > 1) AND NOT (b > 5)",
    ),
    "names that a function sees": (
        "SELECT to_json(struct(x, y)) AS j FROM (SELECT a AS x, b AS y FROM trips)",
        "SELECT to_json(struct(y, x)) AS j FROM (SELECT b AS x, a AS y FROM trips)",
    ),
    "columns that a function sees in another order": (
        lambda p: p.spark.table("trips").select("a", "b").mapInPandas(_first, "v double"),
        lambda p: p.spark.table("trips").select("b", "a").mapInPandas(_first, "v double"),
    ),
    "a sample of filtered rows, and rows of a sample": (
        lambda p: p.spark.range(200).where("id % 2 = 0").sample(0.3, 7),
        lambda p: p.spark.range(200).sample(0.3, 7).where("id % 2 = 0"),
    ),
    "draws of which the first decides whether there is a second": (
        lambda p: p.spark.range(100).where((F.rand(1) > 0.4) & (F.rand(2) > 0.4)),
        lambda p: p.spark.range(100).where((F.rand(2) > 0.4) & (F.rand(1) > 0.4)),
    ),
}


def _first(frames: Any) -> Any:
    for frame in frames:
        yield frame.iloc[:, [0]].set_axis(["v"], axis=1).astype(float)


@pytest.mark.parametrize(("kept", "asked"), SAME.values(), ids=SAME.keys())
@pytest.mark.sampled(2)
def test_another_way_to_write_it_is_read(probe: Any, kept: Any, asked: Any) -> None:
    probe.keep(kept)
    probe.assert_reads(asked)


# One identity is the same from both sides: that what is read has its columns is all there is to it.
@pytest.mark.parametrize(("kept", "asked"), SAME.values(), ids=SAME.keys())
@pytest.mark.sampled(4)
def test_and_the_other_way_round(probe: Any, kept: Any, asked: Any) -> None:
    probe.keep(asked)
    probe.assert_reads(kept)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_only_looks_the_same_is_computed(probe: Any, one: Any, other: Any) -> None:
    assert probe.identity(one) != probe.identity(other)
    probe.keep(one)
    probe.assert_computes(other)


def test_columns_in_another_order_are_read_above_a_join(probe: Any) -> None:
    probe.keep("SELECT a, b AS x, c FROM trips WHERE b > 5")
    probe.assert_reads(
        "SELECT r.e, s.c, s.y FROM (SELECT c, b AS y, a FROM trips WHERE b > 5) s"
        " JOIN riders r ON s.a = r.a WHERE s.y < 30"
    )


def test_an_ordered_table_is_read_in_its_order(probe: Any) -> None:
    probe.keep("SELECT a, b, i FROM trips ORDER BY i DESC")
    probe.assert_reads("SELECT i, b AS x, a FROM trips ORDER BY i DESC", ordered=True)


def test_what_a_limit_takes_depends_on_how_a_join_is_written(probe: Any) -> None:
    left = "SELECT t.a FROM trips t JOIN riders r ON t.a = r.a LIMIT 2"
    right = "SELECT t.a FROM riders r JOIN trips t ON t.a = r.a LIMIT 2"
    assert probe.identity(left) != probe.identity(right)


NUMBERS = ("a", "b", "i")
CONDITIONS = ("a > 1", "NOT b <= 10", "i BETWEEN 2 AND 5", "a = 2 OR b IS NULL", "d < 1")


@st.composite
def written(draw: st.DrawFn) -> tuple[list[str], list[str], st.DataObject]:
    """Conditions and columns, and what draws the way in which they are written."""
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=4))
    columns = draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3, unique=True))
    return conditions, columns, draw(st.data())


def _in_some_way(table: DataFrame, conditions: list[str], columns: list[str], draw: Any) -> Any:
    """The same rows and columns: filters and selections in any order, one by one or together."""
    written = table
    left = draw(st.permutations(conditions))
    while left:
        taken = draw(st.integers(1, len(left)))
        written = written.where(" AND ".join(f"({each})" for each in left[:taken]))
        left = left[taken:]
        if draw(st.booleans()):
            written = written.select(*draw(st.permutations(written.columns)))
    names = {each: f"x{draw(st.integers(0, 99))}_{each}" for each in columns}
    return written.select(
        *[F.col(each).alias(names[each]) for each in draw(st.permutations(columns))]
    )


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(written())
def test_any_way_to_write_filters_and_columns_has_one_digest(probe: Any, parts: Any) -> None:
    conditions, columns, data = parts
    table = probe.spark.sql(TRIPS)
    one = _in_some_way(table, conditions, columns, data.draw)
    other = _in_some_way(table, conditions, columns, data.draw)
    assert probe.identity(lambda _: one) == probe.identity(lambda _: other)
    without = [each for each in conditions if each != conditions[0]] if conditions else None
    if without is not None:
        fewer = _in_some_way(table, without, columns, data.draw)
        assert probe.identity(lambda _: fewer) != probe.identity(lambda _: one)
