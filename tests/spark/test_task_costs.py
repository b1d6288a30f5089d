"""What a production's tasks took, as Spark has recorded it, and what reading its result saves."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, ExecutionVertex, VertexOutcome
from holdfast.cli.main import main


def environment(spark: SparkSession, home: Path) -> Environment:
    return Environment(spark, {"intermediate-result-storage.directory": str(home / "kept")})


def heavy(env: Environment, rows: int, by: int) -> Any:
    """Takes two stages, and far more computing than reading or writing."""
    hashed = F.sha2(F.sha2(F.col("id").cast("string"), 512), 512).alias("h")
    keyed = env.range(0, rows, 1, 4).select((F.col("id") % by).alias("k"), hashed)
    return keyed.groupBy("k").agg(F.max("h").alias("h")).cache()


def produced(env: Environment) -> ExecutionVertex:
    assert env.last_job_result is not None
    vertices = env.last_job_result.vertices
    (vertex,) = (each for each in vertices if each.outcome is VertexOutcome.PRODUCED)
    return vertex


def recorded_by_spark(spark: SparkSession, vertex: ExecutionVertex) -> float:
    """By the status store of Spark, which its own UI shows."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty(30_000)
    store, stages = context.statusStore(), set()
    jobs = store.jobsList(None)
    for job in (jobs.apply(index) for index in range(jobs.size())):
        if f"keeps {vertex.dataset_id}" in str(job.description()):
            stages |= {job.stageIds().apply(index) for index in range(job.stageIds().size())}
    assert stages
    nanoseconds = 0
    for stage in stages:
        attempts = store.stageData(stage, False, None, False, None)
        for attempt in (attempts.apply(index) for index in range(attempts.size())):
            nanoseconds += attempt.executorCpuTime()
    return nanoseconds / 1e9


def test_it_is_what_spark_has_recorded_and_holdfast_show_says_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with environment(spark, tmp_path) as env:
        # What fails before leaves nothing behind.
        with pytest.raises(Exception, match="as asked"):
            env.range(4).select(F.raise_error(F.lit("as asked"))).cache().collect()
        hot = heavy(env, 300_000, 11).cache(lifetime="1 h")
        assert len(hot.collect()) == 11
        vertex = produced(env)
        cpu, dataset = vertex.cpu_seconds, vertex.dataset_id
        assert cpu == pytest.approx(recorded_by_spark(spark, vertex), abs=1e-6)
        assert cpu is not None and cpu > 0.1 and dataset is not None
        hot.collect()
        # What is read takes time as well, but not to produce it.
        assert env.last_job_result is not None
        assert [each.cpu_seconds for each in env.last_job_result.vertices] == [None, None]
    show = ["show", dataset.hex, "--directory", str(tmp_path / "kept")]
    capsys.readouterr()
    assert main([*show, "--json"]) == 0
    (recorded,) = json.loads(capsys.readouterr().out)
    assert recorded["cpu_seconds"] == pytest.approx(cpu)
    assert main(show) == 0
    assert f"{recorded['seconds']:,.1f} s, CPU time {cpu:,.1f} s" in capsys.readouterr().out


def test_productions_side_by_side_count_their_own_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: dict[int, ExecutionVertex] = {}
    meeting = threading.Barrier(2)

    def produce(rows: int) -> None:
        with environment(spark, tmp_path) as env:
            hot = heavy(env, rows, 13)
            meeting.wait(60)
            hot.collect()
            found[rows] = produced(env)

    threads = [threading.Thread(target=produce, args=[rows]) for rows in (20_000, 200_000)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    for vertex in found.values():
        assert vertex.cpu_seconds == pytest.approx(recorded_by_spark(spark, vertex), abs=1e-6)
    light, much = (found[rows].cpu_seconds for rows in (20_000, 200_000))
    assert light is not None and much is not None and 0 < 2 * light < much


# -- what reading it saves -------------------------------------------------------------------------

# From what needs most of it to what needs least.
NEEDS: list[Callable[[DataFrame], DataFrame]] = [
    lambda kept: kept.sort("id"),
    lambda kept: kept.groupBy("shop").agg(F.sum("id"), F.max("text1")),
    lambda kept: kept.groupBy("shop").agg(F.sum("id")),
    lambda kept: kept.where("id = 7").groupBy("shop").agg(F.sum("id")),
]


def test_what_is_saved_is_what_was_needed(
    spark: SparkSession, tmp_path: Path, settings: Any
) -> None:
    wide = [F.sha2((F.col("id") + n).cast("string"), 256).alias(f"text{n}") for n in range(6)]
    sold = spark.range(2_000).select("id", (F.col("id") % 50).alias("k"), *wide)
    sold.write.parquet(str(tmp_path / "sold"))
    shops = spark.range(50).selectExpr("id AS k", "'a shop' AS shop")
    shops.write.parquet(str(tmp_path / "shops"))
    with (
        settings({"spark.sql.autoBroadcastJoinThreshold": "-1"}),
        environment(spark, tmp_path) as env,
    ):
        sides = (env.read.parquet(str(tmp_path / name)) for name in ("sold", "shops"))
        kept = next(sides).join(next(sides), "k").cache()
        kept.collect()
        saved = []
        for needs in (lambda kept: kept, *NEEDS):
            needs(kept).collect()
            assert env.last_job_result is not None
            saved.append(env.last_job_result.saved_seconds)
        whole, *less = saved
        assert whole == less[0] > less[1] > less[2] > less[3] >= 0
        (listed,) = env.list_cached()
        assert listed.saved_seconds == pytest.approx(sum(saved))
