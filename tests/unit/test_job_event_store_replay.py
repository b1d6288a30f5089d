"""What can be read back of a log, whatever became of its files. Real files; no threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
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
FILE_SIZE = 1 << 20


def finished(subtask: int) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(VERTEX, subtask, 0)


def mixed_events(count: int) -> list[JobEvent]:
    """Events of all kinds, no two of them equal."""
    events: list[JobEvent] = []
    for number in range(count - 1):
        kind = number % 10
        if kind == 0:
            events.append(ExecutionJobVertexInitialized(JobVertexID(f"{number:x}"), 9, None, "s"))
        elif kind == 1:
            events.append(ExecutionVertexReset(VERTEX, (number, 1)))
        elif kind == 2:
            metrics = PartitionMetrics(number, number)
            events.append(ExecutionVertexFinished(VERTEX, number, 0, OUTPUT, metrics, b"snap"))
        else:
            events.append(finished(number))
    return [*events, JobFinished(JobStatus.FINISHED)]


def write(directory: Path, pending: PendingEvents, epoch: int) -> None:
    files = EventFileWriter(directory, epoch)
    files.write(pending.take())
    files.close()


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
    write(directory, pending, epoch)


def record_ends(path: Path) -> list[int]:
    """Where each record of a whole file ends."""
    data, at, ends = path.read_bytes(), HEADER_SIZE, []
    while at < len(data):
        at += int.from_bytes(data[at : at + 4], "little") + 8
        ends.append(at)
    assert at == len(data)
    return ends


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[JobEvent]]:
    """A log of some hundred events in three files."""
    directory = tmp_path_factory.mktemp("log")
    events = mixed_events(240)
    record(directory, events, file_size=3200)
    assert len(event_files(directory)) == 3
    return directory, events


def test_a_whole_log_gives_all_events_in_order(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    found = replay(directory)
    assert list(found.events) == events
    assert found.position.events == len(events)
    assert (found.epochs, found.newest_epoch, found.damage) == (((1, 240),), 1, ())


def test_a_log_cut_at_any_byte_gives_what_is_before(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    before = 0
    for path in event_files(directory).values():
        whole, ends = path.read_bytes(), record_ends(path)
        left = len(ends)
        for size in reversed(range(len(whole))):
            os.truncate(path, size)
            while left and ends[left - 1] > size:
                left -= 1
            assert replay(directory).events == tuple(events[: before + left]), (path.name, size)
        path.write_bytes(whole)
        before += len(ends)
    assert list(replay(directory).events) == events


def test_a_log_damaged_at_any_byte_gives_what_is_before(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    before = 0
    for path in event_files(directory).values():
        whole, ends = path.read_bytes(), record_ends(path)
        intact = 0
        with path.open("r+b", buffering=0) as file:
            for at, byte in enumerate(whole):
                if ends[intact] <= at:
                    intact += 1
                # Another damage at each byte: one bit, some bits, all bits.
                os.pwrite(file.fileno(), bytes([byte ^ (at % 255 + 1)]), at)
                found = replay(directory)
                assert found.events == tuple(events[: before + intact]), (path.name, at)
                assert found.damage
                os.pwrite(file.fileno(), bytes([byte]), at)
        before += len(ends)
    assert list(replay(directory).events) == events


def test_without_one_of_its_files_a_log_ends_before_it(log: tuple[Path, list[JobEvent]]) -> None:
    directory, events = log
    for name, path in event_files(directory).items():
        whole = path.read_bytes()
        path.unlink()
        assert list(replay(directory).events) == events[: name.first]
        path.write_bytes(whole)


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


def test_records_that_changed_places_count_only_before_the_first_of_them(tmp_path: Path) -> None:
    events = mixed_events(30)
    record(tmp_path, events)
    (path,) = event_files(tmp_path).values()
    whole, ends = path.read_bytes(), record_ends(path)
    one, two, three = ends[9], ends[10], ends[11]
    path.write_bytes(whole[:one] + whole[two:three] + whole[one:two] + whole[three:])
    assert list(replay(tmp_path).events) == events[:10]
    path.write_bytes(whole[:two] + whole[one:two] + whole[two:])
    assert list(replay(tmp_path).events) == events[:11]
    path.write_bytes(whole[:one] + whole[two:])
    assert list(replay(tmp_path).events) == events[:10]


def test_a_file_of_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    for place, offset in (("here", 0), ("there", 100)):
        record(tmp_path / place, [finished(offset + each) for each in range(40)], file_size=600)
    names = [str(name) for name in event_files(tmp_path / "here")]
    assert names == [str(name) for name in event_files(tmp_path / "there")]
    (tmp_path / "there" / names[1]).replace(tmp_path / "here" / names[1])
    found = replay(tmp_path / "here")
    second = list(event_files(tmp_path / "here"))[1]
    assert list(found.events) == [finished(each) for each in range(second.first)]
    assert any("another log" in each for each in found.damage)


def test_where_nothing_was_recorded_nothing_is_read(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "none"):
        found = replay(directory)
        assert (found.events, found.position, found.newest_epoch) == ((), START, 0)
        assert found.damage == ()


def test_what_is_no_directory_gives_no_events_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = replay(tmp_path / "file")
    assert (found.events, found.newest_epoch) == ((), 0)
    assert "can't be read" in found.damage[0]


def test_other_files_and_directories_are_passed_over(tmp_path: Path) -> None:
    record(tmp_path, [finished(0)])
    (tmp_path / "epoch").write_bytes(b"7")
    (tmp_path / str(EventFileName(2, 0, 1, 1))).mkdir()
    found = replay(tmp_path)
    assert found.events == (finished(0),)
    assert found.newest_epoch == 2


def test_records_of_a_later_form_end_the_log(tmp_path: Path) -> None:
    record(tmp_path, [finished(0)])
    (path,) = event_files(tmp_path).values()
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    found = replay(tmp_path)
    assert found.events == ()
    assert "version 2, expected 1" in found.damage[0]


def test_an_epoch_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    record(tmp_path, [finished(0), finished(1)])
    record(tmp_path, [finished(2)], epoch=4, after=replay(tmp_path).position)
    record(tmp_path, [], epoch=5, after=replay(tmp_path).position)
    record(tmp_path, [finished(3)], epoch=9, after=replay(tmp_path).position)
    found = replay(tmp_path)
    assert list(found.events) == [finished(each) for each in range(4)]
    assert found.epochs == ((1, 2), (4, 1), (9, 1))
    assert found.newest_epoch == 9


def test_what_a_stale_epoch_wrote_after_the_take_over_does_not_count(tmp_path: Path) -> None:
    stale, files = PendingEvents(1, START, FILE_SIZE), EventFileWriter(tmp_path, 1)
    stale.append(finished(0))
    stale.append(finished(1))
    files.write(stale.take())
    position = replay(tmp_path).position
    # Paused between its look at the directory and its write.
    stale.append(finished(66))
    late = stale.take()
    record(tmp_path, [finished(2)], epoch=2, after=position)
    for block in late:
        with (tmp_path / str(block.name)).open("ab") as file:
            file.write(block.data)
    # And a file that it begins after that.
    stale.cut()
    stale.append(finished(67))
    for block in stale.take():
        (tmp_path / str(block.name)).write_bytes(block.data)
    found = replay(tmp_path)
    assert list(found.events) == [finished(0), finished(1), finished(2)]
    assert found.epochs == ((1, 2), (2, 1))
    # Even where the newer file has got no further than its name.
    (newer,) = [path for name, path in event_files(tmp_path).items() if name.epoch == 2]
    newer.write_bytes(b"")
    assert list(replay(tmp_path).events) == [finished(0), finished(1)]
    record(tmp_path, [finished(3)], epoch=3, after=replay(tmp_path).position)
    assert list(replay(tmp_path).events) == [finished(0), finished(1), finished(3)]


def test_a_log_goes_on_after_its_damaged_end(tmp_path: Path) -> None:
    record(tmp_path, [finished(each) for each in range(9)])
    (path,) = event_files(tmp_path).values()
    os.truncate(path, path.stat().st_size - 3)
    found = replay(tmp_path)
    assert len(found.events) == 8
    record(tmp_path, [finished(100)], epoch=2, after=found.position)
    assert list(replay(tmp_path).events) == [*(finished(each) for each in range(8)), finished(100)]


def test_a_job_that_starts_anew_forgets_what_was_before(tmp_path: Path) -> None:
    record(tmp_path, [finished(0), finished(1)])
    record(tmp_path, [finished(2)], epoch=2)
    assert replay(tmp_path).events == (finished(2),)
    record(tmp_path, [], epoch=3)
    assert replay(tmp_path).events == ()


def test_a_stale_start_that_begins_to_write_late_does_not_count(tmp_path: Path) -> None:
    record(tmp_path, [finished(0)])
    position = replay(tmp_path).position
    record(tmp_path, [finished(1)], epoch=3, after=position)
    for late in (START, position):
        for block in (pending := PendingEvents(2, late, FILE_SIZE)).take():
            (tmp_path / str(block.name)).write_bytes(block.data)
        assert len(pending) == 0
        found = replay(tmp_path)
        assert list(found.events) == [finished(0), finished(1)]
        assert found.epochs == ((1, 1), (3, 1))


def test_cutting_twice_or_before_any_event_loses_none(tmp_path: Path) -> None:
    pending = PendingEvents(1, START, FILE_SIZE)
    pending.cut()
    for subtask in range(3):
        pending.append(finished(subtask))
        pending.cut()
        pending.cut()
    write(tmp_path, pending, 1)
    assert [(name.number, name.first) for name in event_files(tmp_path)] == [
        *((0, 0), (1, 0), (2, 1), (3, 2))
    ]
    assert list(replay(tmp_path).events) == [finished(each) for each in range(3)]


@dataclass
class _Driver:
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
    drivers: list[_Driver] = []
    known: list[JobEvent] = []
    subtasks = iter(range(1000))

    def take_over(late: bool = False) -> None:
        nonlocal known
        found = replay(directory)
        # The newest one's events, up to where a crash cut them off; never those of others.
        assert list(found.events) == known[: len(found.events)]
        anew = data.draw(st.sampled_from([False, False, False, True]))
        epoch = max([found.newest_epoch, *(each.epoch for each in drivers)]) + 1
        after = START if anew else found.position
        driver = _Driver(epoch, directory, PendingEvents(epoch, after, 200))
        if late:
            # It took its epoch, and was paused before it wrote anything.
            drivers.insert(0, driver)
            take_over()
        else:
            known = [] if anew else list(found.events)
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
