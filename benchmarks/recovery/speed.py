"""How fast jobs are with recovery: where nothing fails, and where a driver was killed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import tpch
from benchmarks.cache.session import start
from benchmarks.figure import Figure
from benchmarks.recovery import killed, overhead


def measure_overhead(
    output: Path,
    data: Path,
    rounds: int,
    progress: Callable[[str], None],
    queries: Sequence[str] = tuple(tpch.QUERIES),
) -> list[Figure]:
    """Recovery on against plain Spark, for TPC-H's queries; see `overhead.measure`."""
    with tempfile.TemporaryDirectory(dir=output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        spark = start(home)
        try:
            tpch.register(spark, data)
            return overhead.measure(spark, home, queries, rounds, progress)
        finally:
            spark.stop()


def measure_killed(
    output: Path,
    data: Path,
    rounds: int,
    progress: Callable[[str], None],
    queries: Sequence[str] = killed.HEAVY,
) -> list[Figure]:
    """Second starts after kills, for heavy queries; see `killed.measure`."""
    with tempfile.TemporaryDirectory(dir=output, prefix="run-") as temporary:
        return killed.measure(data, Path(temporary).resolve(), queries, rounds, progress)
