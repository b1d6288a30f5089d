"""What each start of a job has produced, from its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
)
from holdfast.eventstore.replay import event_files, replay
from holdfast.highavailability.job_directory import JobDirectory


@dataclass(frozen=True, slots=True)
class VertexTimeline:
    """A vertex over all starts of its job.

    Attributes:
        dataset: that it produces, in 64 digits; None for one that leaves nothing behind.
        parallelism: how many partitions it has; None where that wasn't decided.
        produced: for each start, by its place among these, how many of the partitions that are
            there it has produced.
        lost: how many times a partition was lost after it had been produced.
    """

    dataset: str | None
    parallelism: int | None
    produced: tuple[int, ...]
    lost: int

    @property
    def done(self) -> int:
        """How many partitions are there."""
        return sum(self.produced)


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """A job over all its starts that have recorded anything.

    Attributes:
        epochs: of the starts, in order.
        last_events: for each of them when its last event was recorded; None where that can't be
            told.
        vertices: in the order in which they were decided.
        damage: what of the record can't be read, a line each.
    """

    epochs: tuple[int, ...]
    last_events: tuple[datetime | None, ...]
    vertices: tuple[VertexTimeline, ...]
    damage: tuple[str, ...] = ()


def job_timeline(directory: JobDirectory) -> JobTimeline:
    """What the events of a job say. Reads only.

    Args:
        directory: the job's.
    """
    log = replay(directory.events)
    epochs = tuple(dict.fromkeys(epoch for epoch, _ in log.epochs))
    written = _last_written(directory)
    return JobTimeline(
        epochs,
        tuple(written.get(epoch) for epoch in epochs),
        vertex_timelines(log.events, log.epochs),
        log.damage,
    )


def vertex_timelines(
    events: Sequence[JobEvent], epochs: Sequence[tuple[int, int]]
) -> tuple[VertexTimeline, ...]:
    """What each start has produced of each vertex.

    Args:
        events: of a job, in order.
        epochs: which start wrote them: its epoch, and how many events it wrote, in their order.
    """
    starts = {epoch: place for place, epoch in enumerate(dict.fromkeys(each for each, _ in epochs))}
    writers = [starts[epoch] for epoch, number in epochs for _ in range(number)]
    # Another start calls the same vertex otherwise; its dataset stays.
    keys: dict[str, str] = {}
    parallelism: dict[str, int | None] = {}
    producers: dict[str, dict[int, int]] = {}
    lost: dict[str, int] = {}
    datasets: dict[str, str | None] = {}
    for event, start in zip(events, writers, strict=False):
        match event:
            case ExecutionJobVertexInitialized():
                dataset = None if event.dataset_id is None else event.dataset_id.hex
                key = dataset or event.vertex_id.hex
                keys[event.vertex_id.hex] = key
                parallelism[key], datasets[key] = event.parallelism, dataset
                producers.setdefault(key, {})
            case ExecutionVertexFinished():
                key = keys.get(event.vertex_id.hex, event.vertex_id.hex)
                producers.setdefault(key, {})[event.subtask] = start
            case ExecutionVertexReset():
                key = keys.get(event.vertex_id.hex, event.vertex_id.hex)
                found = producers.setdefault(key, {})
                gone = [each for each in event.subtasks if found.pop(each, None) is not None]
                lost[key] = lost.get(key, 0) + len(gone)
    return tuple(
        VertexTimeline(
            datasets.get(key),
            parallelism.get(key),
            tuple(sum(each == start for each in found.values()) for start in starts.values()),
            lost.get(key, 0),
        )
        for key, found in producers.items()
    )


def _last_written(directory: JobDirectory) -> dict[int, datetime]:
    written: dict[int, datetime] = {}
    try:
        files = event_files(directory.events)
    except OSError:
        return written
    for name, path in files.items():
        try:
            modified = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        except OSError:
            continue
        written[name.epoch] = max(modified, written.get(name.epoch, modified))
    return written
