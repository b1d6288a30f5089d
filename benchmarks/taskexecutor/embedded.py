"""What the embedded task executor's book-keeping adds to the jobs of the cache benchmark."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from benchmarks.cache.keeping import FIRST_JOB, KEPT_ALONE
from benchmarks.cache.questions import FIRST, QUESTIONS, join
from holdfast import Environment
from holdfast.runtime import executor_outputs, executor_storage
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.partition_directory import PartitionDirectory
from holdfast.taskexecutor.applications import application_partitions
from holdfast.taskexecutor.outputs import staged_files

ALL_JOBS = "all jobs"
ALL_JOBS_AND_DISK = "all jobs, with the disk work"

Shares = dict[str, list[tuple[float, float]]]
"""By kind of job, for each round the seconds of book-keeping and those of the job."""

_STORAGE_CALLS = (
    *("stage", "publish", "discard", "end_job"),
    *("damage", "rewritten", "remove", "pin", "unpin", "hit"),
)
# What a storage that tracks nothing has to do as well: make a directory, read the footers of what
# tasks left in it, publish it with a manifest, look whether it is whole, remove it.
_DISK_WORK: tuple[tuple[Any, str], ...] = (
    *((PartitionDirectory, method) for method in ("open", "publish", "remove", "pin")),
    (staged_files, "found_partitions"),
    (application_partitions, "damage"),
    (executor_outputs, "damage"),
    (executor_storage, "rewritten_since"),
)


class _Stopwatch:
    """Sums the time inside functions; a call within another one counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._lock = threading.Lock()
        self._inside = threading.local()

    def timing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "now", False):
                return function(*args, **kwargs)
            self._inside.now = True
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                took = time.perf_counter() - started
                self._inside.now = False
                with self._lock:
                    self.seconds += took

        return timed


def measure(spark: SparkSession, home: Path, rounds: int) -> Shares:
    """Runs the jobs of the cache benchmark, the first round uncounted.

    Everything that jobs call of the storage counts, which is more than the task executor: the job
    master's own book-keeping as well. The disk work of any storage is taken off.

    Args:
        spark: with TPC-H's tables as views.
        home: for what is kept.
        rounds: how many count.
    """
    shares: Shares = defaultdict(list)
    keeping = {"intermediate-result-storage.directory": str(home)}
    with Environment(spark, keeping) as environment:
        # Every part of the environment has the same storage.
        storage: IntermediateResultStorage = environment._storage
        for number in range(rounds + 1):
            found = _round(spark, environment, storage)
            if number > 0:
                for kind, (booked, disk, job) in found.items():
                    shares[kind].append((booked - disk, job))
                booked, disk, jobs = (sum(each) for each in zip(*found.values(), strict=True))
                shares[ALL_JOBS].append((booked - disk, jobs))
                shares[ALL_JOBS_AND_DISK].append((booked, jobs))
    return dict(shares)


def _round(
    spark: SparkSession, environment: Environment, storage: IntermediateResultStorage
) -> dict[str, tuple[float, float, float]]:
    """For each job the seconds in the storage, those of them on the disk, and its own."""
    measured = {}

    def run(kind: str, job: Callable[[], object]) -> None:
        with _watched(storage) as (booking, disk):
            started = time.perf_counter()
            job()
            took = time.perf_counter() - started
        measured[kind] = (booking.seconds, disk.seconds, took)

    # The job that hands out the RDD keeps the table first, and the RDD is not run.
    run(KEPT_ALONE, lambda: environment.from_dataframe(join(spark)).cache().rdd)
    environment.invalidate_all()
    kept = environment.from_dataframe(join(spark)).cache()
    run(FIRST_JOB, lambda: FIRST.ask(kept))
    for question in QUESTIONS:
        run(question.name, functools.partial(question.ask, kept))
    environment.invalidate_all()
    return measured


@contextmanager
def _watched(storage: IntermediateResultStorage) -> Iterator[tuple[_Stopwatch, _Stopwatch]]:
    booking, disk = _Stopwatch(), _Stopwatch()
    watched = [(storage, name, booking) for name in _STORAGE_CALLS]
    watched += [(owner, name, disk) for owner, name in _DISK_WORK]
    patches = [
        patch.object(owner, name, watch.timing(getattr(owner, name)))
        for owner, name, watch in watched
    ]
    for each in patches:
        each.start()
    try:
        yield booking, disk
    finally:
        for each in reversed(patches):
            each.stop()
