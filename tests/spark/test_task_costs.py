"""What a production's tasks took: as Spark's own record has it, and of no other job's tasks."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.interruptible import Interruptible, over_before_clearing
from holdfast.spark.task_costs import cost_of_block, measured_cpu


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def environment(spark: SparkSession, directory: Path) -> Environment:
    return Environment(spark, {"intermediate-result-storage.directory": str(directory)})


def heavy(env: Environment, rows: int, by: int) -> Table:
    """Takes two stages, and far more computing than reading or writing."""
    hashed = env.spark.range(0, rows, 1, 4).select(
        (F.col("id") % by).alias("k"),
        F.sha2(F.sha2(F.col("id").cast("string"), 512), 512).alias("h"),
    )
    return env.from_dataframe(hashed.groupBy("k").agg(F.max("h").alias("h")))


def running_tasks(spark: SparkSession) -> int:
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    return int(context.taskScheduler().runningTasksByExecutors().apply("driver"))


def produced(env: Environment) -> ExecutionVertex:
    assert env.last_job_result is not None
    (vertex,) = (
        each for each in env.last_job_result.vertices if each.outcome is VertexOutcome.PRODUCED
    )
    return vertex


def recorded_by_spark(spark: SparkSession, vertex: ExecutionVertex) -> float:
    """By the status store of Spark, which its own UI shows."""
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    context.listenerBus().waitUntilEmpty(30_000)
    store, stages = context.statusStore(), set()
    jobs = store.jobsList(None)
    for job in (jobs.apply(index) for index in range(jobs.size())):
        if job.description().isDefined() and f"keeps {vertex.dataset_id}" in str(
            job.description().get()
        ):
            stages |= {job.stageIds().apply(index) for index in range(job.stageIds().size())}
    assert stages
    nanoseconds = 0
    for stage in stages:
        attempts = store.stageData(stage, False, None, False, None)
        for attempt in (attempts.apply(index) for index in range(attempts.size())):
            nanoseconds += attempt.executorCpuTime()
    return nanoseconds / 1e9


def test_it_is_what_spark_has_recorded(spark: SparkSession, directory: Path) -> None:
    with environment(spark, directory) as env:
        hot = heavy(env, 300_000, 11).cache()
        assert len(hot.collect()) == 11
        vertex = produced(env)
        assert vertex.cpu_seconds == pytest.approx(recorded_by_spark(spark, vertex), abs=1e-6)
        assert vertex.cpu_seconds is not None and vertex.cpu_seconds > 0.1
        hot.collect()
        # What is read takes time as well, but not to produce it.
        assert env.last_job_result is not None
        assert [each.cpu_seconds for each in env.last_job_result.vertices] == [None, None]


def test_tasks_that_outlive_their_failed_job_are_waited_for(spark: SparkSession) -> None:
    slow = "aggregate(sequence(0, 2000000 + id), 0, (sum, each) -> sum + length(hex(each)))"
    rows = spark.range(0, 2, 1, 2).selectExpr(f"if(id = 0, raise_error('zero'), {slow}) AS root")
    with measured_cpu(spark):
        with pytest.raises(PySparkException, match="zero"), over_before_clearing():
            try:
                rows.write.format("noop").mode("append").save()
            finally:
                ran_on = running_tasks(spark)
        assert (ran_on, running_tasks(spark)) == (1, 0)


def test_what_a_block_took_is_told_to_another_thread_when_it_is_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(0, 40_000, 1, 4).write.parquet(str(tmp_path / "ids"))
    found = []
    with Interruptible(spark):
        rows = spark.read.parquet(str(tmp_path / "ids"))
        with measured_cpu(spark):
            # What is inside of it counts as well.
            assert rows.groupBy("id").count().count() == 40_000
        rows.agg(F.sum("id")).collect()
        cost = cost_of_block()
    with Interruptible(spark):
        spark.range(3).count()
        thread = threading.Thread(target=lambda: found.append(cost()))
        thread.start()
        thread.join(60)
        # Nobody is told twice.
        assert cost() is None
    (told,) = found
    assert told is not None
    assert told.bytes_read > 0 and told.shuffle_bytes > 40_000
    assert told.cpu_seconds > 0 and 0 < told.seconds < 600


def test_a_thread_without_a_block_is_told_nothing(spark: SparkSession) -> None:
    spark.range(3).count()
    assert cost_of_block()() is None


def test_productions_side_by_side_count_their_own_tasks(
    spark: SparkSession, directory: Path
) -> None:
    found: dict[int, ExecutionVertex] = {}
    meeting = threading.Barrier(2)

    def produce(rows: int) -> None:
        with environment(spark, directory) as env:
            hot = heavy(env, rows, 13).cache()
            meeting.wait(60)
            hot.collect()
            found[rows] = produced(env)

    threads = [threading.Thread(target=produce, args=[rows]) for rows in (50_000, 500_000)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    for vertex in found.values():
        assert vertex.cpu_seconds == pytest.approx(recorded_by_spark(spark, vertex), abs=1e-6)
    light, much = (found[rows].cpu_seconds for rows in (50_000, 500_000))
    assert light is not None and much is not None and 0 < 2 * light < much


def test_a_production_that_fails_leaves_nothing_behind(
    spark: SparkSession, directory: Path
) -> None:
    with environment(spark, directory) as env:
        failing = env.from_dataframe(
            spark.range(4).select(F.raise_error(F.lit("no")).cast("int").alias("a"))
        ).cache()
        with pytest.raises(Exception, match="no"):
            failing.collect()
        hot = heavy(env, 20_000, 17).cache()
        hot.collect()
        vertex = produced(env)
        assert vertex.cpu_seconds == pytest.approx(recorded_by_spark(spark, vertex), abs=1e-6)


def test_holdfast_show_has_it(spark: SparkSession, directory: Path) -> None:
    with environment(spark, directory) as env:
        heavy(env, 50_000, 19).cache(lifetime="1 h").collect()
        vertex = produced(env)
    assert vertex.dataset_id is not None and vertex.cpu_seconds is not None
    shown = [
        subprocess.run(
            [
                *(sys.executable, "-m", "holdfast.cli.main", "show", vertex.dataset_id.hex),
                *("--directory", str(directory), *options),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for options in (["--json"], [])
    ]
    (recorded,) = json.loads(shown[0])
    assert recorded["cpu_seconds"] == pytest.approx(vertex.cpu_seconds)
    assert recorded["seconds"] > 0
    assert f"{recorded['seconds']:,.1f} s, CPU time {vertex.cpu_seconds:,.1f} s" in shown[1]
