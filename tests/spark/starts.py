"""Starts of a program whose jobs are recovered, one after the other, in one JVM.

A start is left in the middle of a job whose rows are taken one by one, as a driver leaves it that
was only cut off. `tests/chaos` kills drivers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast import Environment, JobExecutionResult
from holdfast.errors import HoldfastError

Query = Callable[[Any], Any]


class Starts(AbstractContextManager["Starts"]):
    """Starts in one session, with one configuration, over what the ones before have left."""

    def __init__(self, spark: SparkSession, home: Path, config: dict[str, Any]) -> None:
        self.spark, self.home, self.config = spark, home, config
        self._left: list[Any] = []
        self._started: list[Environment] = []

    def start(self, **changed: Any) -> Environment:
        """One more."""
        config = {
            "execution.batch.job-recovery.enabled": True,
            "execution.batch.job-recovery.min-vertex-input": 0,
            "high-availability.storageDir": (self.home / "ha").as_uri(),
            "intermediate-result-storage.directory": str(self.home / "store"),
            # A start that is only left, and not killed, would share what it has kept.
            "catalog.url": "none",
        }
        self._started.append(Environment(self.spark, config=config | self.config | changed))
        return self._started[-1]

    def leave(self, query: Query, **changed: Any) -> int:
        """Starts a query's job, and leaves it; how many outputs of tasks there are then."""
        rows = query(self.start(**changed)).toLocalIterator()
        next(rows)
        self._left.append(rows)
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        return len(self.outputs())

    def run(self, query: Query, **changed: Any) -> tuple[Counter[str], JobExecutionResult]:
        """Starts it, and takes all of its rows."""
        env = self.start(**changed)
        rows = Counter(map(repr, query(env).toLocalIterator()))
        assert env.last_job_result is not None
        return rows, env.last_job_result

    def plain_rows(self, query: Query) -> Counter[str]:
        """Those of plain Spark."""
        return Counter(map(repr, query(self.spark).collect()))

    def outputs(self) -> list[Path]:
        """The indices of what map tasks have left, and the rows of those that collect."""
        shuffles = self.home.glob("store/**/shuffles/*")
        return sorted(
            path for each in shuffles for path in each.iterdir() if path.suffix != ".data"
        )

    def lose(self, share: float, seed: str) -> int:
        """Loses some outputs; how many are left."""
        chance = random.Random(seed)
        for each in self.outputs():
            if chance.random() < share:
                # Data without an index is what a driver leaves that is killed between the two.
                each.unlink()
        return len(self.outputs())

    def files(self) -> list[Path]:
        """Those of finished partitions."""
        return list((self.home / "store").rglob("part-*.parquet"))

    def records(self) -> list[Path]:
        """Those of jobs that have not ended."""
        return list((self.home / "ha").glob("job-*"))

    def __exit__(self, *_: object) -> None:
        for each in self._left:
            with suppress(HoldfastError):
                each.close()
        for each in self._started:
            each.close()


def recovered_tasks(result: JobExecutionResult) -> int:
    """How many tasks were not run."""
    return result.vertices[-1].recovered_tasks or 0
