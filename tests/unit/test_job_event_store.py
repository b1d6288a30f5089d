"""The store: when it writes, what a crash leaves, who is refused. Real files and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError
from holdfast.eventstore.events import ExecutionVertexFinished, JobFinished, JobStatus
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.recording_state import RecordingState
from holdfast.eventstore.replay import event_files, replay
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import JobVertexID

VERTEX = JobVertexID("0f")
NEVER = timedelta(hours=1)
SECONDS = 30.0

Open = Callable[..., JobEventStore]

# Records without end, and says how many events it has handed over.
DRIVER = """
import itertools, sys
from pathlib import Path
from holdfast.errors import StaleEpochError
from holdfast.eventstore.events import ExecutionVertexFinished
from holdfast.eventstore.replay import replay
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import JobVertexID

directory, epoch = Path(sys.argv[1]), int(sys.argv[2])
store = JobEventStore(directory, epoch, replay(directory).position, write_buffer_size=4096)
try:
    for subtask in itertools.count(epoch * 1_000_000_000):
        event = ExecutionVertexFinished(JobVertexID("0f"), subtask, 0)
        store.write_event(event, cut=subtask % 9973 == 0)
        if subtask % 1000 == 0:
            flushed = store.flush()
            print(subtask, flushed, flush=True)
except StaleEpochError as error:
    print("stale", error.newest, flush=True)
"""


def finished(subtask: int, snapshot: bytes | None = None) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(VERTEX, subtask, 0, coordinator_snapshot=snapshot)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    stores = []

    def opened(
        epoch: int = 1, after: LogPosition = START, **settings: timedelta | int
    ) -> JobEventStore:
        stores.append(JobEventStore(tmp_path / "job", epoch, after, **settings))  # type: ignore[arg-type]
        return stores[-1]

    yield opened
    for store in stores:
        store.stop()


def test_what_is_recorded_is_replayed(open_store: Open, tmp_path: Path) -> None:
    events = [finished(each) for each in range(1000)]
    with open_store() as store:
        assert all(store.write_event(event) for event in events)
        assert store.state is RecordingState.RECORDING
    assert store.state.value == "stopped"
    assert list(replay(tmp_path / "job").events) == events


def test_a_file_is_there_before_the_first_event(open_store: Open, tmp_path: Path) -> None:
    open_store(flush_interval=NEVER)
    wait_for(lambda: replay(tmp_path / "job").newest_epoch == 1)


def test_events_are_written_when_the_interval_is_over(open_store: Open, tmp_path: Path) -> None:
    store = open_store(flush_interval=timedelta(milliseconds=300))
    wait_for(lambda: replay(tmp_path / "job").newest_epoch == 1)
    for round_number in range(3):
        started = time.monotonic()
        store.write_event(finished(round_number))
        wait_for(lambda: len(replay(tmp_path / "job").events) > round_number)  # noqa: B023
        assert time.monotonic() - started > 0.25


def test_events_are_written_when_the_buffer_is_full(open_store: Open, tmp_path: Path) -> None:
    store = open_store(flush_interval=NEVER, write_buffer_size=1000)
    wait_for(lambda: replay(tmp_path / "job").newest_epoch == 1)
    store.write_event(finished(0))
    time.sleep(0.1)
    assert not replay(tmp_path / "job").events
    store.write_event(finished(1, bytes(1000)))
    wait_for(lambda: len(replay(tmp_path / "job").events) == 2)


def test_an_event_that_cuts_is_written_at_once_and_ends_its_file(
    open_store: Open, tmp_path: Path
) -> None:
    store = open_store(flush_interval=NEVER)
    store.write_event(finished(0))
    store.write_event(finished(1), cut=True)
    wait_for(lambda: len(replay(tmp_path / "job").events) == 2)
    store.write_event(finished(2), cut=True)
    wait_for(lambda: len(replay(tmp_path / "job").events) == 3)
    assert [name.first for name in event_files(tmp_path / "job")] == [0, 2]


def test_flush_waits_until_everything_is_on_disk(open_store: Open, tmp_path: Path) -> None:
    store = open_store(flush_interval=NEVER)
    for count in range(1, 20):
        store.write_event(finished(count))
        assert store.flush()
        assert len(replay(tmp_path / "job").events) == count
    assert store.flush()


def test_after_stop_nothing_is_recorded(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.write_event(finished(0))
    assert store.stop()
    assert store.stop()
    assert store.flush()
    assert not store.write_event(finished(1))
    assert replay(tmp_path / "job").events == (finished(0),)


def test_threads_record_together_each_in_its_own_order(open_store: Open, tmp_path: Path) -> None:
    store = open_store(write_buffer_size=2000, flush_interval=timedelta(milliseconds=1))

    def record(number: int) -> None:
        for count in range(2000):
            assert store.write_event(finished(number * 10_000 + count), cut=count % 500 == 0)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.stop()
    found = [event.subtask for event in replay(tmp_path / "job").events]  # type: ignore[union-attr]
    for number in range(4):
        own = [subtask for subtask in found if subtask // 10_000 == number]
        assert own == list(range(number * 10_000, number * 10_000 + 2000))
    assert len(found) == 8000


def test_the_next_start_goes_on_where_this_one_ended(open_store: Open, tmp_path: Path) -> None:
    for epoch in range(1, 5):
        found = replay(tmp_path / "job")
        with open_store(epoch, found.position) as store:
            store.write_event(finished(epoch))
    found = replay(tmp_path / "job")
    assert [event.subtask for event in found.events] == [1, 2, 3, 4]  # type: ignore[union-attr]
    assert found.epochs == ((1, 1), (2, 1), (3, 1), (4, 1))
    with open_store(7, START) as store:
        store.write_event(JobFinished(JobStatus.FINISHED))
    assert replay(tmp_path / "job").events == (JobFinished(JobStatus.FINISHED),)


def test_an_epoch_that_is_not_the_newest_can_t_begin(open_store: Open) -> None:
    open_store(5).flush()
    for stale in (4, 5):
        with pytest.raises(StaleEpochError, match=f"epoch {stale} is fenced by epoch 5") as raised:
            open_store(stale)
        assert (raised.value.epoch, raised.value.newest) == (stale, 5)


def test_a_stale_start_finds_out_and_is_refused(
    open_store: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stale = open_store(1)
    stale.write_event(finished(0))
    stale.flush()
    newer = open_store(2, replay(tmp_path / "job").position)
    newer.flush()
    assert stale.write_event(finished(66))
    with pytest.raises(StaleEpochError):
        stale.flush()
    assert stale.state is RecordingState.FENCED
    with pytest.raises(StaleEpochError, match="Another driver now runs this job"):
        stale.write_event(finished(67))
    assert not stale.stop()
    assert newer.write_event(finished(1))
    newer.stop()
    assert replay(tmp_path / "job").events == (finished(0), finished(1))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "fenced by epoch 2" in caplog.text
    assert "continues" not in caplog.text


def test_a_stale_start_that_has_nothing_to_write_finds_out_by_flushing(
    open_store: Open, tmp_path: Path
) -> None:
    stale = open_store(1)
    assert stale.flush()
    assert open_store(2, replay(tmp_path / "job").position).flush()
    with pytest.raises(StaleEpochError):
        stale.flush()


def test_the_log_of_an_ended_job_is_removed(open_store: Open, tmp_path: Path) -> None:
    store = open_store()
    store.write_event(finished(0), cut=True)
    store.write_event(JobFinished(JobStatus.FINISHED))
    store.flush()
    (tmp_path / "job" / "epoch").write_bytes(b"1")
    assert store.clear()
    assert [path.name for path in (tmp_path / "job").iterdir()] == ["epoch"]
    assert store.clear()


def test_a_stale_start_removes_nothing(open_store: Open, tmp_path: Path) -> None:
    stale = open_store(1)
    stale.write_event(finished(0))
    stale.flush()
    newer = open_store(2, replay(tmp_path / "job").position)
    newer.flush()
    assert not stale.clear()
    assert replay(tmp_path / "job").events == (finished(0),)


def driver(directory: Path, epoch: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", DRIVER, str(directory), str(epoch)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_a_killed_driver_leaves_all_that_was_flushed(tmp_path: Path) -> None:
    flushed: list[int] = []
    for epoch in (1, 2):
        process = driver(tmp_path, epoch)
        try:
            for _ in range(20 * epoch):
                subtask, done = said(process)
                assert done == "True"
            flushed.append(int(subtask))
        finally:
            process.kill()
            process.wait()
    found = [event.subtask for event in replay(tmp_path).events]  # type: ignore[union-attr]
    for epoch, last in zip((1, 2), flushed, strict=True):
        first = epoch * 1_000_000_000
        own = [subtask for subtask in found if subtask // first == 1 and subtask - first < first]
        assert own == list(range(first, first + len(own)))
        assert own[-1] >= last
    assert found == sorted(found)


def is_stopped(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all(
        (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads
    )


def test_a_driver_that_was_paused_meets_its_successor(tmp_path: Path) -> None:
    paused, newer = driver(tmp_path, 1), None
    try:
        assert said(paused)[1] == "True"
        os.kill(paused.pid, signal.SIGSTOP)
        # The signal is sent; until each thread has got it, the disk may still be written to.
        wait_for(lambda: is_stopped(paused.pid))
        before = replay(tmp_path)
        newer = driver(tmp_path, 2)
        assert said(newer)[1] == "True"
        os.kill(paused.pid, signal.SIGCONT)
        words = said(paused)
        while words[0] != "stale":
            words = said(paused)
        assert words == ["stale", "2"]
        for _ in range(5):
            assert said(newer)[1] == "True"
        found = replay(tmp_path)
        assert found.events[: len(before.events)] == before.events
        (_, kept), (epoch, added) = found.epochs
        # What had reached the disk before it was paused, and nothing that it wrote after.
        assert (kept, epoch) == (len(before.events), 2)
        assert added > 0
    finally:
        for process in (paused, newer):
            if process is not None:
                process.kill()
                process.wait()
