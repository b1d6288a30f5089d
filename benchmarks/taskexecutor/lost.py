"""What it takes to restore a kept result of which a partition, or an executor's share, is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.analyst import joined
from holdfast import Environment
from holdfast.api.cached_table import CachedTable
from tests.harness.local_cluster import LocalCluster

PARTITIONS = 16
# Their heartbeats tell the driver what is lost.
_UNTIL_FOUND_S = 2.5
_MEMORY = "3g"


def measure(spark: SparkSession, home: Path, data: Path, rounds: int) -> list[tuple[float, float]]:
    """The seconds of restoring the join, one partition of which is lost, and of producing.

    Args:
        spark: the session.
        home: for what is kept.
        data: where TPC-H's tables lie.
        rounds: how many count; one more runs before them.
    """
    options = {"intermediate-result-storage.directory": str(home)}
    return _measured(spark, options, data, rounds, lambda number, env: _lose_one(env))


def measure_on_cluster(home: Path, data: Path, rounds: int) -> list[tuple[float, float]]:
    """The same where one of two task executors has lost all that it held.

    There is one session to a process: this is to be called in one of its own.

    Args:
        home: for the cluster.
        data: where TPC-H's tables lie.
        rounds: how many count; one more runs before them.
    """
    # A node's path for what is kept is the same on both, and the nodes' cores are this machine's.
    with LocalCluster(home, memory=_MEMORY) as cluster:
        spark = cluster.session(
            {"spark.driver.memory": _MEMORY, "spark.shuffle.reduceLocality.enabled": "false"}
        )
        spark.sparkContext.setLogLevel("ERROR")
        options = {
            "taskexecutor.addresses": ",".join(cluster.task_executor_addresses),
            "taskexecutor.token-file": str(cluster.token_file),
            "heartbeat.interval": "1 s",
            "heartbeat.timeout": "60 s",
        }

        def lose(number: int, environment: Environment) -> None:
            cluster.restart_task_executor(number % 2, empty=True)
            time.sleep(_UNTIL_FOUND_S)

        pairs = _measured(spark, options, data, rounds, lose)
        spark.stop()
    return pairs


def _measured(
    spark: SparkSession,
    options: Mapping[str, str],
    data: Path,
    rounds: int,
    lose: Callable[[int, Environment], None],
) -> list[tuple[float, float]]:
    spark.conf.set("spark.sql.adaptive.coalescePartitions.minPartitionNum", str(PARTITIONS))
    spark.conf.set("spark.sql.adaptive.coalescePartitions.minPartitionSize", "64k")
    pairs = []
    with Environment(spark, options) as environment:
        for number in range(rounds + 1):
            kept = joined(environment, data).cache()  # type: ignore[operator]
            produced = _seconds(kept)
            lose(number, environment)
            restored = _seconds(kept)
            result = environment.last_job_result
            assert result is not None and result.vertices[0].taken_over, result
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
