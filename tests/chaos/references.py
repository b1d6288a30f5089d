"""What plain Spark gives: the rows to compare with."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from tests.chaos.driver import perform
from tests.chaos.driver_process import DriverProcess
from tests.chaos.orders import Orders
from tests.chaos.places import Place
from tests.chaos.programs import Job, Program
from tests.chaos.rows import Rows, data_files, read_rows

_SECONDS = 600


class References:
    """The rows of each job by plain Spark, computed once: in a session, or in one of a place."""

    def __init__(
        self, home: Path, data: Path, place: Place, spark: SparkSession | None = None
    ) -> None:
        self._home = home
        self._data = data
        self._place = place
        self._spark = spark
        self._rows: dict[str, Rows] = {}

    def compute(self, programs: Sequence[Program]) -> None:
        """Runs the jobs of programs, those that have not been run yet."""
        jobs = {_name(job): job for program in programs for job in program.jobs}
        missing = [
            replace(job, mode="overwrite", target=name)
            for name, job in jobs.items()
            if name not in self._rows
        ]
        if not missing:
            return
        self._home.mkdir(parents=True, exist_ok=True)
        diary = self._home / "diary"
        settings = self._place.spark()
        orders = Orders(tuple(missing), self._data, self._home, diary, settings, None)
        if self._spark is not None:
            perform(orders, self._spark.newSession())
        else:
            with DriverProcess(orders, self._home, "plain", self._place.environment()) as driver:
                assert driver.wait(_SECONDS) == 0, driver.said()
        for job in missing:
            self._rows[job.target] = read_rows(self._home / job.target, job.format)
            assert self._rows[job.target], f"{job.target} has no rows to lose"

    def rows(self, job: Job) -> Rows:
        """The rows of a job."""
        return self._rows[_name(job)]

    def place_before(self, job: Job, target: Path) -> None:
        """Makes what a job's target holds before the program starts."""
        source = self._home / _name(job)
        for copy in range(job.copies_before):
            for path in data_files(source):
                place = target / path.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place.with_name(f"before-{copy}-{place.name}"))


def _name(job: Job) -> str:
    return f"{job.name}-{job.format}{''.join(f'-{column}' for column in job.partition_by)}"
