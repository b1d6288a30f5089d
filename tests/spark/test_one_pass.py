"""The first job that needs a cached table keeps it while its rows flow on: in one Spark job."""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes
from tests.spark.running_jobs import SlowJob, spark_jobs

NOT_KEPT, PRODUCED, READ, RUN = (
    VertexOutcome.NOT_KEPT,
    VertexOutcome.PRODUCED,
    VertexOutcome.READ,
    VertexOutcome.RUN,
)
ODD = {
    "empty": "SELECT id, id * 2 AS twice FROM range(0, 10, 1, 3) WHERE id > 99",
    "one row": "SELECT 1 AS a, 'x' AS b",
    "some partitions empty": "SELECT id FROM range(0, 100, 1, 7) WHERE id BETWEEN 40 AND 45",
    "all kinds": "SELECT *, d * -1 AS e FROM trips",
    "the same name twice": "SELECT a, b AS a, st AS `a.b` FROM trips",
    "fields of the same name": "SELECT named_struct('x', a, 'X', b, 'x', c) AS s, a FROM trips",
    "intervals and nulls": "SELECT INTERVAL 1 DAY AS i, b, array(NULL, a) AS n FROM trips",
    "a collation": "SELECT c COLLATE UTF8_LCASE AS c, array(c COLLATE UNICODE) AS l FROM trips",
    "many partitions": "SELECT id % 5 AS k, id FROM range(0, 1000, 1, 60)",
    "in order": "SELECT * FROM range(0, 500, 1, 5) ORDER BY id % 7, id DESC",
    "in order within": "SELECT * FROM (SELECT * FROM range(0, 500, 1, 5) SORT BY id % 7, id)",
    "a join": "SELECT a, b, e FROM trips JOIN riders USING (a)",
    "windows": "SELECT a, b, row_number() OVER (PARTITION BY c ORDER BY a, b, i) AS n FROM trips",
}


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowJob]:
    with SlowJob(tmp_path) as job:
        yield job


@pytest.fixture
def staged(tmp_path: Path) -> Callable[[], list[Path]]:
    """What is half-written."""
    return lambda: list((tmp_path / "kept").glob("application-*/staging/*"))


def texts(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def numbers(session: Any, parts: int = 3) -> Any:
    return session.range(0, 300, 1, parts).withColumn("k", F.col("id") % 3)


def why_not_kept(env: Environment) -> list[str]:
    assert env.last_job_result is not None
    return [each.kind for each in env.last_job_result.vertices[0].reasons]


@pytest.mark.parametrize("query", ODD.values(), ids=ODD)
@pytest.mark.usefixtures("tables")
@pytest.mark.sampled(5, 4)
def test_rows_are_plain_spark_s_whether_they_flow_or_are_read(
    env: Environment, spark: SparkSession, query: str, staged: Callable[[], list[Path]]
) -> None:
    kept, plain = env.sql(query).cache(), spark.sql(query)
    for outcome in (PRODUCED, READ):
        assert texts(kept) == texts(plain)
        assert outcomes(env) == [outcome, RUN]
        if "ORDER BY id" in query:
            assert kept.collect() == plain.collect()
    assert staged() == []


def test_no_spark_job_is_added_and_nothing_is_computed_twice(
    env: Environment, spark: SparkSession, tally: Any
) -> None:
    seen = F.udf(tally.counting(lambda n: n), "long")

    def totals(table: Any) -> DataFrame:
        found: DataFrame = table.groupBy("k").agg(F.sum("id").alias("total"))
        return found

    expected, alone = spark_jobs(
        spark, lambda: texts(totals(numbers(spark).withColumn("id", seen("id"))))
    )
    before = tally.count()
    kept = numbers(env).withColumn("id", seen("id")).cache()
    assert spark_jobs(spark, lambda: texts(totals(kept))) == (expected, alone)
    assert outcomes(env) == [PRODUCED, RUN]
    assert texts(totals(kept)) == expected
    assert outcomes(env) == [READ, RUN]
    assert tally.count() - before == 300
    (listed,) = env.list_cached()
    assert (listed.rows, listed.partitions) == (300, 3)


BROADCASTS = "spark.sql.autoBroadcastJoinThreshold"
JOINS = {
    "skewed": {
        BROADCASTS: "-1",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1k",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
        "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.1",
    },
    "broadcast": {BROADCASTS: "10m"},
    "sort-merge": {BROADCASTS: "-1"},
    "not adaptive": {BROADCASTS: "-1", "spark.sql.adaptive.enabled": "false"},
}


@pytest.mark.parametrize("values", JOINS.values(), ids=JOINS)
@pytest.mark.sampled(4)
def test_rows_flow_into_and_out_of_joins(
    env: Environment, spark: SparkSession, settings: Any, values: dict[str, str]
) -> None:
    def below(session: Any) -> Any:
        most = F.when(F.col("id") < 2500, 1).otherwise(F.col("id")).alias("k")
        left = session.range(0, 3000, 1, 4).select(most, "id")
        return left.join(session.range(5000).withColumnRenamed("id", "k"), "k")

    def above(session: Any, table: Any) -> DataFrame:
        other = session.range(0, 4000, 7).withColumnRenamed("id", "k")
        found: DataFrame = table.join(other, "k", "left")
        return found

    with settings(values):
        kept = below(env).cache()
        for outcome in (PRODUCED, READ):
            assert texts(above(env, kept)) == texts(above(spark, below(spark)))
            assert outcomes(env) == [outcome, RUN]


def test_of_cached_tables_in_each_other_both_are_kept_by_one_job(
    env: Environment, spark: SparkSession
) -> None:
    outer = numbers(env).cache().groupBy("k").count().cache()
    for found in ([PRODUCED, PRODUCED, RUN], [READ, RUN]):
        assert texts(outer) == texts(numbers(spark).groupBy("k").count())
        assert outcomes(env) == found


def test_what_spark_does_not_need_is_not_kept_and_the_next_job_keeps_it_first(
    env: Environment, caplog: pytest.LogCaptureFixture, staged: Callable[[], list[Path]]
) -> None:
    caplog.set_level(logging.DEBUG, logger="holdfast")
    kept = numbers(env).cache()
    # That there is nothing to join with is found out while the job runs.
    nothing = env.range(10).where("id % 2 = 7").groupBy("id").count().join(kept, "id")
    assert nothing.collect() == []
    if outcomes(env) == [NOT_KEPT, RUN]:
        assert why_not_kept(env) == ["NOT_ALL_ROWS"]
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert staged() == []
        assert nothing.collect() == []
    assert PRODUCED in outcomes(env)
    assert kept.count() == 300
    assert outcomes(env) == [READ, RUN]


def test_an_error_that_plain_spark_does_not_meet_is_not_met(
    env: Environment, staged: Callable[[], list[Path]]
) -> None:
    def fail(value: int) -> int:
        raise ValueError(value)

    kept = numbers(env).withColumn("bad", F.udf(fail, "long")("id")).cache()
    for _ in range(2):
        assert kept.select("id").count() == 300
        assert (outcomes(env)[-1], staged()) == (RUN, [])


def test_an_error_of_the_answer_is_raised(
    env: Environment, staged: Callable[[], list[Path]]
) -> None:
    def fail(value: int) -> int:
        raise ValueError("above")

    kept = numbers(env).cache()
    with pytest.raises(PySparkException, match="above"):
        kept.select(F.udf(fail, "long")("k")).collect()
    assert staged() == []
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]


# -- what happens meanwhile ------------------------------------------------------------------------


def slowly(table: Any, slow: SlowJob) -> Any:
    return table.withColumn("id", F.udf(slow.function, "long")("id"))


def test_rows_flow_on_where_they_cannot_be_written(
    env: Environment, spark: SparkSession, slow: SlowJob, staged: Callable[[], list[Path]]
) -> None:
    kept = slowly(numbers(env), slow).cache()

    def spoil() -> None:
        (directory,) = staged()
        shutil.rmtree(directory / "_temporary", ignore_errors=True)
        (directory / "_temporary").touch()

    assert slow.run(lambda: texts(kept), spoil) == texts(numbers(spark))
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert why_not_kept(env) == ["NOT_WRITTEN"]
    assert staged() == []
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]


def test_what_was_read_from_files_that_change_meanwhile_is_not_kept(
    env: Environment,
    spark: SparkSession,
    tmp_path: Path,
    slow: SlowJob,
    staged: Callable[[], list[Path]],
) -> None:
    spark.range(0, 50, 1, 1).write.parquet(str(tmp_path / "source"))
    (file,) = (tmp_path / "source").glob("part-*.parquet")
    kept = slowly(env.read.parquet(str(tmp_path / "source")), slow).cache()
    assert slow.run(kept.count, lambda: os.utime(file, (1, 1))) == 50
    assert (outcomes(env), staged()) == ([NOT_KEPT, RUN], [])


def test_a_setting_of_files_that_changes_is_said(
    env: Environment, spark: SparkSession, slow: SlowJob
) -> None:
    of_files: Any = spark.sparkContext._jsc.hadoopConfiguration()
    kept = slowly(numbers(env), slow).cache()
    try:
        assert slow.run(kept.count, lambda: of_files.set("parquet.of.tests", "another")) == 300
    finally:
        of_files.unset("parquet.of.tests")
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert why_not_kept(env) == ["SETTING_CHANGED"]


def test_a_cancelled_job_leaves_nothing(
    env: Environment, spark: SparkSession, slow: SlowJob, staged: Callable[[], list[Path]]
) -> None:
    kept = slowly(numbers(env), slow).cache()
    error = slow.run(kept.count, spark.sparkContext.cancelAllJobs)
    assert "cancelled" in str(error)
    assert staged() == []
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]


def test_of_two_threads_one_keeps_and_the_other_reads(
    env: Environment, slow: SlowJob, tally: Any
) -> None:
    seen = F.udf(tally.counting(slow.function), "long")
    kept = numbers(env, 2).withColumn("id", seen("id")).cache()
    others: list[int] = []
    other = threading.Thread(target=lambda: others.append(kept.where("id >= 0").count()))
    assert slow.run(kept.count, other.start) == 300
    other.join()
    assert (others, tally.count()) == ([300], 300)


@pytest.fixture
def retrying(spark: SparkSession) -> Iterator[None]:
    """A task that fails is tried again, as on a cluster."""
    jvm: Any = spark._jvm
    scheduler: Any = spark.sparkContext._jsc.sc().taskScheduler()
    most = jvm.java.lang.Class.forName("org.apache.spark.scheduler.TaskSchedulerImpl")
    most = most.getDeclaredField("maxTaskFailures")
    most.setAccessible(True)
    before = most.get(scheduler)
    most.set(scheduler, 4)
    yield
    most.set(scheduler, before)


@pytest.mark.parametrize("where", ["below", "above"])
@pytest.mark.usefixtures("retrying")
def test_of_a_task_that_is_tried_again_the_attempt_that_succeeds_counts(
    env: Environment, tmp_path: Path, staged: Callable[[], list[Path]], where: str
) -> None:
    marks = str(tmp_path / "failed")

    def once(value: int) -> int:
        # Half of a partition has been written by then.
        if value % 100 == 70 and not os.path.exists(f"{marks}-{value}"):
            open(f"{marks}-{value}", "x").close()
            raise ValueError("the first attempt fails")
        return value

    failing = F.udf(once, "long")("id").alias("id")
    below = numbers(env).select(failing, "k") if where == "below" else numbers(env)
    kept = below.cache()
    answer = kept if where == "below" else kept.select(failing, "k")
    for outcome, table in ((PRODUCED, answer), (READ, kept)):
        assert sorted(map(tuple, table.collect())) == [(n, n % 3) for n in range(300)]
        assert outcomes(env) == [outcome, RUN]
    assert len(list(tmp_path.glob("failed-*"))) == 3
    assert staged() == []
