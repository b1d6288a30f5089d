"""What is one computation however it is written, and what is another, however alike it looks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.testing import assert_computes, assert_differ, assert_reads, assert_same
from tests.promises.conftest import rows
from tests.promises.functions import halves

Query = str | Callable[[SparkSession], DataFrame]


def of(session: SparkSession, query: Query) -> DataFrame:
    return session.sql(query) if isinstance(query, str) else query(session)


def trips(session: SparkSession) -> DataFrame:
    return session.table("trips")


# The pairs of the README first.
SAME: dict[str, tuple[Query, Query]] = {
    "filters": (
        lambda s: trips(s).where("a > 1").where("b = 2"),
        lambda s: trips(s).where("b = 2 AND a > 1"),
    ),
    "a select of a select": (
        "SELECT x, y FROM (SELECT a AS x, b AS y, c FROM trips)",
        "SELECT b AS other, a FROM trips",
    ),
    "a filter above a select": (
        lambda s: trips(s).select("a", "b").where("a > 1"),
        lambda s: trips(s).where("a > 1").select("a", "b"),
    ),
    "distinct": (
        lambda s: trips(s).select("a", "b").distinct(),
        "SELECT a, b FROM trips GROUP BY b, a",
    ),
    "aggregates in another order": (
        lambda s: trips(s).groupBy("a", "b").agg(F.sum("id"), F.max("d")),
        lambda s: trips(s).groupBy("b", "a").agg(F.max("d"), F.sum("id")),
    ),
    "an inner join's sides": (
        "SELECT t.a, e FROM trips t JOIN riders r ON t.a = r.a",
        "SELECT t.a, e FROM riders r JOIN trips t ON r.a = t.a",
    ),
    "a right join for a left one": (
        "SELECT t.a, e FROM trips t LEFT JOIN riders r ON t.a = r.a",
        "SELECT t.a, e FROM riders r RIGHT JOIN trips t ON t.a = r.a",
    ),
    "a join's condition in WHERE": (
        "SELECT t.a, e FROM trips t JOIN riders r ON t.a = r.a",
        "SELECT t.a, e FROM trips t, riders r WHERE t.a = r.a",
    ),
    "a negation": (
        "SELECT * FROM trips WHERE NOT (a <= 3)",
        "SELECT * FROM trips WHERE a > 3",
    ),
    "a negated OR": (
        "SELECT * FROM trips WHERE NOT (a = 3 OR b = 1)",
        "SELECT * FROM trips WHERE NOT a = 3 AND NOT b = 1",
    ),
    "BETWEEN": (
        "SELECT * FROM trips WHERE a BETWEEN 1 AND 3",
        "SELECT * FROM trips WHERE a >= 1 AND a <= 3",
    ),
    "IF": (
        "SELECT if(a > 1, b, 0) AS x FROM trips",
        "SELECT CASE WHEN a > 1 THEN b ELSE 0 END AS x FROM trips",
    ),
    "a cast to the type that it has": (
        "SELECT CAST(a AS BIGINT) AS x FROM trips",
        "SELECT a FROM trips",
    ),
    "hints": (
        "SELECT t.a FROM trips t JOIN riders r ON t.a = r.a",
        "SELECT /*+ BROADCAST(r) */ t.a FROM trips t JOIN riders r ON t.a = r.a",
    ),
    "SQL and the DataFrame API": (
        "SELECT a, count(*) AS n FROM trips GROUP BY a",
        lambda s: trips(s).groupBy("a").count(),
    ),
    "repartition below a shuffle": (
        lambda s: trips(s).repartition(8).groupBy("a").count(),
        lambda s: trips(s).coalesce(1).groupBy("a").count(),
    ),
    "a table of the program's values": (
        lambda s: s.createDataFrame([(1, "x"), (2, "y")], "a INT, t STRING"),
        lambda s: s.createDataFrame([{"a": 1, "t": "x"}, {"a": 2, "t": "y"}], "a INT, t STRING"),
    ),
    "a function of Python, defined again": (
        lambda s: trips(s).select(plus(1)("a")),
        lambda s: trips(s).select(plus(1)("a")),
    ),
    "a recursive query": (
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 9) "
        "SELECT * FROM n",
        "WITH RECURSIVE m(k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM m WHERE k < 9) "
        "SELECT * FROM m",
    ),
    "limit": (lambda s: trips(s).limit(7), lambda s: trips(s).limit(7)),
}


def plus(number: int) -> Callable[..., object]:
    return F.udf(lambda x: x + number, "bigint")


OTHER: dict[str, tuple[Query, Query, str]] = {
    "a literal": (
        "SELECT * FROM trips WHERE a > 1",
        "SELECT * FROM trips WHERE a > 2",
        "expression",
    ),
    "a literal's type": ("SELECT 1 AS x FROM trips", "SELECT 1L AS x FROM trips", "expression"),
    "a zero's sign": ("SELECT 0.0D FROM trips", "SELECT -0.0D FROM trips", "expression"),
    "cast and try_cast": (
        "SELECT CAST(c AS INT) FROM trips",
        "SELECT TRY_CAST(c AS INT) FROM trips",
        "expression",
    ),
    "which side is kept": (
        "SELECT t.a, e FROM trips t LEFT JOIN riders r ON t.a = r.a",
        "SELECT t.a, e FROM trips t RIGHT JOIN riders r ON t.a = r.a",
        "expression",
    ),
    "an operator more": (
        "SELECT DISTINCT a FROM trips",
        "SELECT a FROM trips",
        "operator",
    ),
    "another source": ("SELECT a FROM trips", "SELECT a FROM riders", "source"),
    "a constant of a function": (
        lambda s: trips(s).select(plus(1)("a")),
        lambda s: trips(s).select(plus(2)("a")),
        "expression",
    ),
    "a function over batches": (
        lambda s: trips(s).select("id").mapInPandas(halves, "id BIGINT"),
        lambda s: trips(s).select("id"),
        "operator",
    ),
    "a value of a table that the program makes": (
        lambda s: s.createDataFrame(pd.DataFrame({"a": [1, 2]})),
        lambda s: s.createDataFrame(pd.DataFrame({"a": [1, 3]})),
        "source",
    ),
    "a seed": (lambda s: trips(s).sample(0.5, 1), lambda s: trips(s).sample(0.5, 2), "expression"),
    "chance": ("SELECT uuid() FROM trips", "SELECT uuid() FROM trips", "reason"),
    "the day": ("SELECT current_date() FROM trips", "SELECT current_date() FROM trips", "reason"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_is_written_in_another_way_is_read(
    session: SparkSession, plain: SparkSession, name: str
) -> None:
    one, other = SAME[name]
    assert_same(of(session, one), of(session, other))
    hot = of(session, one).cache()
    assert rows(hot.agg(F.count("*"))) == rows(of(plain, one).agg(F.count("*")))
    asked = of(session, other)
    assert_reads(asked)
    if name != "limit":
        assert rows(asked) == rows(of(plain, other))


@pytest.mark.parametrize("name", OTHER)
def test_what_computes_something_else_is_not(session: SparkSession, name: str) -> None:
    one, other, kind = OTHER[name]
    assert_differ(of(session, one), of(session, other), kind)
    of(session, one).cache().count()
    assert_computes(of(session, other))


def test_settings_that_change_results_count(session: SparkSession) -> None:
    trips(session).groupBy("a").count().cache().count()
    asked = trips(session).groupBy("a").count()
    session.conf.set("spark.sql.shuffle.partitions", "5")
    assert_reads(asked)
    session.conf.set("spark.sql.caseSensitive", "true")
    assert_computes(asked)
    session.conf.unset("spark.sql.caseSensitive")
    assert_reads(asked)


def test_a_version_of_a_file_counts(
    session: SparkSession, plain: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "numbers")
    plain.range(3).write.parquet(path)
    session.read.parquet(path).cache().count()
    assert_reads(session.read.parquet(path))
    plain.range(4).write.mode("overwrite").parquet(path)
    assert_computes(session.read.parquet(path))
    assert session.read.parquet(path).count() == 4
