"""A job whose driver died late: how long its next start takes to know what is finished.

The partitions of every vertex are spread over the executors, of which some have not come back.
Measured is all that comes before the first vertex runs, but for the network: the log is replayed,
what each executor reports goes into the job master's tracker, and what need not run again is
decided; the store is open then, and the schedule made. What the simulated executors would send is
made before the clock starts.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figure import Figure
from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    JobEvent,
)
from holdfast.eventstore.log_position import START
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.runtime.job_master_partition_tracker import JobMasterPartitionTracker
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

SUBTASKS = 100_000
EXECUTORS = 1_000

_OF_A_VERTEX = 1_000
_LOST_EXECUTORS = 0.01
_SNAPSHOT = bytes(range(256)) * 4
_SECONDS = 5.0
_JOB = JobID("0f" * 16)
_SPLIT = "a thousand files"

Reports = dict[str, list[TaskExecutorPartitionInfo]]


@dataclass
class _Start:
    """One start of the job."""

    events_directory: Path
    epoch: int
    job_id: JobID = _JOB

    def check(self) -> None:
        """There is no other start."""

    def take_fresh_epoch(self) -> int:
        """The next number."""
        self.epoch += 1
        return self.epoch


@dataclass(frozen=True, slots=True)
class _Partition:
    partition_id: ResultPartitionID
    metrics: PartitionMetrics


@dataclass(frozen=True, slots=True)
class _Output:
    kept: KeptDataSet | None
    present: frozenset[int]


class _Executors:
    """Task executors that have registered: what each reports is tracked as it would come in."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._tracker = JobMasterPartitionTracker()
        self._partitions: list[_Partition] = []

    def register(self) -> None:
        """All report what they have."""
        start = self._tracker.start_tracking_partition
        for executor_id, infos in self._reports.items():
            self._tracker.executor_registered(executor_id)
            for info in infos:
                start(_JOB, executor_id, info)
        found = self._tracker.get_all_partition_with_metrics(_JOB)
        self._partitions = [
            _Partition(partition_id, metrics) for partition_id, (_, metrics) in found.items()
        ]

    def get_all_partition_with_metrics(self) -> Collection[_Partition]:
        """As the tracker had them."""
        return self._partitions

    def recovered_outputs(self) -> Mapping[OutputID, _Output]:
        """The same by outputs."""
        present: defaultdict[OutputID, set[int]] = defaultdict(set)
        for partition in self._partitions:
            present[partition.partition_id.output].add(partition.partition_id.index)
        return {output: _Output(None, frozenset(found)) for output, found in present.items()}


def measure(directory: Path, subtasks: int, executors: int, rounds: int) -> list[Figure]:
    """Writes a log once, and recovers it again and again, the first time uncounted.

    Args:
        directory: for the log; it doesn't exist.
        subtasks: how many have finished.
        executors: how many had been there.
        rounds: how many count.

    Returns:
        The figures.

    Raises:
        RuntimeError: when what is recovered is not what is there.
    """
    store = JobEventStore(directory, 1, START)
    for event in _events(subtasks):
        store.write_event(event)
    if not store.stop():
        raise RuntimeError("the disk has not taken the log")
    reports = _reports(subtasks, executors)
    seconds = [_recovered(directory, reports, subtasks, epoch) for epoch in range(2, rounds + 3)]
    wall, busy = zip(*seconds[1:], strict=True)
    what = f"recovery of {subtasks:,} subtasks on {executors:,} executors"
    return [
        Figure(what, wall, "ms", _SECONDS * 1000, False),
        Figure(f"{what}: of the processor", busy, "ms", _SECONDS * 1000, False),
    ]


def _vertices(subtasks: int) -> Iterator[tuple[JobVertexID, OutputID, int]]:
    for number, first in enumerate(range(0, subtasks, _OF_A_VERTEX)):
        output = OutputID(IntermediateDataSetID(f"{number:064x}"), "00000001")
        yield JobVertexID(f"{number:032x}"), output, min(_OF_A_VERTEX, subtasks - first)


def _events(subtasks: int) -> Iterator[JobEvent]:
    for vertex_id, output, number in _vertices(subtasks):
        yield ExecutionJobVertexInitialized(
            vertex_id, number, output.dataset_id, _SPLIT, output, _SNAPSHOT
        )
        for subtask in range(number):
            metrics = PartitionMetrics(10_000_000 + subtask, subtask)
            yield ExecutionVertexFinished(vertex_id, subtask, 0, output, metrics)


def _reports(subtasks: int, executors: int) -> Reports:
    lost = int(executors * _LOST_EXECUTORS)
    reports: Reports = {f"executor-{number:05}": [] for number in range(lost, executors)}
    place = 0
    for _, output, number in _vertices(subtasks):
        for index in range(number):
            executor_id = f"executor-{place % executors:05}"
            place += 1
            if executor_id in reports:
                metrics = PartitionMetrics(10_000_000 + index, index)
                partition_id = ResultPartitionID(output, index)
                reports[executor_id].append(
                    TaskExecutorPartitionInfo(partition_id, metrics, number)
                )
    return reports


def _recovered(directory: Path, reports: Reports, subtasks: int, epoch: int) -> tuple[float, float]:
    copied = directory.with_name(f"{directory.name}-{epoch}")
    shutil.copytree(directory, copied)
    graph = [(output.dataset_id, number) for _, output, number in _vertices(subtasks)]
    there = sum(map(len, reports.values()))
    executors = _Executors(reports)
    # What the simulation has made before is no part of a driver's memory.
    gc.collect()
    gc.freeze()
    busy, started = time.process_time(), time.perf_counter()
    executors.register()
    recovery = JobRecovery(_Start(copied, epoch), executors)
    recovered = recovery.recover()
    partial = [recovery.partial(dataset_id, _SPLIT, number) for dataset_id, number in graph]
    taken = (time.perf_counter() - started) * 1e3, (time.process_time() - busy) * 1e3
    gc.unfreeze()
    recovery.close()
    finished = sum(len(vertex.finished) for vertex in recovered.vertices.values())
    to_run = sum(
        number if found is None else len(found.missing)
        for found, (_, number) in zip(partial, graph, strict=True)
    )
    if (finished, to_run) != (there, subtasks - there):
        raise RuntimeError(f"{finished} of {there} were found, and {to_run} are to run again")
    shutil.rmtree(copied)
    return taken
