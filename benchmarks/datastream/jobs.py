"""The same three jobs over a cached stream and over a cached RDD, in turn."""

from __future__ import annotations

import gc
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.datastream.session import PARALLELISM
from holdfast import Environment, NumberSequenceSource

JOBS = 3
Timings = dict[str, list[list[float]]]
"""Seconds by way: for each counted round, one for each job."""


class Way(ABC):
    """A way of keeping integers as (i % 100, i), and of summing them up by the first of the two."""

    name: str

    @abstractmethod
    def keep(self, records: int) -> Any:
        """What is kept by the first job that needs it."""

    @abstractmethod
    def sum_up(self, kept: Any) -> list[tuple[int, int]]:
        """A job: the sums, in any order."""

    @abstractmethod
    def drop(self, kept: Any) -> None:
        """Forgets what was kept."""


class Streams(Way):
    """`DataStream.cache()`."""

    name = "Holdfast"

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def keep(self, records: int) -> Any:
        numbers = self._environment.from_source(NumberSequenceSource(0, records - 1))
        return numbers.map(lambda i: (i % 100, i)).cache()

    def sum_up(self, kept: Any) -> list[tuple[int, int]]:
        sums = kept.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
        with sums.execute_and_collect() as collected:
            return list(collected)

    def drop(self, kept: Any) -> None:
        kept.invalidate()


class CachedRDD(Way):
    """`RDD.cache()`."""

    name = "cached RDD"

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def keep(self, records: int) -> Any:
        numbers = self._context.range(records, numSlices=PARALLELISM)
        return numbers.map(lambda i: (i % 100, i)).cache()

    def sum_up(self, kept: Any) -> list[tuple[int, int]]:
        sums: list[tuple[int, int]] = kept.reduceByKey(lambda a, b: a + b, PARALLELISM).collect()
        return sums

    def drop(self, kept: Any) -> None:
        kept.unpersist(blocking=True)


def measure(
    spark: SparkSession, home: Path, records: int, rounds: int, tell: Callable[[str], None]
) -> Timings:
    """Runs every way once a round, the first round uncounted.

    Args:
        spark: the session of both.
        home: where results are kept.
        records: how many integers.
        rounds: how many rounds are counted.
        tell: is told how far it has got.

    Raises:
        AssertionError: when an answer is wrong.
    """
    configuration = {"intermediate-result-storage.directory": str(home / "kept")}
    with Environment(spark, config=configuration) as environment:
        environment.set_parallelism(PARALLELISM)
        ways = [Streams(environment), CachedRDD(spark)]
        timings: Timings = {way.name: [] for way in ways}
        for number in range(rounds + 1):
            # Each round starts with the other one, so that none always runs after a collection.
            for way in ways[:: 1 if number % 2 else -1]:
                tell(f"round {number} of {rounds}: {way.name}")
                gc.collect()
                spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
                seconds = _one_round(way, records)
                if number > 0:
                    timings[way.name].append(seconds)
    return timings


def _one_round(way: Way, records: int) -> list[float]:
    kept = None
    seconds = []
    for _ in range(JOBS):
        started = time.perf_counter()
        if kept is None:
            kept = way.keep(records)
        answer = way.sum_up(kept)
        seconds.append(time.perf_counter() - started)
        check(answer, records)
    way.drop(kept)
    return seconds


def check(answer: list[tuple[int, int]], records: int) -> None:
    """Raises unless these are the sums.

    Args:
        answer: the sums, in any order.
        records: how many integers they are of.

    Raises:
        AssertionError: when they aren't.
    """
    assert len(answer) == min(100, records), f"{len(answer)} keys"
    assert sum(total for _, total in answer) == records * (records - 1) // 2, "another sum"
