"""Plans that nothing kept can be a part of are not read; what may be a part of one is found."""

from __future__ import annotations

import gc
import logging
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table, VertexOutcome
from holdfast.advice.asked_sources import AskedSources
from holdfast.api import recurring_results
from holdfast.api.recurring_results import RecurringResults
from holdfast.spark.catalyst_bridge import CatalystBridge
from holdfast.spark.plans.possible_parts import PossibleParts

READ, PRODUCED, RUN = VertexOutcome.READ, VertexOutcome.PRODUCED, VertexOutcome.RUN
Make = Callable[[Environment], Table]


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The plans that are read."""
    read: list[Any] = []
    whole = CatalystBridge.canonical

    def counted(self: CatalystBridge, reading: Any, *args: Any, **kwargs: Any) -> Any:
        read.append(reading)
        return whole(self, reading, *args, **kwargs)

    monkeypatch.setattr(CatalystBridge, "canonical", counted)
    return read


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Path:
    spark.range(10).write.parquet(str(tmp_path / "ten"))
    spark.range(20).write.parquet(str(tmp_path / "twenty"))
    return tmp_path


def test_other_sources_are_not_read(env: Environment, files: Path, readings: list[Any]) -> None:
    ten = env.read.parquet(str(files / "ten"))
    hot = ten.groupBy((F.col("id") % 3).alias("k")).count().cache()
    twenty, memory = env.read.parquet(str(files / "twenty")), env.sql("VALUES (1), (2)")
    others = [twenty.distinct(), memory, env.from_dataframe(env.spark.range(7)), twenty.limit(3)]
    readings.clear()
    for other in others:
        other.count()
        assert outcomes(env) == [RUN]
    assert not readings
    assert hot.count() == 3
    assert outcomes(env) == [PRODUCED, RUN]
    readings.clear()
    assert twenty.count() == 20
    assert not readings
    assert twenty.join(hot, twenty.id == hot.k).count() == 3
    assert outcomes(env) == [READ, RUN]
    assert readings


@pytest.mark.parametrize("spark_has_others", [False, True])
def test_a_plan_in_which_nothing_is_found_is_read_once(
    env: Environment, files: Path, readings: list[Any], spark_has_others: bool
) -> None:
    env.spark.catalog.clearCache()
    if spark_has_others:
        env.spark.range(7).persist()
    ten = env.read.parquet(str(files / "ten"))
    hot = ten.where("id > 4").cache()
    other = ten.where("id > 5")
    readings.clear()
    for _ in range(3):
        assert other.count() == 4
    assert len(readings) == 1
    found = ten.where("id > 5").cache()
    assert other.count() == 4
    assert outcomes(env) == [PRODUCED, RUN]
    assert found.count() == 4 and hot.count() == 5
    env.spark.catalog.clearCache()


def test_what_spark_has_persisted_is_looked_into_when_it_no_longer_is(
    env: Environment, files: Path
) -> None:
    ten = env.read.parquet(str(files / "ten"))
    hot = ten.where("id > 4").cache()
    query = hot.groupBy("id").count()
    plain = env.plain(query).persist()
    try:
        query.collect()
        assert outcomes(env) == [RUN]
    finally:
        plain.unpersist(blocking=True)
    query.collect()
    assert outcomes(env) == [PRODUCED, RUN]


def test_what_queries_may_have_in_common_is_known_without_reading_them(
    spark: SparkSession, env: Environment, files: Path
) -> None:
    for name in ("ten", "twenty"):
        column = F.col("id").alias(name)
        spark.read.parquet(str(files / name)).select(column).write.parquet(str(files / f"{name}s"))
        env.read.parquet(str(files / f"{name}s")).createOrReplaceTempView(f"{name}s")
    parts = PossibleParts(env.spark)

    def sources(sql: str) -> AskedSources:
        found = parts.sources_of(env.sql(sql))
        assert found is not None
        return found

    joined = sources("SELECT * FROM tens JOIN twentys ON ten = twenty")
    assert sources("SELECT * FROM tens WHERE ten > 3").text == ""
    alike = [
        "SELECT count(*) FROM tens, twentys WHERE ten = twenty AND twenty > 7",
        "WITH a AS (SELECT * FROM tens) SELECT * FROM a JOIN twentys ON ten = twenty WHERE ten > 1",
        "SELECT id < (SELECT max(ten) FROM twentys JOIN tens ON ten = twenty) FROM range(3)",
    ]
    for sql in alike:
        assert not sources(sql).known_by.isdisjoint(joined.known_by), sql
    other = sources("SELECT * FROM (SELECT * FROM tens WHERE ten > 3) JOIN twentys ON ten = twenty")
    assert other.known_by.isdisjoint(joined.known_by)
    assert not other.like.isdisjoint(joined.like)
    gathered = sources("SELECT ten, count(*) FROM tens WHERE ten > 3 GROUP BY ten")
    assert gathered.known_by.isdisjoint(joined.known_by)
    again = sources("SELECT DISTINCT ten FROM (SELECT * FROM tens) WHERE ten > 3")
    assert not again.known_by.isdisjoint(gathered.known_by)


@pytest.fixture
def implicit(spark: SparkSession, files: Path) -> Iterator[Environment]:
    config = {
        "intermediate-result-storage.directory": str(files / "kept"),
        "implicit-cache.enabled": True,
    }
    with Environment(spark.newSession(), config=config) as env:
        yield env


@pytest.fixture
def learning(implicit: Environment) -> RecurringResults:
    recurring = implicit._implicit.recurring
    assert recurring is not None
    return recurring


def grouped(env: Environment, files: Path, least: int, name: str = "ten") -> Table:
    """A query like no other, unless it has the same literal."""
    numbers = env.read.parquet(str(files / name))
    return numbers.where(F.col("id") > least).groupBy("id").count()


def test_a_query_like_no_other_runs_before_it_is_read(
    implicit: Environment, learning: RecurringResults, files: Path, readings: list[Any]
) -> None:
    read_before = []
    for least in (1, 2, 2):
        table = grouped(implicit, files, least)
        readings.clear()
        implicit.run_action(
            table, "collect", lambda df: (read_before.append(len(readings)), df.collect())
        )
        learning.learn_all()
    # What was asked for again may be kept.
    assert read_before[:2] == [0, 0] and read_before[2] > 0
    assert len(implicit._history.queries) == 3


def test_actions_that_keep_nothing_implicitly_are_not_read(
    implicit: Environment, files: Path, readings: list[Any]
) -> None:
    table = grouped(implicit, files, 2)
    assert len(list(table.toLocalIterator())) == 7
    table.foreach(lambda row: None)
    assert not readings


def test_a_query_is_not_read_under_other_settings_than_it_ran_under(
    implicit: Environment, learning: RecurringResults, files: Path
) -> None:
    for least, is_learned in ((1, True), (2, False)):
        before = threading.Event()
        learning._to_learn.put(before.wait)
        assert len(grouped(implicit, files, least).collect()) == 9 - least
        if not is_learned:
            implicit.spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        before.set()
        learning.learn_all()
        assert len(implicit._history.queries) == 1


def test_no_more_queries_than_some_wait_until_they_are_read(
    implicit: Environment,
    learning: RecurringResults,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recurring_results, "_MOST_TO_LEARN", 3)
    before = threading.Event()
    learning._to_learn.put(before.wait)
    tables = [grouped(implicit, files, least) for least in range(6)]
    for table in tables:
        table.collect()
    held = [weakref.ref(table._jdf) for table in tables]
    del table, tables
    gc.collect()
    assert 1 <= sum(each() is not None for each in held) <= 3
    before.set()
    learning.learn_all()
    gc.collect()
    assert not any(each() for each in held)
    assert 1 <= len(implicit._history.queries) <= 3


def test_a_query_whose_files_have_gone_since_is_not_learned(
    implicit: Environment,
    learning: RecurringResults,
    files: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = threading.Event()
    learning._to_learn.put(before.wait)
    table = grouped(implicit, files, 3)
    assert len(table.collect()) == 6
    shutil.rmtree(files / "ten")
    implicit.spark.catalog.refreshByPath(str(files / "ten"))
    before.set()
    learning.learn_all()
    assert not [each for each in caplog.records if each.levelno > logging.DEBUG]
    assert grouped(implicit, files, 3, "twenty").count() == 16


SOURCES: dict[str, tuple[Make, Make]] = {
    "the same files in other words": (
        lambda env: env.read.parquet(str(_files(env) / "ten")),
        lambda env: env.read.parquet(*sorted(map(str, (_files(env) / "ten").glob("part-*")))),
    ),
    "a table by its name and by its files": (
        lambda env: env.table("parts_table"),
        lambda env: env.read.parquet(str(_location(env))),
    ),
    "files and a table over them": (
        lambda env: env.read.parquet(str(_location(env))),
        lambda env: env.table("parts_table"),
    ),
    "in a subquery": (
        lambda env: env.sql("SELECT max(id) AS m FROM parts_table"),
        lambda env: env.sql(
            "SELECT id FROM range(30) WHERE id = (SELECT max(id) FROM parts_table)"
        ),
    ),
    "in a common table expression": (
        lambda env: env.sql("SELECT id + 1 AS i FROM parts_table"),
        lambda env: env.sql("WITH t AS (SELECT id + 1 AS i FROM parts_table) SELECT * FROM t, t u"),
    ),
    "by a common table expression": (
        lambda env: env.sql("WITH t AS (SELECT id + 1 AS i FROM parts_table) SELECT i FROM t"),
        lambda env: env.sql("SELECT id + 1 AS i FROM parts_table"),
    ),
    "in a view": (
        lambda env: env.sql("SELECT id FROM parts_view WHERE id > 3"),
        lambda env: env.sql("SELECT count(*) FROM (SELECT id FROM parts_table WHERE id > 3)"),
    ),
    "a range": (
        lambda env: env.from_dataframe(env.spark.range(9)).where("id > 3"),
        lambda env: env.sql("SELECT sum(id) FROM range(9) WHERE id > 3"),
    ),
    "rows of a program": (
        lambda env: env.from_dataframe(
            env.spark.createDataFrame([(1, "a"), (2, "b")], "n int, s string")
        ),
        lambda env: env.from_dataframe(
            env.spark.createDataFrame([(1, "a"), (2, "b")], "n int, s string")
        ),
    ),
}


def _files(env: Environment) -> Path:
    return Path(str(env.spark.conf.get("spark.test.files")))


def _location(env: Environment) -> str:
    described = env.spark.sql("DESCRIBE FORMATTED parts_table").where("col_name = 'Location'")
    return str(described.collect()[0].data_type)


@pytest.mark.parametrize("case", SOURCES)
@pytest.mark.sampled(3)
def test_whatever_is_read_without_the_check_is_read_with_it(
    spark: SparkSession,
    env: Environment,
    files: Path,
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark.conf.set("spark.test.files", str(files))
    spark.sql("CREATE TABLE parts_table USING parquet AS SELECT * FROM range(12)")
    spark.sql("CREATE TEMPORARY VIEW parts_view AS SELECT * FROM parts_table")
    try:
        cached, query = SOURCES[case]
        expected = sorted(env.plain(query(env)).collect())
        found = []
        for checked in (True, False):
            if not checked:
                monkeypatch.setattr(env, "_may_match", lambda query: True)
            cached(env).cache().count()
            assert sorted(query(env).collect()) == expected
            found.append(outcomes(env))
            env.invalidate_all()
        assert found[0] == found[1]
    finally:
        spark.sql("DROP VIEW parts_view")
        spark.sql("DROP TABLE parts_table")
        spark.conf.unset("spark.test.files")
