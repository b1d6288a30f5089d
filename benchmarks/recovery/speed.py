"""How fast jobs are with recovery: where nothing fails, and where a driver was killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import tpch
from benchmarks.cache.session import start
from benchmarks.figure import Figure
from benchmarks.recovery import killed, overhead
from benchmarks.recovery.session import Where, on_cluster


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
    fractions: Sequence[float] = killed.FRACTIONS,
) -> list[Figure]:
    """Second starts after kills, on this machine's cores; see `killed.measure`.

    Args:
        home: for everything that is written.
        data: the directory of TPC-H's tables.
        rounds: how many are counted.
        progress: is told what goes on.
        queries: the heavy ones unless told.
        fractions: of the task time, when programs are killed.
    """
    return killed.measure(data, home, queries or killed.HEAVY, rounds, progress, Where(), fractions)


def measure_killed_on_cluster(
    home: Path,
    data: Path,
    rounds: int,
    progress: Callable[[str], None],
    queries: Sequence[str] | None = None,
    fractions: Sequence[float] = killed.FRACTIONS,
) -> list[Figure]:
    """The same on a cluster of two workers, whose executors come up with each driver."""
    with on_cluster(home / "cluster") as where:
        return killed.measure(
            data,
            home,
            queries or killed.HEAVY,
            rounds,
            progress,
            where,
            fractions,
            killed.WORST_MARGIN,
        )
