"""Plain Spark and an attached session of the same Spark, measured in turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import holdfast
from tests.harness.process_tree import descendants


@dataclass
class Sides:
    """Two sessions of one Spark.

    Attributes:
        plain: PySpark's own.
        attached: whose DataFrames are Tables.
        config: that one's.
    """

    plain: SparkSession
    attached: SparkSession
    config: Mapping[str, object] = field(default_factory=dict)

    def begin_programs(self) -> None:
        """Goes on with new sessions: what was attached has ended."""
        holdfast.detach(self.attached)
        self.plain = self.plain.newSession()
        self.attached = holdfast.attach(self.plain.newSession(), self.config)

    def ratios(
        self,
        step: Callable[[SparkSession], object],
        rounds: int,
        warm_ups: int = 1,
        measured: Callable[[Callable[[], object]], float] | None = None,
    ) -> tuple[list[float], list[float]]:
        """What a step takes on each side, by turns, in seconds.

        Args:
            step: given a session.
            rounds: that count.
            warm_ups: that don't.
            measured: what a step takes; how long, by default.
        """
        measured = measured or seconds
        plain, attached = [], []
        for number in range(-warm_ups, rounds):
            pair = [(plain, self.plain), (attached, self.attached)]
            # Whoever comes second finds files and classes warm.
            for times, session in pair if number % 2 else reversed(pair):
                taken = measured(lambda session=session: step(session))
                if number >= 0:
                    times.append(taken)
        return plain, attached


def seconds(step: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def cpu_seconds(step: Callable[[], object]) -> float:
    """What something takes of the processors: in this process, in Spark's and in its workers."""
    started = _of_processors()
    step()
    return _of_processors() - started


def _of_processors() -> float:
    ticks = 0
    for pid in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            # Its own, and that of children that have ended.
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def sides(home: Path, more: Mapping[str, object] | None = None) -> Iterator[Sides]:
    """Starts Spark, and attaches one session.

    Args:
        home: an empty directory.
        more: configures the attached one beside its storage directory.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench-attach")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        config = {"intermediate-result-storage.directory": str(home / "kept"), **(more or {})}
        attached = holdfast.attach(spark.newSession(), config)
        both = Sides(spark.newSession(), attached, config)
        yield both
        holdfast.detach(both.attached)
    finally:
        spark.stop()
