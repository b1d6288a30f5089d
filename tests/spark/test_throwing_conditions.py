"""A query that reads what nobody here has asked to be kept has no error but its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import VertexOutcome
from holdfast.testing import outcomes

# Each throws for rows that other conditions leave out.
CONDITIONS = (
    "cast(if(id - r > 900, 'x', '1') AS int) = 1",
    "assert_true(id - r < 900) IS NULL",
    "1 / (id - r - 1000) > -5",
    "if(id - r > 900, raise_error('no'), 1) = 1",
    "array(1, 2)[int((id - r) / 1000)] < 3",
    "(id - r) * 10000000000000000 >= 0",
)
JOIN = "SELECT id, x, r FROM f JOIN e USING (k)"
FEW = "id < 8 AND id > 0"


class Sides:
    """A program that finds a join which another one has kept, and plain Spark."""

    def __init__(self, ours: SparkSession, plain: SparkSession, home: Path) -> None:
        self.ours = ours
        self.plain = plain
        self.home = home

    def reads(self) -> bool:
        """Whether the last job has read something kept."""
        return VertexOutcome.READ in outcomes(self.ours)


@pytest.fixture
def sides(spark: SparkSession, tmp_path: Path) -> Iterator[Sides]:
    plain = spark.newSession()
    plain.range(5_000).selectExpr("id", "id % 50 AS k", "id / 3 AS x").write.parquet(
        str(tmp_path / "f")
    )
    plain.range(7).selectExpr("id AS k", "id % 3 AS r").write.parquet(str(tmp_path / "e"))
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    first = holdfast.attach(spark.newSession(), config=config)
    views(first, tmp_path)
    first.sql(JOIN).cache(lifetime="1 h").count()  # type: ignore[call-arg]
    holdfast.detach(first)
    ours = holdfast.attach(spark.newSession(), config=config)
    for session in (ours, plain):
        views(session, tmp_path)
    yield Sides(ours, plain, tmp_path)
    holdfast.detach(ours)


def views(session: SparkSession, home: Path) -> None:
    for name in ("f", "e"):
        session.read.parquet(str(home / name)).createOrReplaceTempView(name)


def throwing(session: SparkSession, condition: str = CONDITIONS[0]) -> DataFrame:
    return session.sql(JOIN).where(f"{condition} AND {FEW}")


def test_it_is_answered_as_it_was_written(sides: Sides, caplog: pytest.LogCaptureFixture) -> None:
    for condition in CONDITIONS:
        expected = sorted(throwing(sides.plain, condition).collect())
        with caplog.at_level(logging.DEBUG, logger="holdfast"):
            found = sorted(throwing(sides.ours, condition).collect())
        assert found == expected and len(found) == 6
        assert "is run as it was written" in caplog.text and not sides.reads()
        caplog.clear()
    assert sides.ours.sql(JOIN).count() == sides.plain.sql(JOIN).count() and sides.reads()


def test_its_own_error_is_raised(sides: Sides) -> None:
    errors = []
    for session in (sides.plain, sides.ours):
        with pytest.raises(PySparkException, match="no") as caught:
            session.sql(JOIN).where(CONDITIONS[3]).collect()
        errors.append((type(caught.value), caught.value.getCondition()))
    assert errors[0] == errors[1]


def _written(session: SparkSession, home: Path) -> int:
    place = str(home / f"written-{id(session)}")
    for version in ("1", "2"):
        writer = throwing(session).write.mode("append")
        writer.option("mapreduce.fileoutputcommitter.algorithm.version", version).parquet(place)
    return session.read.parquet(place).count()


def _inserted(session: SparkSession, home: Path) -> int:
    name = f"t{id(session)}"
    throwing(session).createOrReplaceTempView("throwing")
    session.sql(f"CREATE TABLE {name} USING parquet LOCATION '{home / name}' AS TABLE throwing")
    session.sql(f"INSERT INTO {name} TABLE throwing")
    throwing(session).write.insertInto(name)
    try:
        return session.table(name).count()
    finally:
        session.sql(f"DROP TABLE {name}")


def _seen(session: SparkSession, home: Path) -> Any:
    seen = session.sparkContext.accumulator(0)
    throwing(session).foreach(lambda row: seen.add(1))
    return seen.value


WAYS: dict[str, Callable[[SparkSession, Path], Any]] = {
    "toLocalIterator": lambda session, home: len(list(throwing(session).toLocalIterator())),
    "rdd": lambda session, home: throwing(session).rdd.count(),
    "pandas_api": lambda session, home: len(throwing(session).pandas_api()),
    "toPandas": lambda session, home: len(throwing(session).toPandas()),
    "localCheckpoint": lambda session, home: throwing(session).localCheckpoint().count(),
    "show": lambda session, home: throwing(session).orderBy("id")._show_string(),  # type: ignore[operator]
    "write": _written,
    "insert": _inserted,
    "foreach": _seen,
}


def test_nothing_is_done_twice(sides: Sides) -> None:
    for name, way in WAYS.items():
        assert way(sides.ours, sides.home) == way(sides.plain, sides.home), name


def test_what_the_program_has_cached_is_read_all_the_same(sides: Sides) -> None:
    """As in Spark, whose own cache is no part of a plan that it moves conditions in either."""
    cached = sides.ours.sql("SELECT *, uuid() AS u FROM e").cache()
    first = sorted(cached.collect())
    joined = sides.ours.sql(JOIN).join(cached, "r")
    rows = joined.where(f"{CONDITIONS[0]} AND {FEW}").select("r", "k", "u").collect()
    assert rows and {tuple(row) for row in rows} <= {(each.r, each.k, each.u) for each in first}
