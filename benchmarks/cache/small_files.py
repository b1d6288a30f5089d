"""Measures what becomes of results that come in many tiny partitions."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.figure import Figure
from holdfast import Environment
from holdfast.storage import small_partitions

_FRAMES, _PARTITIONS = 300, 1_000
_MOST_FILES = 16
_PRODUCTION, _READING = 1.1, 1.1
_READS, _WARM_UPS = 3, 1

Made = Callable[[int], DataFrame]
"""Makes a DataFrame that nothing is kept of, another one for each number."""


def measure(spark: SparkSession, environment: Environment, home: Path, rounds: int) -> list[Figure]:
    """Files that are kept; production with and without merging; reading against files by hand.

    Args:
        spark: the session.
        environment: over that session.
        home: an empty directory, for files written by hand.
        rounds: how often each result is produced.
    """
    results: dict[str, Made] = {
        f"{_FRAMES} DataFrames unioned": partial(_union, spark),
        f"{_PARTITIONS:,} tiny partitions": partial(_tiny, spark),
    }
    return [
        figure
        for number, (what, made) in enumerate(results.items())
        for figure in _of_result(spark, environment, what, made, home / str(number), rounds)
    ]


def _union(spark: SparkSession, number: int) -> DataFrame:
    frames = [
        # 1,000 rows in all.
        spark.createDataFrame(
            [(number, each, text) for text in ("wxyz" if each % 3 == 0 else "xyz")],
            "n int, k int, v string",
        )
        for each in range(_FRAMES)
    ]
    return reduce(DataFrame.unionAll, frames)


def _tiny(spark: SparkSession, number: int) -> DataFrame:
    numbers = spark.range(0, 20 * _PARTITIONS, 1, _PARTITIONS)
    return numbers.select("id", (F.col("id") % 7 + number).alias("k"), F.lit("x").alias("v"))


def _of_result(
    spark: SparkSession,
    environment: Environment,
    what: str,
    made: Made,
    by_hand: Path,
    rounds: int,
) -> list[Figure]:
    sides = {"merged": nullcontext, "unmerged": _unmerged}
    produced: dict[str, list[float]] = {side: [] for side in sides}
    read: dict[str, list[float]] = {"merged": [], "unmerged": [], "hand": []}
    files = tasks = 0
    made(-1).write.mode("overwrite").parquet(str(by_hand))
    for number in range(rounds):
        for side, limits in sides.items():
            df = made(2 * number + (side == "merged"))
            with limits(), environment.from_dataframe(df).cache() as hot:
                produced[side].append(_seconds(partial(_asked, hot)))
                if side == "merged":
                    files = _files(environment)
                    tasks = _tasks(spark, partial(_asked, hot))
                asks = {side: partial(_asked, hot)}
                if side == "merged":
                    asks["hand"] = lambda: _asked(spark.read.parquet(str(by_hand)))
                for turn in range(-_WARM_UPS, _READS):
                    for name, ask in asks.items():
                        seconds = _seconds(ask)
                        if turn >= 0:
                            read[name].append(seconds)
    return [
        Figure(f"{what}: files kept", (files,), "files", _MOST_FILES, at_least=False),
        Figure(f"{what}: tasks of reading again", (tasks,), "tasks", _MOST_FILES, at_least=False),
        _ratio(f"{what}: production / without merging", produced, "unmerged", _PRODUCTION),
        _ratio(f"{what}: reading / the files of Spark by hand", read, "hand", _READING),
        _ratio(f"{what}: reading / without merging", read, "unmerged", 1.0),
    ]


def _asked(df: DataFrame) -> object:
    return df.groupBy("v").count().collect()


def _unmerged() -> AbstractContextManager[object]:
    return patch.object(small_partitions, "LEAST_SAVED", 1 << 30)


def _files(environment: Environment) -> int:
    result = environment.last_job_result
    assert result is not None
    kept = result.persistent_result_partitions.descriptors.values()
    return sum(map(len, kept))


def _tasks(spark: SparkSession, step: Callable[[], object]) -> int:
    """How many tasks the largest stage has that is run for it."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    step()
    tracker = spark.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds)
    return max(stage.numTasks for stage in stages if stage)


def _seconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def _ratio(what: str, seconds: Mapping[str, list[float]], other: str, target: float) -> Figure:
    ours, another = (statistics.median(seconds[name]) for name in ("merged", other))
    sides = f"{1_000 * ours:,.0f} ms / {1_000 * another:,.0f} ms"
    return Figure(what, (ours / another,), "ratio", target, at_least=False, sides=sides)
