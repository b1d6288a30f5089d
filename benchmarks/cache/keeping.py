"""Measures keeping and asking, way by way, in turn."""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from collections.abc import Callable

from pyspark.sql import SparkSession

from benchmarks.cache.questions import FIRST, QUESTIONS, join
from benchmarks.cache.ways import Way

Timings = dict[str, dict[str, list[float]]]
"""Seconds by measure, by way, one for each round."""

FIRST_JOB = "first job"
KEPT_ALONE = "kept alone"


def measure(
    spark: SparkSession, ways: list[Way], rounds: int, progress: Callable[[str], None]
) -> Timings:
    """Runs every way once a round, the first round uncounted.

    Raises:
        AssertionError: when two ways give different answers.
    """
    timings: Timings = defaultdict(lambda: defaultdict(list))
    answers: dict[str, object] = {}
    for number in range(rounds + 1):
        # Each round starts with another way, so that none always runs after the same one.
        turn = ways[number % len(ways) :] + ways[: number % len(ways)]
        for way in turn:
            progress(f"round {number} of {rounds}: {way.name}")
            for measure_name, seconds, answer in _one_round(spark, way):
                if number > 0:
                    timings[measure_name][way.name].append(seconds)
                if answer is not None and answers.setdefault(measure_name, answer) != answer:
                    raise AssertionError(f"{way.name} answers {measure_name!r} differently")
    return {name: dict(by_way) for name, by_way in timings.items()}


def _one_round(spark: SparkSession, way: Way) -> list[tuple[str, float, object]]:
    measured: list[tuple[str, float, object]] = []
    _collect_garbage(spark)
    started = time.perf_counter()
    way.materialize(way.keep(join(spark)))
    measured.append((KEPT_ALONE, time.perf_counter() - started, None))
    way.drop()
    _collect_garbage(spark)
    started = time.perf_counter()
    kept = way.keep(join(spark))
    answer = FIRST.ask(kept)
    measured.append((FIRST_JOB, time.perf_counter() - started, _comparable(answer)))
    for question in QUESTIONS:
        started = time.perf_counter()
        answer = question.ask(kept)
        measured.append((question.name, time.perf_counter() - started, _comparable(answer)))
    way.drop()
    return measured


def _comparable(answer: object) -> object:
    return sorted(map(repr, answer)) if isinstance(answer, list) else answer


def _collect_garbage(spark: SparkSession) -> None:
    gc.collect()
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
