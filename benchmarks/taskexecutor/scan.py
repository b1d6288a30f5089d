"""A Spark scan of TPC-H lineitem, all columns: through a task executor against local files."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.taskexecutor.kept import keep
from benchmarks.taskexecutor.processes import task_executor


def measure(
    spark: SparkSession, home: Path, lineitem: Path, rounds: int
) -> list[tuple[float, float]]:
    """The seconds that a scan takes, round by round in turns.

    Returns:
        for each round that through the task executor and that of local files.
    """
    with task_executor(home / "kept") as executor:
        kept = keep(executor.gateway, lambda directory: _write(spark, lineitem, directory))
        schema = spark.read.parquet(str(kept.directory)).schema
        sources = (kept.url, f"file:{kept.directory}")
        figures = []
        for number in range(rounds + 2):
            order = (0, 1) if number % 2 else (1, 0)
            found = {
                way: _seconds(spark.read.schema(schema).parquet(sources[way])) for way in order
            }
            figures.append((found[0], found[1]))
    # The first two warm up the JVM.
    return figures[2:]


def _write(spark: SparkSession, lineitem: Path, directory: Path) -> None:
    spark.read.parquet(str(lineitem)).write.mode("append").option("compression", "zstd").parquet(
        f"file:{directory}"
    )


def _seconds(dataframe: DataFrame) -> float:
    begin = time.perf_counter()
    dataframe.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin
