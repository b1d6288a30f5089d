"""The events of a large job, recorded and replayed.

The events are made before the clock starts. Appending ends when the store has stopped: when every
event is written and synced. Seconds are those of the clock and, beside them, those of the processor
in all threads of this process, which other processes on the machine don't change.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    JobEvent,
)
from holdfast.eventstore.log_position import START
from holdfast.eventstore.replay import event_files, replay
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics

SUBTASKS = 10_000
"""Of a vertex; its last one cuts."""
_SNAPSHOT_EVERY = 1_000
_SNAPSHOT = bytes(range(256)) * 4


@dataclass(frozen=True)
class Round:
    """One log, written and read.

    Attributes:
        events: how many there were.
        handed_over: seconds until the last event was handed over.
        slowest: seconds that the slowest hand-over took.
        appended: seconds until all were on disk.
        appended_busy: of the processor, meanwhile.
        replayed: seconds to read them all.
        replayed_busy: of the processor, meanwhile.
        bytes: the size of all files.
    """

    events: int
    handed_over: float
    slowest: float
    appended: float
    appended_busy: float
    replayed: float
    replayed_busy: float
    bytes: int


def measure(directory: Path, count: int, rounds: int) -> list[Round]:
    """Writes and reads a log again and again, the first time uncounted.

    Args:
        directory: for the log; it doesn't exist.
        count: how many events.
        rounds: how many count.

    Raises:
        RuntimeError: when what is read is not what was written.
    """
    events = list(islice(_events(), count))
    return [_round(directory, events) for _ in range(rounds + 1)][1:]


def _events() -> Iterator[JobEvent]:
    number = 0
    while True:
        vertex_id = JobVertexID(f"{number:032x}")
        output = OutputID(IntermediateDataSetID(f"{number:064x}"), "00000001")
        yield ExecutionJobVertexInitialized(vertex_id, SUBTASKS, output.dataset_id)
        for subtask in range(SUBTASKS):
            snapshot = _SNAPSHOT if subtask % _SNAPSHOT_EVERY == 0 else None
            metrics = PartitionMetrics(10_000_000 + subtask, subtask)
            yield ExecutionVertexFinished(vertex_id, subtask, 0, output, metrics, snapshot)
        number += 1


def _round(directory: Path, events: list[JobEvent]) -> Round:
    # What exists of events before the clock starts is not the store's doing.
    gc.collect()
    gc.freeze()
    store = JobEventStore(directory, 1, START)
    busy, started, slowest, before = time.process_time(), time.perf_counter(), 0.0, 0.0
    for event in events:
        before = time.perf_counter()
        cut = type(event) is ExecutionVertexFinished and event.subtask == SUBTASKS - 1
        store.write_event(event, cut)
        slowest = max(slowest, time.perf_counter() - before)
    handed_over = time.perf_counter() - started
    store.stop()
    appended, appended_busy = time.perf_counter() - started, time.process_time() - busy
    size = sum(path.stat().st_size for path in event_files(directory).values())
    busy, started = time.process_time(), time.perf_counter()
    found = replay(directory)
    replayed, replayed_busy = time.perf_counter() - started, time.process_time() - busy
    gc.unfreeze()
    if list(found.events) != events:
        raise RuntimeError(f"{len(found.events)} of {len(events)} events came back")
    shutil.rmtree(directory)
    return Round(
        len(events),
        handed_over,
        slowest,
        appended,
        appended_busy,
        replayed,
        replayed_busy,
        size,
    )
