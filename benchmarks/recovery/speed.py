"""How fast jobs are with recovery: where nothing fails, and where a driver was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import tpch
from benchmarks.cache.session import start
from benchmarks.figure import Figure
from benchmarks.recovery import killed, overhead


def measure_overhead(
    home: Path,
    data: Path,
    rounds: int,
    progress: Callable[[str], None],
    queries: Sequence[str] | None = None,
) -> list[Figure]:
    """Recovery on against plain Spark; see `overhead.measure`.

    Args:
        home: for everything that is written.
        data: the directory of TPC-H's tables.
        rounds: how many are counted.
        progress: is told what goes on.
        queries: all 22 unless told.
    """
    spark = start(home)
    try:
        tpch.register(spark, data)
        return overhead.measure(spark, home, queries or tuple(tpch.QUERIES), rounds, progress)
    finally:
        spark.stop()


def measure_killed(
    home: Path,
    data: Path,
    rounds: int,
    progress: Callable[[str], None],
    queries: Sequence[str] | None = None,
) -> list[Figure]:
    """Second starts after kills; see `killed.measure`.

    Args:
        home: for everything that is written.
        data: the directory of TPC-H's tables.
        rounds: how many are counted.
        progress: is told what goes on.
        queries: the heavy ones unless told.
    """
    return killed.measure(data, home, queries or killed.HEAVY, rounds, progress)
