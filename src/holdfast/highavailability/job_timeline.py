"""What each start of a job has produced, and when, from its events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
)
from holdfast.eventstore.replay import event_files, replay
from holdfast.highavailability.epochs import epoch_file
from holdfast.highavailability.job_directory import JobDirectory


@dataclass(frozen=True, slots=True)
class Span:
    """Some time.

    Attributes:
        begin: in seconds since 1970.
        end: likewise, no earlier.
    """

    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class VertexTimeline:
    """A vertex over all starts of its job. Starts are counted as they follow each other.

    Attributes:
        dataset: that it produces, in 64 digits; None for one that leaves nothing behind.
        parallelism: how many partitions it has; None where that wasn't decided.
        produced: for each start how many of the partitions that are there it has produced.
        spans: for each start when it has worked on it; None where it hasn't.
        lost: how many times a partition was lost after it had been produced.
    """

    dataset: str | None
    parallelism: int | None
    produced: tuple[int, ...]
    spans: tuple[Span | None, ...]
    lost: int

    @property
    def done(self) -> int:
        """How many partitions are there."""
        return sum(self.produced)


@dataclass(frozen=True, slots=True)
class StartTimeline:
    """A start of a job.

    Attributes:
        epoch: its epoch.
        begun: when, in seconds since 1970; None where that isn't known.
        last_event: when its last event was recorded; None where it has recorded none.
    """

    epoch: int
    begun: float | None
    last_event: float | None


@dataclass(frozen=True, slots=True)
class JobTimeline:
    """A job over all its starts that have recorded anything.

    Attributes:
        starts: in order.
        vertices: in the order in which they were decided.
        damage: what of the record can't be read, a line each.
    """

    starts: tuple[StartTimeline, ...]
    vertices: tuple[VertexTimeline, ...]
    damage: tuple[str, ...] = ()

    @property
    def whole(self) -> Span | None:
        """From the first start until the last event; None where neither is known."""
        begun = [each.begun for each in self.starts if each.begun is not None]
        ended = [each.last_event for each in self.starts if each.last_event is not None]
        moments = [*begun, *ended]
        return Span(min(moments), max(moments)) if moments else None


def job_timeline(directory: JobDirectory) -> JobTimeline:
    """What the events of a job say. Reads only; an event has the time of the file that it is in.

    Args:
        directory: the job's.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """
    log = replay(directory.events)
    epochs = tuple(dict.fromkeys(epoch for epoch, _ in log.epochs))
    times = _times(directory.events, len(log.events))
    last: dict[int, float] = {}
    position = 0
    for epoch, number in log.epochs:
        position += number
        if number and times:
            last[epoch] = times[position - 1]
    starts = tuple(
        StartTimeline(epoch, _written(epoch_file(directory.epochs, epoch)), last.get(epoch))
        for epoch in epochs
    )
    return JobTimeline(starts, vertex_timelines(log.events, log.epochs, times), log.damage)


def vertex_timelines(
    events: Sequence[JobEvent],
    epochs: Sequence[tuple[int, int]],
    times: Sequence[float] = (),
) -> tuple[VertexTimeline, ...]:
    """What each start has produced of each vertex.

    Args:
        events: of a job, in order.
        epochs: which start wrote them: its epoch, and how many events it wrote, in their order.
        times: when each event was recorded, in seconds since 1970; empty where that isn't known.
    """
    starts = {epoch: place for place, epoch in enumerate(dict.fromkeys(each for each, _ in epochs))}
    writers = [starts[epoch] for epoch, number in epochs for _ in range(number)]
    # Another start calls the same vertex otherwise; its dataset stays.
    keys: dict[str, str] = {}
    found: dict[str, _Vertex] = {}
    for place, (event, start) in enumerate(zip(events, writers, strict=False)):
        if isinstance(event, ExecutionJobVertexInitialized):
            dataset = None if event.dataset_id is None else event.dataset_id.hex
            keys[event.vertex_id.hex] = key = dataset or event.vertex_id.hex
            vertex = found.setdefault(key, _Vertex(len(starts)))
            vertex.dataset, vertex.parallelism = dataset, event.parallelism
        elif isinstance(event, (ExecutionVertexFinished, ExecutionVertexReset)):
            key = keys.get(event.vertex_id.hex, event.vertex_id.hex)
            vertex = found.setdefault(key, _Vertex(len(starts)))
            if isinstance(event, ExecutionVertexFinished):
                vertex.producers[event.subtask] = start
            else:
                gone = [vertex.producers.pop(each, None) for each in event.subtasks]
                vertex.lost += sum(each is not None for each in gone)
        else:
            continue
        if times:
            vertex.seen(start, times[place])
    return tuple(each.timeline() for each in found.values())


class _Vertex:
    def __init__(self, starts: int) -> None:
        self.dataset: str | None = None
        self.parallelism: int | None = None
        self.producers: dict[int, int] = {}
        self.lost = 0
        self._spans: list[Span | None] = [None] * starts

    def seen(self, start: int, moment: float) -> None:
        """Something of it was recorded."""
        span = self._spans[start]
        begin, end = (moment, moment) if span is None else (span.begin, span.end)
        self._spans[start] = Span(min(begin, moment), max(end, moment))

    def timeline(self) -> VertexTimeline:
        """All of it."""
        counts = [0] * len(self._spans)
        for start in self.producers.values():
            counts[start] += 1
        return VertexTimeline(
            self.dataset, self.parallelism, tuple(counts), tuple(self._spans), self.lost
        )


def _times(directory: Path, number: int) -> list[float]:
    """When each event was written: the time of its file; none where a file can't be looked at."""
    try:
        files = event_files(directory)
    except OSError:
        return []
    firsts: list[int] = []
    written: list[float] = []
    for name, path in files.items():
        moment = _written(path)
        # A later file may take the place of the end of an earlier one.
        while firsts and firsts[-1] >= name.first:
            firsts.pop()
            written.pop()
        if moment is not None:
            firsts.append(name.first)
            written.append(moment)
    if not firsts or firsts[0] > 0:
        return []
    return [written[bisect_right(firsts, place) - 1] for place in range(number)]


def _written(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None
