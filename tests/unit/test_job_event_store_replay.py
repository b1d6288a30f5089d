"""Events, and what can be read back of a log whatever became of its files. No threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.eventstore.event_file import HEADER_SIZE, EventFileName, checked_epoch
from holdfast.eventstore.event_file_writer import EventFileWriter
from holdfast.eventstore.events import (
    SNAPSHOT_LIMIT,
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.pending_events import PendingEvents
from holdfast.eventstore.record_codec import RecordDecoder, RecordEncoder
from holdfast.eventstore.replay import event_files, replay
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics

HEX = st.text("0123456789abcdef", min_size=1, max_size=255)
VERTICES = HEX.map(JobVertexID)
COUNTS = st.integers(0, (1 << 31) - 1)
SIZES = st.integers(0, (1 << 63) - 1)
DATASETS = st.binary(min_size=32, max_size=32).map(bytes.hex).map(IntermediateDataSetID)
OUTPUTS = st.builds(OutputID, DATASETS, st.binary(min_size=4, max_size=4).map(bytes.hex))
SNAPSHOTS = st.none() | st.binary(max_size=300)
EVENTS: st.SearchStrategy[JobEvent] = st.one_of(
    st.builds(
        lambda vertex_id, parallelism, output, named, split, snapshot: (
            ExecutionJobVertexInitialized(
                vertex_id,
                parallelism,
                None if output is None else output.dataset_id,
                split,
                output if named else None,
                snapshot,
            )
        ),
        VERTICES,
        st.integers(1, 1 << 31),
        st.none() | OUTPUTS,
        st.booleans(),
        st.text(),
        SNAPSHOTS,
    ),
    st.builds(ExecutionVertexFinished, VERTICES, COUNTS, COUNTS, coordinator_snapshot=SNAPSHOTS),
    st.builds(
        ExecutionVertexFinished,
        VERTICES,
        COUNTS,
        COUNTS,
        OUTPUTS,
        st.builds(PartitionMetrics, SIZES, SIZES),
        SNAPSHOTS,
    ),
    st.builds(ExecutionVertexReset, VERTICES, st.lists(COUNTS, min_size=1, max_size=50).map(tuple)),
    st.builds(JobFinished, st.sampled_from(JobStatus)),
)
VERTEX = JobVertexID("0f")
OUTPUT = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")
FILE_SIZE = 1 << 20


def finished(subtask: int) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(VERTEX, subtask, 0)


def record(
    directory: Path,
    events: list[JobEvent],
    epoch: int = 1,
    after: LogPosition = START,
    file_size: int = FILE_SIZE,
) -> None:
    pending = PendingEvents(epoch, after, file_size)
    for event in events:
        pending.append(event)
    files = EventFileWriter(directory, epoch)
    files.write(pending.take())
    files.close()


def record_ends(path: Path) -> list[int]:
    """Where each record of a whole file ends."""
    data, at, ends = path.read_bytes(), HEADER_SIZE, []
    while at < len(data):
        at += int.from_bytes(data[at : at + 4], "little") + 8
        ends.append(at)
    assert at == len(data)
    return ends


# -- events ----------------------------------------------------------------------------------------


@given(st.lists(EVENTS, max_size=20))
def test_records_give_their_events_again(events: list[JobEvent]) -> None:
    encoder, decoder = RecordEncoder(), RecordDecoder()
    for event in events:
        written = encoder.encode(event, 1)
        again = decoder.decode(b"before" + written + b"after", 6, 6 + len(written) - 4)
        assert (again, type(again)) == (event, type(event))


@pytest.mark.parametrize(
    "written",
    [
        *(b"\x01\0\0\0\x09", b"\x01\0\0\0\x02", b"\x02\0\0\0\x04\x09", b"\x03\0\0\0\x04\x00\x00"),
        # Longer and shorter than what it says itself.
        RecordEncoder().encode(finished(3), 0)[:-4] + b"x",
        RecordEncoder().encode(ExecutionVertexReset(VERTEX, (1, 2)), 0)[:-5],
    ],
)
def test_a_record_of_another_form_is_no_event(written: bytes) -> None:
    with pytest.raises(ValueError):
        RecordDecoder().decode(written, 0, len(written))


class LongSnapshot(bytes):
    def __len__(self) -> int:
        return SNAPSHOT_LIMIT


BEGUN, ENDED, RESET = (
    ExecutionJobVertexInitialized(VERTEX, 1),
    finished(0),
    ExecutionVertexReset(VERTEX, (0,)),
)


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (BEGUN, {"parallelism": 0}),
        (BEGUN, {"parallelism": (1 << 31) + 1}),
        (BEGUN, {"output": OUTPUT}),
        (BEGUN, {"coordinator_snapshot": LongSnapshot()}),
        (ENDED, {"subtask": -1}),
        (ENDED, {"subtask": 1 << 31}),
        (ENDED, {"attempt": -1}),
        (ENDED, {"output": OUTPUT}),
        (ENDED, {"metrics": PartitionMetrics(1, 1)}),
        (RESET, {"subtasks": ()}),
        (RESET, {"subtasks": (0, -1)}),
    ],
)
def test_an_event_that_makes_no_sense_can_t_be_made(event: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(event, **changes)


def test_an_id_that_no_record_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255 digits"):
        RecordEncoder().encode(ExecutionVertexFinished(JobVertexID("a" * 256), 0, 0), 0)
    for epoch in (0, -1, 1 << 63):
        with pytest.raises(ValueError, match=str(epoch)):
            checked_epoch(epoch)


# -- a log that was damaged ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[JobEvent]]:
    """A log of some dozen events in three files, no two of them equal."""
    directory = tmp_path_factory.mktemp("log")
    events: list[JobEvent] = []
    for number in range(12):
        metrics = PartitionMetrics(number, number)
        events += [
            ExecutionJobVertexInitialized(JobVertexID(f"{number:x}"), 9, None, "s"),
            ExecutionVertexReset(VERTEX, (number, 1)),
            ExecutionVertexFinished(VERTEX, number, 0, OUTPUT, metrics, b"snap"),
            finished(number),
        ]
    events.append(JobFinished(JobStatus.FINISHED))
    record(directory, events, file_size=800)
    assert len(event_files(directory)) == 3
    return directory, events


def test_a_whole_log_gives_all_events_in_order(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    found = replay(directory)
    assert list(found.events) == events
    assert found.position.events == len(events)
    assert (found.epochs, found.newest_epoch, found.damage) == (((1, len(events)),), 1, ())


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_log_damaged_anywhere_gives_what_is_before(
    log: tuple[Path, list[JobEvent]], damage: str
) -> None:
    directory, events = log
    before = 0
    for path in event_files(directory).values():
        whole, ends = path.read_bytes(), record_ends(path)
        for at in sorted({*range(0, len(whole), 5), *(end - 1 for end in ends), *ends[:-1]}):
            # One bit, some bits, all bits.
            changed = bytes([whole[at] ^ (at % 255 + 1)]) + whole[at + 1 :]
            path.write_bytes(whole[:at] + (b"" if damage == "cut" else changed))
            found = replay(directory)
            intact = sum(end <= at for end in ends)
            assert found.events == tuple(events[: before + intact]), (path.name, at)
            assert found.damage or damage == "cut"
        path.write_bytes(whole)
        before += len(ends)


@given(st.data())
def test_no_damage_makes_an_event_that_was_not_there(
    log: tuple[Path, list[JobEvent]], data: st.DataObject
) -> None:
    directory, events = log
    path = data.draw(st.sampled_from(list(event_files(directory).values())))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole)))
    until = data.draw(st.integers(at, len(whole)))
    path.write_bytes(whole[:at] + data.draw(st.binary(max_size=64)) + whole[until:])
    found = replay(directory).events
    path.write_bytes(whole)
    assert list(found) == events[: len(found)]


def test_without_one_of_its_files_a_log_ends_before_it(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    for name, path in event_files(directory).items():
        whole = path.read_bytes()
        path.unlink()
        assert list(replay(directory).events) == events[: name.first]
        path.write_bytes(whole)


Moved = Callable[[bytes, int, int, int], bytes]


@pytest.mark.parametrize(
    ("moved", "left"),
    [
        pytest.param(lambda d, a, b, c: d[:a] + d[b:c] + d[a:b] + d[c:], 10, id="swapped"),
        pytest.param(lambda d, a, b, c: d[:b] + d[a:b] + d[b:], 11, id="doubled"),
        pytest.param(lambda d, a, b, c: d[:a] + d[b:], 10, id="dropped"),
    ],
)
def test_records_count_only_in_their_places(tmp_path: Path, moved: Moved, left: int) -> None:
    record(tmp_path, [finished(each) for each in range(30)])
    (path,) = event_files(tmp_path).values()
    path.write_bytes(moved(path.read_bytes(), *record_ends(path)[9:12]))
    assert list(replay(tmp_path).events) == [finished(each) for each in range(left)]


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
    for name in ("epoch", ".events", "2-0-17-1.events", f"{EventFileName(2, 0, 1, 1)}~"):
        (tmp_path / name).write_bytes(b"7")
    (tmp_path / str(EventFileName(2, 0, 1, 1))).mkdir()
    found = replay(tmp_path)
    assert (found.events, found.newest_epoch) == ((finished(0),), 2)


# -- drivers that come and go ----------------------------------------------------------------------


def test_an_epoch_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    record(tmp_path, [finished(0), finished(1)])
    for epoch, events in ((4, [finished(2)]), (5, []), (9, [finished(3)])):
        record(tmp_path, list(events), epoch, after=replay(tmp_path).position)
    found = replay(tmp_path)
    assert list(found.events) == [finished(each) for each in range(4)]
    assert (found.epochs, found.newest_epoch) == (((1, 2), (4, 1), (9, 1)), 9)


@pytest.mark.parametrize("from_scratch", [True, False])
def test_a_stale_start_that_begins_to_write_late_does_not_count(
    tmp_path: Path, from_scratch: bool
) -> None:
    record(tmp_path, [finished(0)])
    position = replay(tmp_path).position
    record(tmp_path, [finished(1)], epoch=3, after=position)
    late = PendingEvents(2, START if from_scratch else position, FILE_SIZE)
    for block in late.take():
        (tmp_path / str(block.name)).write_bytes(block.data)
    found = replay(tmp_path)
    assert list(found.events) == [finished(0), finished(1)]
    assert found.epochs == ((1, 1), (3, 1))


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
    known: list[JobEvent] = []
    subtasks = iter(range(1000))

    def take_over(late: bool = False) -> None:
        nonlocal known
        found = replay(directory)
        # The newest one's events, up to where a crash cut them off; never those of others.
        assert list(found.events) == known[: len(found.events)]
        from_scratch = data.draw(st.sampled_from([False, False, False, True]))
        epoch = max([found.newest_epoch, *(each.epoch for each in drivers)]) + 1
        after = START if from_scratch else found.position
        driver = Driver(epoch, directory, PendingEvents(epoch, after, 200))
        if late:
            # It took its epoch, and was paused before it wrote anything.
            drivers.insert(0, driver)
            take_over()
        else:
            known = [] if from_scratch else list(found.events)
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
                    known.append(event)
            driver.flush()
        assert list(replay(directory).events) == known
