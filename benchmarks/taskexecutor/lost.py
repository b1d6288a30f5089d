"""What it takes to restore a kept result of which a partition is lost."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.api.cached_table import CachedTable
from holdfast.cli.demo.parquet_folder import tables_of
from holdfast.cli.demo.tpch_story import tpch_story

PARTITIONS = 16


def measure(spark: SparkSession, home: Path, data: Path, rounds: int) -> list[tuple[float, float]]:
    """The seconds of restoring the demo's join, one partition of which is lost, and of producing.

    Args:
        spark: the session.
        home: for what is kept.
        data: where TPC-H's tables lie.
        rounds: how many count; one more runs before them.
    """
    spark.conf.set("spark.sql.adaptive.coalescePartitions.minPartitionNum", str(PARTITIONS))
    spark.conf.set("spark.sql.adaptive.coalescePartitions.minPartitionSize", "64k")
    story = tpch_story("TPC-H", tables_of(data))
    pairs = []
    with Environment(spark, {"intermediate-result-storage.directory": str(home)}) as environment:
        for number in range(rounds + 1):
            kept = story.build(environment).cache()  # type: ignore[operator]
            produced = _seconds(kept)
            _lose_one(environment)
            restored = _seconds(kept)
            if number > 0:
                pairs.append((restored, produced))
            environment.invalidate_all()
    return pairs


def _seconds(kept: CachedTable) -> float:
    started = time.perf_counter()
    # The job that hands out the RDD keeps the table first, and the RDD is not run.
    _ = kept.rdd
    return time.perf_counter() - started


def _lose_one(environment: Environment) -> None:
    result = environment.last_job_result
    assert result is not None
    (partitions,) = result.persistent_result_partitions.descriptors.values()
    assert len(partitions) >= PARTITIONS, len(partitions)
    Path(max(partitions, key=lambda each: each.bytes).location).unlink()
