"""The job master's tracker, simulated at the size of a cluster.

Times are of this process on one core. What a tracker is handed (the ids and infos of partitions) is
made before the clock starts; what it hands back is made while the clock runs. Memory is whatever is
still alive once all partitions are tracked and the caller has dropped what it handed in.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from benchmarks.figure import Figure
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.job_master_partition_tracker import JobMasterPartitionTracker
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

EXECUTORS = 10_000
PARTITIONS = 1_000_000
PARTITIONS_OF_AN_OUTPUT = 1_000
OUTPUTS_OF_A_JOB = 10
SMALL = 10_000

RATE = 300_000
BYTES = 400
GROWTH = 1.5
REPEATS = 5

Infos = list[TaskExecutorPartitionInfo]


@dataclass(frozen=True)
class _Job:
    """A job, and the outputs it has: for each the partitions, in the order in which they end."""

    job_id: JobID
    outputs: list[Infos]

    def partitions(self) -> Infos:
        return [info for output in self.outputs for info in output]

    def ids(self) -> list[ResultPartitionID]:
        return [info.partition_id for info in self.partitions()]

    def datasets(self) -> list[OutputID]:
        return [output[0].partition_id.output for output in self.outputs]


class _JobMaster:
    """The job master's tracker: partition by partition the executors take turns."""

    name = "job master"

    def __init__(self, executors: int) -> None:
        self.tracker = JobMasterPartitionTracker()
        self.executors = [f"executor-{number:05}" for number in range(executors)]
        for executor_id in self.executors:
            self.tracker.executor_registered(executor_id)
        self.turn = 0

    def track(self, job: _Job) -> None:
        start, executors, turn = self.tracker.start_tracking_partition, self.executors, self.turn
        for output in job.outputs:
            for info in output:
                start(job.job_id, executors[turn], info)
                turn = turn + 1 if turn + 1 < len(executors) else 0
        self.turn = turn

    def promote(self, job: _Job, ids: list[ResultPartitionID]) -> None:
        self.tracker.promote_job_partitions(job.job_id, ids)

    def release_ids(self, ids: list[ResultPartitionID]) -> None:
        self.tracker.stop_tracking_and_release_job_partitions(ids)

    def release_job(self, job_id: JobID) -> None:
        self.tracker.stop_tracking_partitions_for(job_id)

    def release_datasets(self, outputs: list[OutputID]) -> None:
        self.tracker.stop_tracking_and_release_cluster_outputs(outputs)


def _jobs(partitions: int) -> Iterator[_Job]:
    """Jobs with so many partitions in all."""
    size = PARTITIONS_OF_AN_OUTPUT
    for first in range(0, partitions // size, OUTPUTS_OF_A_JOB):
        names = [
            OutputID(IntermediateDataSetID(f"{number:064x}"), "00000001")
            for number in range(first, first + OUTPUTS_OF_A_JOB)
        ]
        yield _Job(JobID(f"{first:032x}"), [_infos(output, size) for output in names])


def _infos(output: OutputID, size: int) -> Infos:
    return [
        TaskExecutorPartitionInfo(
            ResultPartitionID(output, index), PartitionMetrics(10_000_000 + index, index), size
        )
        for index in range(size)
    ]


@contextmanager
def _without_collector() -> Iterator[None]:
    """What the infos of a million partitions cost the collector is not the trackers' doing."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _seconds(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def _rates(side: _JobMaster, jobs: list[_Job]) -> dict[str, float]:
    """Operations a second, all partitions of all jobs in each."""
    count = sum(len(output) for job in jobs for output in job.outputs)
    ids = [(job, job.ids()) for job in jobs]
    datasets = [output for job in jobs for output in job.datasets()]

    def track() -> None:
        for job in jobs:
            side.track(job)

    def promote() -> None:
        for job, own in ids:
            side.promote(job, own)

    def release_ids() -> None:
        for _, own in ids:
            side.release_ids(own)

    def release_jobs() -> None:
        for job in jobs:
            side.release_job(job.job_id)

    seconds = {"track": _seconds(track), "promote": _seconds(promote)}
    seconds["release by dataset"] = _seconds(lambda: side.release_datasets(datasets))
    track()
    seconds["release by ids"] = _seconds(release_ids)
    track()
    seconds["release by job"] = _seconds(release_jobs)
    return {what: count / taken for what, taken in seconds.items()}


def _bytes_a_partition(make: Callable[[], _JobMaster], partitions: int) -> float:
    """Everything that the tracker keeps alive, ids and executors included, for one partition."""
    gc.collect()
    tracemalloc.start()
    try:
        side = make()
        for job in _jobs(partitions):
            side.track(job)
            del job
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return taken / partitions


def _release_of_one(side: _JobMaster, jobs: list[_Job]) -> tuple[float, float]:
    """The seconds that the release of one job's, and of one job's datasets', partitions takes."""
    for job in jobs:
        side.track(job)
    of_job, of_datasets = [], []
    last = jobs[-1]
    for _ in range(REPEATS):
        of_job.append(_seconds(lambda: side.release_job(last.job_id)))
        side.track(last)
        side.promote(last, last.ids())
        of_datasets.append(_seconds(lambda: side.release_datasets(last.datasets())))
        side.track(last)
    return min(of_job), min(of_datasets)


def measure(
    partitions: int = PARTITIONS, executors: int = EXECUTORS, memory: bool = True
) -> list[Figure]:
    """Simulates the tracker.

    Args:
        partitions: how many in all; a multiple of 10,000.
        executors: how many there are.
        memory: whether to measure the memory too, in a pass of its own that takes longer.

    Returns:
        The figures.
    """
    jobs = list(_jobs(partitions))
    name = _JobMaster.name
    with _without_collector():
        figures = [
            Figure(f"{name}: {what}", (rate,), "partitions/s", RATE, True)
            for what, rate in _rates(_JobMaster(executors), jobs).items()
        ]
        few = _release_of_one(_JobMaster(executors), jobs[: SMALL // len(jobs[0].partitions())])
        many = _release_of_one(_JobMaster(executors), jobs)
        for what, small, large in zip(("a job", "its datasets"), few, many, strict=True):
            what = f"{name}: release of {what}, of {partitions:,} / of {SMALL:,} partitions"
            figures.append(Figure(what, (large / small,), "ratio", GROWTH, False))
    del jobs
    if memory:
        taken = _bytes_a_partition(partial(_JobMaster, executors), partitions)
        figures.append(Figure(f"{name}: memory of a partition", (taken,), "bytes", BYTES, False))
    return figures
