"""A job that starts again reads the files that it read before.

The earlier start lives on here, in the middle of a job whose rows are taken one by one, as a driver
does that was only cut off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

Start = Callable[[], Environment]
SCHEMA = "id long, k long, t string"


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Starts of programs over the same storage directory."""
    started: list[Environment] = []
    config = {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": 0,
        "high-availability.storageDir": f"file://{tmp_path / 'ha'}",
        "intermediate-result-storage.directory": str(tmp_path / "store"),
        "catalog.url": "none",
    }

    def make() -> Environment:
        started.append(Environment(spark, config=config))
        return started[-1]

    yield make
    for env in started:
        env.close()


def write(spark: SparkSession, path: Path, first: int, kind: str = "parquet", *by: str) -> None:
    df = spark.range(first, first + 40).selectExpr("id", "id % 5 AS k", "concat('t', id) AS t")
    df.coalesce(2).write.mode("append").format(kind).partitionBy(*by).save(str(path))


def counts(df: DataFrame) -> DataFrame:
    return df.groupBy("k").agg(F.count("*"), F.max("id"))


def several(session: Any, home: Path) -> DataFrame:
    read = session.read.parquet
    again = read(str(home / "parquet")).alias("again")
    both = read(str(home / "parquet"), str(home / "more")).alias("s")
    read(str(home / "parts")).createOrReplaceTempView("third")
    joined = both.join(again, F.col("s.id") == F.col("again.id"), "left")
    joined.select("s.id", "again.k").createOrReplaceTempView("joined")
    subqueries = "id IN (SELECT id FROM third) AND id <> (SELECT max(id) FROM third)"
    return counts(session.sql(f"SELECT * FROM joined WHERE {subqueries}"))


CASES: dict[str, Callable[[Any, Path], DataFrame]] = {
    "parquet": lambda s, home: counts(s.read.parquet(str(home / "parquet")).where("id > 3")),
    "orc": lambda s, home: counts(s.read.orc(str(home / "orc"))),
    "json": lambda s, home: counts(s.read.schema(SCHEMA).json(str(home / "json"))),
    "csv": lambda s, home: counts(s.read.schema(SCHEMA).csv(str(home / "csv"))),
    "partitions": lambda s, home: counts(s.read.parquet(str(home / "parts"))),
    "filtered partitions": lambda s, home: counts(
        s.read.parquet(str(home / "parts")).where("k > 1")
    ),
    "several": several,
}


def write_all(spark: SparkSession, home: Path, first: int) -> None:
    for kind in ("parquet", "orc", "json", "csv"):
        write(spark, home / kind, first, kind)
    write(spark, home / "more", 2 * first)
    write(spark, home / "parts", first, "parquet", "k")


def rows(found: Any) -> list[str]:
    return sorted(map(repr, found))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(3)
def test_files_that_came_later_are_not_read(
    spark: SparkSession, start: Start, tmp_path: Path, case: str
) -> None:
    make = CASES[case]
    write_all(spark, tmp_path, 0)
    before = rows(make(spark, tmp_path).collect())
    held = make(start(), tmp_path).toLocalIterator()
    next(held)
    write_all(spark, tmp_path, 20)
    now = rows(make(spark, tmp_path).collect())
    second = start()
    assert rows(make(second, tmp_path).toLocalIterator()) == before != now
    # The job has ended; the next one sees them.
    assert rows(make(second, tmp_path).toLocalIterator()) == now


def touch(file: Path) -> None:
    os.utime(file, (1, 1))


@pytest.mark.parametrize(("change", "why"), [(touch, "has changed"), (Path.unlink, "was removed")])
def test_files_that_are_gone_have_the_job_begin_from_the_start(
    spark: SparkSession,
    start: Start,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], None],
    why: str,
) -> None:
    make = CASES["parquet"]
    write(spark, tmp_path / "parquet", 0)
    held = make(start(), tmp_path).toLocalIterator()
    next(held)
    file = min((tmp_path / "parquet").glob("part-*"))
    change(file)
    write(spark, tmp_path / "parquet", 20)
    second = start()
    found = rows(make(second, tmp_path).toLocalIterator())
    assert found == rows(make(spark, tmp_path).collect())
    assert VertexOutcome.RECOVERED not in outcomes(second)
    assert f"{file} {why}" in caplog.text


DAMAGES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "cut short": (lambda mine, other: os.truncate(mine, mine.stat().st_size // 2), "is damaged"),
    "no listing": (lambda mine, other: mine.write_text('[{"files": []}]'), "can't be read"),
    "another table's": (lambda mine, other: shutil.copy(other, mine), "the sources differ"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_recorded_of_the_files_is_damaged_or_of_others(
    spark: SparkSession,
    start: Start,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    held, recorded = [], list[Path]()
    for case in ("parquet", "orc"):
        write(spark, tmp_path / case, 0, case)
        held.append(CASES[case](start(), tmp_path).toLocalIterator())
        next(held[-1])
        recorded += [each for each in (tmp_path / "ha").rglob("sources*") if each not in recorded]
    do, why = DAMAGES[damage]
    do(*recorded)
    write(spark, tmp_path / "parquet", 20)
    second = start()
    found = rows(CASES["parquet"](second, tmp_path).toLocalIterator())
    assert found == rows(CASES["parquet"](spark, tmp_path).collect())
    assert VertexOutcome.RECOVERED not in outcomes(second)
    assert why in caplog.text


def test_other_jobs_are_told_apart(
    spark: SparkSession, start: Start, tmp_path: Path, settings: Any
) -> None:
    write_all(spark, tmp_path, 0)

    def recovers(make: Callable[[Any, Path], DataFrame]) -> bool:
        second = start()
        found = rows(make(second, tmp_path).toLocalIterator())
        assert found == rows(make(spark, tmp_path).collect())
        assert second.last_job_result is not None
        return any(
            each.outcome is VertexOutcome.RECOVERED or each.recovered_tasks
            for each in second.last_job_result.vertices
        )

    held = CASES["parquet"](start(), tmp_path).toLocalIterator()
    next(held)
    assert not recovers(CASES["orc"])
    path = str(tmp_path / "parquet")
    assert not recovers(lambda s, _: counts(s.read.parquet(path).where("id > 4")))
    assert not recovers(lambda s, _: counts(s.read.parquet(path).where("id > 3 AND k > 1")))
    with settings({"spark.sql.ansi.enabled": "false"}):
        assert not recovers(CASES["parquet"])
    assert recovers(CASES["parquet"])
