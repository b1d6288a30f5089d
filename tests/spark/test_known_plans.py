"""Later actions of one object: planned once, for as long as nothing has changed."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.api.table import Table
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.java_classes import new_object
from tests.spark.conftest import Probe, assert_same

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


@pytest.fixture(autouse=True)
def _nothing_is_persisted(spark: SparkSession) -> None:
    # What Spark has persisted itself may answer in the place of what a job has run before.
    spark.catalog.clearCache()


def grouped(probe: Probe) -> tuple[Table, Table]:
    """A kept table, and one that reads it and shuffles."""
    hot = probe.keep("SELECT a, b, d FROM trips WHERE b > 5")
    return hot, hot.groupBy("a").agg(F.count("*").alias("n"), F.max("d").alias("d"))


def run_as(probe: Probe, table: Table) -> DataFrame:
    """The DataFrame that an action of a table is given, which runs it."""

    def acting(df: DataFrame) -> DataFrame:
        df.collect()
        return df

    return probe.env.run_action(table, "collect", acting)


def assert_answers(probe: Probe, table: Table, *outcomes: VertexOutcome) -> None:
    """An action of a table answers as plain Spark does."""
    rows = probe.rows(table)
    assert probe.outcomes() == [*outcomes, RUN]
    # A new object, of which Spark remembers nothing.
    assert_same(rows, probe.rows(probe.env._bridge.dataframe(analyzed(table))))


def analyzed(table: DataFrame) -> object:
    return table._jdf.queryExecution().analyzed()


def test_a_later_action_is_not_planned_again(probe: Probe) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)
    assert run_as(probe, table) is first
    assert_answers(probe, table, READ)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM trips WHERE false",
        "SELECT d, d AS again, c FROM trips",
        "SELECT st, arr, m, ts, n FROM trips ORDER BY i",
        "SELECT a, count(*) AS n FROM trips GROUP BY a ORDER BY n, a",
    ],
)
def test_later_actions_give_the_same_rows(probe: Probe, query: str) -> None:
    hot = probe.keep(query)
    table = hot.limit(100)
    for _ in range(3):
        assert_answers(probe, table, READ)
    assert table.count() == hot.count()
    assert_same(list(map(repr, table.take(100))), probe.plain_rows(query))


def test_no_two_jobs_share_one(probe: Probe) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)

    def inside(df: DataFrame) -> DataFrame:
        assert df is first
        return run_as(probe, table)

    assert probe.env.run_action(table, "outer", inside) is not first


def test_what_has_failed_is_planned_again(probe: Probe) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)

    def failing(df: DataFrame) -> None:
        assert df is first
        raise ValueError

    with pytest.raises(ValueError):
        probe.env.run_action(table, "fails", failing)
    assert run_as(probe, table) is not first


def test_invalidated(probe: Probe) -> None:
    hot, table = grouped(probe)
    first = run_as(probe, table)
    hot.invalidate_cache()
    assert_answers(probe, table, PRODUCED)
    assert run_as(probe, table) is not first


def test_no_longer_cached(probe: Probe) -> None:
    hot, table = grouped(probe)
    run_as(probe, table)
    hot.unpersist()
    assert_answers(probe, table)
    assert_answers(probe, table)


@pytest.mark.parametrize("whole", [True, False])
def test_lost(probe: Probe, whole: bool) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)
    (entry,) = probe.env._manager.results.find().values()
    if whole:
        shutil.rmtree(entry.kept.directory)
    else:
        Path(entry.kept.locations[0]).write_bytes(b"something else")
    assert_answers(probe, table, PRODUCED)
    assert run_as(probe, table) is not first


def test_settings_that_count_nowhere_are_those_of_the_moment(probe: Probe) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)
    with probe.settings({"spark.sql.shuffle.partitions": "3"}):
        second = run_as(probe, table)
        assert second is not first
        assert probe.outcomes() == [READ, RUN]
        assert run_as(probe, table) is second
    assert run_as(probe, table) is not second


def test_other_settings_are_another_computation(probe: Probe) -> None:
    hot = probe.keep("SELECT cast(ts AS string) AS ts, a FROM trips")
    table = hot.groupBy("ts").count()
    run_as(probe, table)
    with probe.settings({"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        assert_answers(probe, table, PRODUCED)
    assert_answers(probe, table, READ)


def test_another_part_is_cached_meanwhile(probe: Probe) -> None:
    _, table = grouped(probe)
    first = run_as(probe, table)
    inner = table.where("n > 0")
    run_as(probe, inner)
    table.cache()
    assert_answers(probe, inner, PRODUCED, READ)
    assert_answers(probe, inner, READ)
    assert run_as(probe, table) is not first


def test_spark_has_persisted_a_part_meanwhile(probe: Probe) -> None:
    hot, table = grouped(probe)
    first = run_as(probe, table)
    hot.persist(StorageLevel.MEMORY_ONLY)
    try:
        second = run_as(probe, table)
        assert second is not first
        assert run_as(probe, table) is not second
        assert_answers(probe, table, READ)
    finally:
        probe.plain("SELECT a, b, d FROM trips WHERE b > 5").unpersist(blocking=True)
    assert_answers(probe, table, READ)


def test_files_that_were_listed_again(probe: Probe, tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("1\n2\n3\n")
    probe.spark.sql(f"CREATE TABLE listed (n INT) USING csv LOCATION '{tmp_path}'")
    try:
        hot = probe.env.table("listed").groupBy("n").count().cache()
        table = hot.groupBy("count").agg(F.sum("n").alias("s"))
        for outcome in (PRODUCED, READ):
            assert_answers(probe, table, outcome)
        path.write_text("40\n50\n60\n")
        assert_answers(probe, table)
        # It is listed anew in the very plan that has been read.
        probe.spark.sql("REFRESH TABLE listed")
        assert hot.collect()[0].n >= 40
        assert_answers(probe, table, READ)
        assert table.collect()[0].s == 150
    finally:
        probe.spark.sql("DROP TABLE listed")


@pytest.mark.parametrize("column", ["current_timestamp()", "uuid()"])
def test_what_differs_each_time_is_planned_each_time(probe: Probe, column: str) -> None:
    _, table = grouped(probe)
    doubted = table.selectExpr("*", f"{column} AS x")
    first = run_as(probe, doubted)
    assert probe.outcomes() == [READ, RUN]
    assert run_as(probe, doubted) is not first


def test_shown_plans_are_those_of_a_new_job(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    _, table = grouped(probe)
    table.explain()
    before = capsys.readouterr().out
    first = run_as(probe, table)
    table.explain()
    assert "isFinalPlan=true" not in capsys.readouterr().out
    assert "isFinalPlan" in before
    assert run_as(probe, table) is first


def test_python_functions_are_looked_at_each_time(probe: Probe) -> None:
    _, table = grouped(probe)
    called = table.withColumn("x", F.udf(lambda n: n + 1, "long")("n"))
    for _ in range(2):
        assert_answers(probe, called, READ)
    assert probe.env._known_plans.query(called) is not probe.env._known_plans.query(called)
    assert probe.env._known_plans.query(table) is probe.env._known_plans.query(table)


def test_nothing_is_held_of_tables_that_are_gone(probe: Probe) -> None:
    _, table = grouped(probe)
    watched = new_object(probe.spark, "CollectedObjects")
    watched.watch(run_as(probe, table)._jdf.queryExecution(), "run")
    watched.watch(table._jdf.queryExecution(), "read")
    gc.collect()
    assert str(watched.gone(True)).split() == []
    del table
    gone: list[str] = []
    for _ in range(20):
        gc.collect()
        gone += str(watched.gone(True)).split()
        if len(gone) == 2:
            break
    assert sorted(gone) == ["read", "run"]


def test_what_was_invalidated_is_not_held(probe: Probe) -> None:
    hot, table = grouped(probe)
    watched = new_object(probe.spark, "CollectedObjects")
    watched.watch(run_as(probe, table)._jdf.queryExecution(), "run")
    hot.invalidate_cache()
    gone: list[str] = []
    for _ in range(20):
        gc.collect()
        gone += str(watched.gone(True)).split()
        if gone:
            break
    assert gone == ["run"]


@contextmanager
def counted_calls(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Counts the calls of the JVM inside a block."""
    client = spark.sparkContext._gateway._gateway_client
    send, calls = client.send_command, [0]

    def counting(command: str, *arguments: object, **named: object) -> object:
        # Objects are let go of at any time.
        calls[0] += not command.startswith("m\n")
        return send(command, *arguments, **named)

    client.send_command = counting
    try:
        yield lambda: calls[0]
    finally:
        client.send_command = send


def test_a_hit_asks_the_jvm_a_few_times(probe: Probe) -> None:
    hot, table = grouped(probe)
    plain = probe.env._bridge.dataframe(analyzed(hot.where("a > 1")))
    hot.where("a > 0").collect()
    new, same = hot.where("a > 1"), table
    same.collect()
    with counted_calls(probe.spark) as calls:
        before = calls()
        plain.collect()
        of_plain = calls() - before
        before = calls()
        new.collect()
        of_new = calls() - before - of_plain
        before = calls()
        same.collect()
        of_same = calls() - before - of_plain
    # It takes 31 and 8; a call for each column, operator or setting would be many more.
    assert of_new <= 40, of_new
    assert of_same <= 12, of_same
