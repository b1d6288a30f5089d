"""Plain Spark and an attached session of the same Spark, measured in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

import holdfast


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
        self, step: Callable[[SparkSession], object], rounds: int, warm_ups: int = 1
    ) -> tuple[list[float], list[float]]:
        """How long a step takes on each side, by turns, in seconds.

        Args:
            step: given a session.
            rounds: that count.
            warm_ups: that don't.
        """
        plain, attached = [], []
        for number in range(-warm_ups, rounds):
            pair = [(plain, self.plain), (attached, self.attached)]
            # Whoever comes second finds files and classes warm.
            for times, session in pair if number % 2 else reversed(pair):
                taken = seconds(lambda session=session: step(session))
                if number >= 0:
                    times.append(taken)
        return plain, attached


def seconds(step: Callable[[], object]) -> float:
    """How long something takes."""
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


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
