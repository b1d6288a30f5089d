"""Events, and what can be read back of a log whatever became of its files. No threads."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.eventstore.event_file import HEADER_SIZE, EventFileName
from holdfast.eventstore.event_file_writer import EventFileWriter
from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.pending_events import PendingEvents
from holdfast.eventstore.replay import event_files, replay
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics

VERTEX = JobVertexID("0f")
OUTPUT = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")


def finished(subtask: int) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(VERTEX, subtask, 0)


def record(
    directory: Path,
    events: list[JobEvent],
    epoch: int = 1,
    after: LogPosition = START,
    file_size: int = 1 << 20,
) -> None:
    pending = PendingEvents(epoch, after, file_size)
    for event in events:
        pending.append(event)
    files = EventFileWriter(directory, epoch)
    files.write(pending.take())
    files.close()


def record_ends(data: bytes) -> list[int]:
    """Where each record of a whole file ends."""
    at, ends = HEADER_SIZE, []
    while at < len(data):
        at += int.from_bytes(data[at : at + 4], "little") + 8
        ends.append(at)
    assert at == len(data)
    return ends


# -- events ----------------------------------------------------------------------------------------

METRICS = PartitionMetrics(3, 2)
BEGUN, RESET = ExecutionJobVertexInitialized(VERTEX, 1), ExecutionVertexReset(VERTEX, (0,))
LONG, MOST = JobVertexID("a" * 255), (1 << 31) - 1
# Each kind with its extremes, no two of them equal: what is equal is the same.
ALL_EVENTS: list[JobEvent] = [
    BEGUN,
    ExecutionJobVertexInitialized(LONG, MOST + 1, OUTPUT.dataset_id, "é\0", OUTPUT, bytes(300)),
    ExecutionJobVertexInitialized(VERTEX, 1, OUTPUT.dataset_id, "s", None, b""),
    ExecutionVertexFinished(LONG, MOST, MOST, OUTPUT, PartitionMetrics(0, (1 << 63) - 1), b"\1"),
    ExecutionVertexFinished(VERTEX, 1, 2, OUTPUT, METRICS),
    ExecutionVertexReset(LONG, (0, MOST, 7)),
    *map(JobFinished, JobStatus),
    *map(finished, range(30)),
]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of all events in three files."""
    directory = tmp_path_factory.mktemp("log")
    record(directory, ALL_EVENTS, file_size=1000)
    assert len(event_files(directory)) == 3
    return directory


def test_a_whole_log_gives_all_events_in_order(log: Path) -> None:
    found = replay(log)
    assert list(found.events) == ALL_EVENTS
    assert found.position.events == len({*ALL_EVENTS}) == len(ALL_EVENTS)
    assert (found.epochs, found.newest_epoch, found.damage) == (((1, len(ALL_EVENTS)),), 1, ())


def test_an_id_that_no_record_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 255 digits"):
        record(tmp_path, [ExecutionVertexFinished(JobVertexID("a" * 256), 0, 0)])


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        *((BEGUN, {"parallelism": each}) for each in (0, (1 << 31) + 1)),
        *((finished(0), {"subtask": each}) for each in (-1, 1 << 31)),
        *((each, {"output": OUTPUT}) for each in (BEGUN, finished(0))),
        (finished(0), {"metrics": METRICS}),
        *((RESET, {"subtasks": each}) for each in ((), (0, -1))),
    ],
)
def test_an_event_that_makes_no_sense_can_t_be_made(event: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(event, **changes)


# -- a log that was damaged ------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=4 * settings().max_examples)
def test_a_log_damaged_anywhere_gives_what_is_before(log: Path, data: st.DataObject) -> None:
    """Bytes are changed, cut off or lost, records are swapped or doubled, a file is gone."""
    name, path = data.draw(st.sampled_from(list(event_files(log).items())))
    whole = path.read_bytes()
    ends = record_ends(whole)
    cuts = st.sampled_from([0, HEADER_SIZE, *ends]) | st.integers(0, len(whole))
    at, until, first, last = (data.draw(cuts) for _ in range(4))
    put = data.draw(st.binary(max_size=64) | st.just(whole[first:last]))
    changed = whole[:at] + put + whole[max(at, until) :]
    if changed:
        path.write_bytes(changed)
    else:
        path.unlink()
    found = replay(log)
    path.write_bytes(whole)
    same = takewhile(lambda pair: pair[0] == pair[1], zip(whole, changed, strict=False))
    intact = len(list(same))
    certain = name.first + sum(end <= intact for end in ends)
    assert list(found.events) == ALL_EVENTS[: len(found.events)]
    assert len(found.events) >= certain
    if intact < len(whole):
        assert len(found.events) == certain
        assert found.damage or whole.startswith(changed)


def test_a_file_of_another_log_does_not_count(tmp_path: Path) -> None:
    for place, offset in (("here", 0), ("there", 100)):
        record(tmp_path / place, [finished(offset + each) for each in range(40)], file_size=600)
    second = list(event_files(tmp_path / "here"))[1]
    (tmp_path / "there" / str(second)).replace(tmp_path / "here" / str(second))
    found = replay(tmp_path / "here")
    assert list(found.events) == [finished(each) for each in range(second.first)]
    assert any("another log" in each for each in found.damage)


def test_records_of_a_later_form_end_the_log(tmp_path: Path) -> None:
    record(tmp_path, [finished(0)])
    (path,) = event_files(tmp_path).values()
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    found = replay(tmp_path)
    assert found.events == () and "version 2, expected 1" in found.damage[0]


def test_what_is_no_log_has_no_events(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for directory, damaged in ((tmp_path, 0), (tmp_path / "none", 0), (tmp_path / "file", 1)):
        found = replay(directory)
        assert (found.events, found.position, found.newest_epoch) == ((), START, 0)
        assert len(found.damage) == damaged
    record(tmp_path, [finished(0)])
    for name in ("epoch", "2-0-17-1.events", f"{EventFileName(2, 0, 1, 1)}~"):
        (tmp_path / name).write_bytes(b"7")
    (tmp_path / str(EventFileName(2, 0, 1, 1))).mkdir()
    found = replay(tmp_path)
    assert (found.events, found.newest_epoch) == ((finished(0),), 2)


# -- drivers that come and go ----------------------------------------------------------------------


@dataclass
class Driver:
    """A start of the job, which may be stale without knowing."""

    epoch: int
    directory: Path
    pending: PendingEvents

    def flush(self) -> None:
        # As the files' writer does, without its look for newer epochs: it came too early.
        for block in self.pending.take():
            with (self.directory / str(block.name)).open("ab") as file:
                file.write(block.data)


@given(st.data())
def test_however_drivers_come_and_go_the_log_is_what_the_newest_one_knows(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("drivers")
    drivers: list[Driver] = []
    known: list[tuple[int, JobEvent]] = []
    subtasks = iter(range(1000))

    def take_over(late: bool = False) -> None:
        nonlocal known
        found = replay(directory)
        # The newest one's events, up to where a crash cut them off; never those of others.
        assert list(found.events) == [event for _, event in known[: len(found.events)]]
        from_scratch = data.draw(st.sampled_from([False, False, False, True]))
        epoch = max([found.newest_epoch, *(each.epoch for each in drivers)]) + 1
        after = START if from_scratch else found.position
        driver = Driver(epoch, directory, PendingEvents(epoch, after, 200))
        if late:
            # It took its epoch, and was paused before it wrote anything.
            drivers.insert(0, driver)
            take_over()
        else:
            known = [] if from_scratch else known[: len(found.events)]
            drivers.append(driver)
            driver.flush()

    take_over()
    steps = ["take over", "late", "event", "event", "event", "cut", "crash"]
    for step in data.draw(st.lists(st.sampled_from(steps), max_size=25)):
        if step in ("take over", "late"):
            take_over(late=step == "late")
        elif step == "crash":
            path = list(event_files(directory).values())[-1]
            os.truncate(path, data.draw(st.integers(0, path.stat().st_size)))
            drivers.pop()
            take_over()
        else:
            driver = data.draw(st.sampled_from(drivers))
            if step == "cut":
                driver.pending.cut()
            else:
                event = finished(next(subtasks))
                driver.pending.append(event)
                if driver is drivers[-1]:
                    known.append((driver.epoch, event))
            driver.flush()
        found = replay(directory)
        by_epoch = chain.from_iterable([epoch] * count for epoch, count in found.epochs)
        assert list(zip(by_epoch, found.events, strict=True)) == known
