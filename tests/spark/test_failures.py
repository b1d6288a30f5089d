"""What can't be kept costs no answer, and a person's own errors are as on plain Spark."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_reads, outcomes
from tests.spark.conftest import Tally
from tests.spark.starts import Starts, recovered_tasks

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
NOT_KEPT = [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
DIRECTORY = "intermediate-result-storage.directory"


def why_not_kept(env: Environment) -> str:
    assert env.last_job_result is not None and outcomes(env) == NOT_KEPT
    return env.last_job_result.vertices[0].reason or ""


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Gives the lines of Holdfast's log since the last call, from WARNING on.

    Without those of the catalog, which is on the same disk, and says so in a line of its own.
    """
    caplog.set_level(logging.WARNING, logger="holdfast")

    def lines() -> list[str]:
        found = [each.getMessage() for each in caplog.records if each.name.startswith("holdfast")]
        caplog.clear()
        return [line for line in found if not line.startswith("results are not shared with")]

    return lines


# -- where results can't be kept -------------------------------------------------------------------


def test_a_full_disk_costs_no_answer_and_is_not_written_to_by_each_query(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]]
) -> None:
    session = holdfast.attach(spark.newSession(), {DIRECTORY: str(small_disk / "kept")})
    text = F.sha2(F.col("id").cast("string"), 512).alias("w")
    hot = session.range(0, 8000, 1, 2).select("id", text).cache()
    try:
        assert hot.agg(F.sum("id")).first() == (sum(range(8000)),)
        assert "No space left" in why_not_kept(session.holdfast)
        for _ in range(2):
            # Spark runs it for an RDD, and no action of a table's.
            assert hot.rdd.map(lambda row: row.id).sum() == sum(range(8000))
        assert "a recent attempt" in why_not_kept(session.holdfast)
        # The first query has tried to keep it, the others have not.
        (line,) = warnings()
        assert "No space left" in line
        (listed,) = session.holdfast.list_cached()
        assert "No space left" in (listed.not_kept_by_holdfast or "")
        assert not [*small_disk.rglob("*.parquet")]
    finally:
        holdfast.detach(session)


@pytest.mark.parametrize("how", ["read-only", "full"])
@pytest.mark.sampled(2)
def test_a_directory_that_can_t_be_written_any_more_costs_no_answer(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]], how: str
) -> None:
    root = str(small_disk / "kept")
    with Environment(spark, {DIRECTORY: root}) as env:
        hot = env.from_dataframe(spark.range(60)).cache()
        if how == "read-only":
            # A view of itself, since the lock in it is open for writing.
            subprocess.run(["mount", "--bind", root, root], check=True)
        try:
            if how == "read-only":
                subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
            else:
                with (small_disk / "rest").open("wb", buffering=0) as rest, pytest.raises(OSError):
                    while True:
                        rest.write(bytes(1024))
            assert sorted(row.id for row in hot.collect()) == [*range(60)]
        finally:
            if how == "read-only":
                subprocess.run(["umount", "--lazy", root], check=True)
        assert outcomes(env) == NOT_KEPT and len(warnings()) == 1


@pytest.mark.parametrize("small_disk", ["2m"], indirect=True)
def test_a_disk_that_is_full_when_small_partitions_are_merged(
    spark: SparkSession, small_disk: Path
) -> None:
    # Once there is room for it, and not twice.
    df = spark.range(0, 40, 1, 40).select("id", F.randstr(F.lit(40_000), F.lit(7)).alias("w"))
    config = {DIRECTORY: str(small_disk / "kept"), "catalog.url": "none"}
    with Environment(spark, config) as env:
        hot = env.from_dataframe(df).cache()
        for expected in (PRODUCED, READ):
            assert sorted(hot.select("id").toPandas()["id"]) == [*range(40)]
            assert outcomes(env) == expected
        assert env.list_cached()[0].partitions == 40
        assert hot.agg(F.max(F.length("w"))).first() == (40_000,)


def running_tasks(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()
    return int(context.taskScheduler().runningTasksByExecutors().apply("driver"))


def test_tasks_that_outlive_their_failed_job_publish_nothing(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    slow = "aggregate(sequence(0, 500000 + id), 0L, (sum, each) -> sum + length(hex(each)))"
    rows = spark.range(0, 2, 1, 2).selectExpr(f"if(id = 0, raise_error('zero'), {slow}) AS root")
    # Kept by a job of its own, before the RDD has any.
    rdd = env.from_dataframe(rows).cache().rdd
    assert running_tasks(spark) == 0
    assert not [*(tmp_path / "kept").rglob("*.parquet")]
    with pytest.raises(Exception, match="zero"):
        rdd.collect()


SLOW_LISTENER = """
package holdfast;

import java.util.concurrent.CountDownLatch;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

public final class SlowListener extends SparkListener {
    private final CountDownLatch end = new CountDownLatch(1);

    public SlowListener() {}

    public void onTaskEnd(SparkListenerTaskEnd event) {
        try {
            end.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    public void end() {
        end.countDown();
    }
}
"""


@pytest.fixture
def slow_listener(spark: SparkSession) -> Iterator[None]:
    """Another one's listener, which all of Spark's shared queue waits for."""
    from holdfast.spark.java_classes import object_of

    context: Any = spark.sparkContext._jsc.sc()
    slow = object_of(spark, "SlowListener", SLOW_LISTENER)
    context.addSparkListener(slow)
    yield
    slow.end()
    context.removeSparkListener(slow)


@pytest.mark.usefixtures("slow_listener")
def test_another_s_slow_listener_holds_nothing_up_and_loses_nothing(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    def totals(session: Any) -> Any:
        return session.read.parquet(str(tmp_path / "numbers")).groupBy("k").count()

    spark.range(1000).selectExpr("id % 7 AS k").write.parquet(str(tmp_path / "numbers"))
    began = time.monotonic()
    hot = totals(env).cache()
    for expected in (PRODUCED, READ):
        assert len(hot.collect()) == 7
        assert outcomes(env) == expected
    with Starts(spark, tmp_path, {}) as starts:
        rows = totals(starts.start()).toLocalIterator()
        next(rows)
        while not starts.outputs():
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        found, result = starts.run(totals)
        assert found == starts.plain_rows(totals) and recovered_tasks(result) > 0
    assert time.monotonic() - began < 60


# -- a person's own errors -------------------------------------------------------------------------


def failure_of(df: DataFrame) -> tuple[type, str]:
    """The class of an error and what it says, without Py4J's name for the call and Java's stack."""
    with pytest.raises(Exception) as failed:
        df.collect()
    shown = str(failed.value).partition("\n\tat ")[0]
    return type(failed.value), shown.partition("\n: ")[2] or shown


def failing_at(number: int, tally: Tally) -> Any:
    def checked(value: int) -> int:
        if value == number:
            raise ValueError(f"{value} is one too many")
        return value

    return F.udf(tally.counting(checked), "long")("id").alias("x")


def test_a_failing_function_s_error_is_as_with_plain_spark(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], tally: Tally
) -> None:
    df = spark.range(0, 20, 1, 1).select(failing_at(7, tally))
    expected = failure_of(df)
    assert issubclass(expected[0], PythonException)
    table = env.from_dataframe(df).cache()
    for query in (table, table.groupBy("x").count(), table.orderBy("x").cache()):
        assert failure_of(query) == expected
    assert warnings() == []
    assert all(listed.location is None for listed in env.list_cached())


def test_a_function_that_fails_above_what_is_kept_is_not_run_again(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], tally: Tally
) -> None:
    df = spark.range(0, 20, 1, 1)
    hot = env.from_dataframe(df).cache()
    hot.count()
    expected = failure_of(df.select(failing_at(7, tally)))
    called = tally.count()
    assert failure_of(hot.select(failing_at(7, tally))) == expected
    assert tally.count() == 2 * called
    assert warnings() == []
    assert_reads(hot)


ERRORS = {
    "a division": "SELECT max(1 / (id - 3)) AS v FROM range(0, 5, 1, 1) GROUP BY id",
    "a cast": "SELECT CAST(concat('x', id) AS INT) AS v FROM range(0, 5, 1, 1)",
    "an overflow": "SELECT id + 9223372036854775807L AS v FROM range(0, 5, 1, 1)",
    "an index": "SELECT array(1, 2)[id] AS v FROM range(0, 5, 1, 1)",
    "an error of one's own": "SELECT raise_error('mine') AS v FROM range(0, 5, 1, 1)",
    "too many rows of a subquery": "SELECT (SELECT id FROM range(3)) AS v",
}


@pytest.mark.parametrize("what", ERRORS)
@pytest.mark.sampled(3)
def test_an_error_of_sql_is_as_with_plain_spark(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], what: str
) -> None:
    expected = failure_of(spark.sql(ERRORS[what]))
    hot = env.sql(ERRORS[what]).cache()
    for table in (hot, hot.where("v IS NOT NULL")):
        assert failure_of(table) == expected
    assert warnings() == []


NARROWED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "its column is not asked for": lambda table: table.select("k"),
    "its rows are filtered out": lambda table: table.where("k < 3"),
    "rows are counted": lambda table: table.groupBy().count(),
}


@pytest.mark.parametrize("how", NARROWED)
@pytest.mark.sampled(3)
def test_an_error_in_what_is_not_asked_for_fails_no_job(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], how: str
) -> None:
    query = "SELECT id AS k, 1 / (id - 3) AS e FROM range(0, 5, 1, 1)"
    asked, plain = NARROWED[how](env.sql(query).cache()), NARROWED[how](spark.sql(query))
    assert asked.collect() == plain.collect()
    assert "DIVIDE_BY_ZERO" in why_not_kept(env)
    (warning,) = warnings()
    assert "DIVIDE_BY_ZERO" in warning
    # What has just failed isn't computed in vain by the next job, too.
    assert asked.collect() == plain.collect()
    assert "a recent attempt" in why_not_kept(env)
    assert warnings() == []


@pytest.mark.soak
def test_once_a_result_is_kept_the_failure_before_is_not_its_reason(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    mended = str(tmp_path / "mended")

    @F.udf("long")
    def checked(number):  # type: ignore[no-untyped-def]
        if not os.path.exists(mended):
            raise ValueError("not yet")
        return number

    hot = env.from_dataframe(spark.range(5).select("id", checked("id").alias("x"))).cache()
    assert len(hot.select("id").collect()) == 5
    (listed,) = env.list_cached()
    assert "not yet" in (listed.not_kept_by_holdfast or "")
    Path(mended).touch()
    deadline = time.monotonic() + 100
    # The next attempt is made when some time has passed.
    while outcomes(env)[0] is VertexOutcome.NOT_KEPT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        assert len(hot.select("id").collect()) == 5
    (listed,) = env.list_cached()
    assert listed.not_kept_by_holdfast is None


# -- sources ---------------------------------------------------------------------------------------


def test_a_missing_source_file_is_as_with_plain_spark(
    spark: SparkSession, env: Environment, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    source = tmp_path / "source"
    spark.range(10).repartition(2).write.parquet(str(source))
    df = spark.read.parquet(str(source)).where("id >= 0")
    hot = env.from_dataframe(df).cache()
    next(source.glob("part-*.parquet")).unlink()
    expected = failure_of(df)
    assert failure_of(hot) == expected and str(source) in expected[1]
    assert warnings() == []
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        env.read.parquet(str(tmp_path / "nowhere"))


def test_a_source_rewritten_after_it_was_listed_is_not_kept(
    env: Environment, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    source.write_text("4\n5\n6\n")
    os.utime(source, (1, 1))
    expected = [Row(_c0=each) for each in "456"]
    assert hot.collect() == expected
    assert "changed after it was listed" in why_not_kept(env)
    again = env.read.csv(str(source)).cache()
    assert again.collect() == again.collect() == expected
    assert outcomes(env) == READ
