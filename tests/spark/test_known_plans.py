"""Later actions of one object: planned once, for as long as nothing has changed."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import VertexOutcome, testing
from tests.spark.conftest import Probe, assert_same

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


@pytest.fixture(autouse=True)
def _nothing_is_persisted(spark: SparkSession) -> None:
    # What Spark has persisted itself may answer in the place of what a job has run before.
    spark.catalog.clearCache()


def grouped(probe: Probe) -> tuple[Any, DataFrame]:
    """A kept table, and one that reads it and shuffles, which an action has run."""
    hot = probe.keep("SELECT a, b, d FROM trips WHERE b > 5")
    table = hot.groupBy("a").agg(F.count("*").alias("n"), F.max("d").alias("d"))
    assert_answers(probe, table, READ)
    return hot, table


def assert_answers(
    probe: Probe, table: DataFrame, *outcomes: VertexOutcome, ordered: bool = False
) -> None:
    """An action of a table answers as plain Spark does."""
    rows = probe.rows(table)
    assert probe.outcomes() == [*outcomes, RUN]
    # A new object, of which Spark remembers nothing.
    analyzed, jvm = table._jdf.queryExecution().analyzed(), probe.spark._jvm
    rows_of = jvm.org.apache.spark.sql.classic.Dataset.ofRows  # type: ignore[union-attr]
    fresh = ClassicDataFrame(rows_of(probe.spark._jsparkSession, analyzed), probe.spark)
    assert_same(rows, probe.rows(fresh), ordered=ordered)


QUERIES = [
    "SELECT a, count(*) AS n FROM trips GROUP BY a ORDER BY n, a",
    "SELECT a FROM trips WHERE false",
    "SELECT d, d AS again, c FROM trips",
    "SELECT st, arr, m, ts, n FROM trips ORDER BY i",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(2)
def test_later_actions_give_the_same_rows(probe: Probe, query: str) -> None:
    hot = probe.keep(query)
    table = hot.limit(100)
    for _ in range(3):
        assert_answers(probe, table, READ)
    assert table.count() == hot.count()
    assert_same(list(map(repr, table.take(100))), probe.plain_rows(query))


def invalidated(probe: Probe, hot: Any, table: DataFrame) -> None:
    hot.invalidate_cache()
    assert_answers(probe, table, PRODUCED)


def no_longer_cached(probe: Probe, hot: Any, table: DataFrame) -> None:
    hot.unpersist()
    assert_answers(probe, table)


def files_of(hot: Any, probe: Probe) -> list[Path]:
    (listed,) = probe.env.list_cached()
    return sorted(Path(str(listed.location)).glob("part-*.parquet"))


def lost(probe: Probe, hot: Any, table: DataFrame) -> None:
    shutil.rmtree(files_of(hot, probe)[0].parent)
    assert_answers(probe, table, PRODUCED)


def damaged(probe: Probe, hot: Any, table: DataFrame) -> None:
    files_of(hot, probe)[0].write_bytes(b"something else")
    assert_answers(probe, table, PRODUCED)


def other_settings(probe: Probe, hot: Any, table: DataFrame) -> None:
    for number in ("2", "5"):
        partitions = {"adaptive.enabled": "false", "shuffle.partitions": number}
        with probe.settings({f"spark.sql.{key}": each for key, each in partitions.items()}):
            # Rows come partition by partition.
            assert_answers(probe, table, READ, ordered=True)
    with probe.settings({"spark.sql.caseSensitive": "true"}):
        assert_answers(probe, table, PRODUCED)
    assert_answers(probe, table, READ)


def another_part_is_cached(probe: Probe, hot: Any, table: DataFrame) -> None:
    inner = table.where("n > 0")
    assert_answers(probe, inner, READ)
    table.cache()
    assert_answers(probe, inner, PRODUCED, READ)
    assert_answers(probe, inner, READ)


def spark_has_persisted_a_part(probe: Probe, hot: Any, table: DataFrame) -> None:
    hot.persist(StorageLevel.MEMORY_ONLY)
    try:
        assert_answers(probe, table, READ)
    finally:
        probe.plain("SELECT a, b, d FROM trips WHERE b > 5").unpersist(blocking=True)
    assert_answers(probe, table, READ)


def an_action_has_failed(probe: Probe, hot: Any, table: DataFrame) -> None:
    failing = table.select(F.udf(lambda n: 1 // 0, "long")("n"))
    with pytest.raises(Exception, match="ZeroDivisionError"):
        failing.collect()
    assert_answers(probe, table, READ)


CHANGES = [
    *(damaged, invalidated, other_settings, another_part_is_cached, no_longer_cached, lost),
    *(spark_has_persisted_a_part, an_action_has_failed),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_an_action_after(probe: Probe, change: Callable[[Probe, Any, DataFrame], None]) -> None:
    change(probe, *grouped(probe))


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
        # It is listed again in the very plan that has been read.
        probe.spark.sql("REFRESH TABLE listed")
        assert hot.collect()[0].n >= 40
        assert_answers(probe, table, READ)
        assert table.collect()[0].s == 150
    finally:
        probe.spark.sql("DROP TABLE listed")


def test_a_module_that_a_function_imports_may_change(
    probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (module := tmp_path / "hf_steps.py").write_text("def step(n): return n + 1\n")

    def stepped(n: int) -> int:
        from hf_steps import step  # type: ignore[import-not-found]

        return int(step(n))

    def table() -> DataFrame:
        return probe.env.range(3).select(F.udf(stepped, "long")("id"))

    one, other = table(), table()
    testing.assert_same(one, other)
    module.write_text("def step(n): return n + 10\n")
    # Workers may still have it as it was.
    testing.assert_differ(one, other, "reason")


def test_shown_plans_are_those_of_a_new_job(
    probe: Probe, capsys: pytest.CaptureFixture[str]
) -> None:
    _, table = grouped(probe)
    table.explain()
    shown = capsys.readouterr().out
    assert "isFinalPlan=false" in shown and "isFinalPlan=true" not in shown


def test_nothing_is_held_of_tables_that_are_gone(probe: Probe) -> None:
    _, table = grouped(probe)
    lang: Any = probe.spark._jvm.java.lang  # type: ignore[union-attr]
    held = lang.ref.WeakReference(table._jdf.queryExecution())
    gc.collect()
    lang.System.gc()
    assert held.get() is not None
    del table
    deadline = time.monotonic() + 30
    while held.get() is not None:
        assert time.monotonic() < deadline
        gc.collect()
        lang.System.gc()
        time.sleep(0.05)


@contextmanager
def counted_calls(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Counts the calls of the JVM inside a block."""
    client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
    send, calls = client.send_command, [0]

    def counting(command: str, *arguments: object, **named: object) -> object:
        # Objects are released at any time.
        calls[0] += not command.startswith("m\n")
        return send(command, *arguments, **named)

    client.send_command = counting
    try:
        yield lambda: calls[0]
    finally:
        client.send_command = send


def test_a_hit_asks_the_jvm_a_few_times(probe: Probe) -> None:
    hot, same = grouped(probe)
    plain = probe.plain(lambda _: hot.where("a > 1"))
    hot.where("a > 0").collect()
    new = hot.where("a > 1")
    # That nothing cached can be a part of.
    other = probe.env.range(9)
    other.collect()
    with counted_calls(probe.spark) as calls:
        counts = []
        for table in (plain, new, same, other):
            before = calls()
            table.collect()
            counts.append(calls() - before)
    of_plain, of_new, of_same, of_other = counts
    # It takes 31 and 8; a call for each column, operator or setting would be many more.
    assert of_new - of_plain <= 40 and of_same - of_plain <= 12, counts
    assert of_other - of_plain <= 12, counts
