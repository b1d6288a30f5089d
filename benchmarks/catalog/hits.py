"""What it costs a job to read another program's result instead of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table
from holdfast.runtime.vertex_outcome import VertexOutcome

_WARM_UPS = 10
PARTITIONS = 8


def measure(home: Path, rounds: int) -> Iterator[tuple[float, float]]:
    """Asks the same question in the program that has kept a result and in another one, in turn.

    Args:
        home: an empty directory.
        rounds: how often.

    Yields:
        the seconds of a hit in its own program, and in the other one.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench-catalog")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", str(PARTITIONS))
        .config("spark.sql.adaptive.coalescePartitions.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    source = str(home / "orders")
    spark.range(0, 200_000, 1, 4).selectExpr("id % 10000 AS k", "id AS v").write.parquet(source)
    config = {"intermediate-result-storage.directory": str(home / "kept")}
    try:
        with Environment(spark, config) as own, Environment(spark, config) as other:
            totals(own, source).cache(lifetime="1 h").count()
            for number in range(-_WARM_UPS, rounds):
                times = []
                for environment in (own, other) if number % 2 else (other, own):
                    table = totals(environment, source).where("k < 7")
                    started = time.perf_counter()
                    assert table.count() == 7
                    times.append(time.perf_counter() - started)
                    assert environment.last_job_result is not None
                    outcome = environment.last_job_result.vertices[0].outcome
                    assert outcome is VertexOutcome.READ
                if number >= 0:
                    mine, theirs = times if number % 2 else reversed(times)
                    yield mine, theirs
    finally:
        spark.stop()


def totals(environment: Environment, source: str) -> Table:
    table = environment.read.parquet(source)
    return table.groupBy("k").agg(F.sum("v").alias("total"))
