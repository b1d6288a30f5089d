"""What recovery costs a job that nobody kills: TPC-H's queries with it and on plain Spark."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks import tpch
from benchmarks.figure import Figure
from benchmarks.recovery.session import recovering

MEDIAN_TARGET = 1.10
WORST_TARGET = 1.4


def measure(
    spark: SparkSession,
    home: Path,
    queries: Sequence[str],
    rounds: int,
    progress: Callable[[str], None],
) -> list[Figure]:
    """Collects each query with recovery and without, in turn; the first round is not counted.

    Args:
        spark: a session in which TPC-H's tables are views.
        home: what is kept and recorded goes here.
        queries: names of queries.
        rounds: how many are counted.
        progress: is told what goes on.

    Returns:
        a figure for each query, then the median of all and the worst.

    Raises:
        AssertionError: when the answers differ.
    """
    figures = []
    with recovering(spark, home) as env:
        for name in queries:
            text = tpch.QUERIES[name]
            ways: list[Callable[[str], DataFrame]] = [spark.sql, env.sql]
            seconds: list[list[float]] = [[], []]
            answers: list[list[str]] = [[], []]
            for number in range(rounds + 1):
                # Neither way is always the first one.
                for way in (0, 1) if number % 2 else (1, 0):
                    gc.collect()
                    started = time.perf_counter()
                    rows = ways[way](text).collect()
                    if number:
                        seconds[way].append(time.perf_counter() - started)
                    answers[way] = sorted(map(repr, rows))
            assert answers[0] == answers[1], f"{name} gives other rows with recovery"
            result = env.last_job_result
            vertices = 0 if result is None else len(result.vertices) - 1
            plain, ours = map(statistics.median, seconds)
            figure = Figure(
                f"{name} with recovery / plain Spark",
                tuple(b / a for a, b in zip(*seconds, strict=True)),
                "ratio",
                WORST_TARGET,
                False,
                f"{ours:.2f} s / {plain:.2f} s, {vertices} cuts",
            )
            progress(f"{figure.what}: {figure.value:.2f}, {figure.sides}")
            figures.append(figure)
    ratios = tuple(figure.value for figure in figures)
    count = f"the medians of {len(figures)} queries"
    return [
        *figures,
        Figure("median of the queries", ratios, "ratio", MEDIAN_TARGET, False, count),
        Figure("worst of the queries", (max(ratios),), "ratio", WORST_TARGET, False, count),
    ]
