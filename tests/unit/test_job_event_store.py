"""The store: when it writes, who is refused, what fails. Real files."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError
from holdfast.eventstore.event_file_writer import EventFileWriter
from holdfast.eventstore.events import ExecutionVertexFinished
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.recording_state import RecordingState
from holdfast.eventstore.replay import event_files, replay
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import JobVertexID

VERTEX = JobVertexID("0f")
NEVER = timedelta(hours=1)
TICK = timedelta(milliseconds=5)
SECONDS = 60

Open = Callable[..., JobEventStore]


def finished(subtask: int, snapshot: bytes | None = None) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(VERTEX, subtask, 0, coordinator_snapshot=snapshot)


def recorded(directory: Path) -> list[int]:
    return [event.subtask for event in replay(directory).events]  # type: ignore[union-attr]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job"


@pytest.fixture
def open_store(job: Path) -> Iterator[Open]:
    stores = []

    def opened(
        epoch: int = 1, after: LogPosition = START, **settings: timedelta | int
    ) -> JobEventStore:
        stores.append(JobEventStore(job, epoch, after, **settings))  # type: ignore[arg-type]
        return stores[-1]

    yield opened
    for store in stores:
        store.stop()


def test_what_is_recorded_is_replayed_until_it_is_removed(open_store: Open, job: Path) -> None:
    with open_store() as store:
        assert all(store.write_event(finished(each), cut=each == 9) for each in range(1000))
        assert store.state is RecordingState.RECORDING
    assert recorded(job) == list(range(1000))
    assert store.stop() and store.flush()
    assert not store.write_event(finished(1000))
    assert len(recorded(job)) == 1000
    (job / "epoch").write_bytes(b"1")
    assert store.clear() and store.clear()
    assert [path.name for path in job.iterdir()] == ["epoch"]


def test_events_are_written_when_the_interval_is_over(open_store: Open, job: Path) -> None:
    store = open_store(flush_interval=timedelta(milliseconds=200))
    wait_for(lambda: replay(job).newest_epoch == 1)
    started = time.monotonic()
    store.write_event(finished(0))
    wait_for(lambda: recorded(job))
    assert time.monotonic() - started > 0.15


@pytest.mark.parametrize("why", ["the buffer is full", "an event cuts", "flush"])
def test_events_are_written_at_once_when(open_store: Open, job: Path, why: str) -> None:
    store = open_store(flush_interval=NEVER, write_buffer_size=1000)
    # A file is there before the first event.
    wait_for(lambda: replay(job).newest_epoch == 1)
    store.write_event(finished(0))
    time.sleep(0.05)
    assert not recorded(job)
    if why == "flush":
        assert store.flush()
    else:
        store.write_event(finished(1, bytes(1000 if "full" in why else 0)), cut="cuts" in why)
        wait_for(lambda: recorded(job) == [0, 1])
        store.write_event(finished(2), cut=True)
    wait_for(lambda: recorded(job) == ([0] if why == "flush" else [0, 1, 2]))
    assert [name.first for name in event_files(job)] == ([0, 2] if "cuts" in why else [0])


def test_threads_record_together_each_in_its_own_order(open_store: Open, job: Path) -> None:
    store = open_store(write_buffer_size=2000, flush_interval=timedelta(milliseconds=1))

    def record(number: int) -> None:
        for count in range(500):
            assert store.write_event(finished(number * 10_000 + count), cut=count % 200 == 0)

    threads = [threading.Thread(target=record, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.stop()
    found = recorded(job)
    assert len(found) == 2000
    for number in range(4):
        own = [subtask for subtask in found if subtask // 10_000 == number]
        assert own == list(range(number * 10_000, number * 10_000 + 500))


def test_a_stale_start_finds_out_and_is_refused(
    open_store: Open, job: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stale = open_store(1)
    stale.write_event(finished(0))
    stale.flush()
    newer = open_store(2, replay(job).position)
    newer.flush()
    for epoch in (1, 2):
        with pytest.raises(StaleEpochError, match=f"epoch {epoch} is fenced by epoch 2"):
            open_store(epoch)
    assert stale.write_event(finished(66))
    with pytest.raises(StaleEpochError):
        stale.flush()
    assert stale.state is RecordingState.FENCED
    with pytest.raises(StaleEpochError):
        stale.write_event(finished(67))
    assert not stale.stop()
    assert newer.write_event(finished(1))
    newer.flush()
    assert recorded(job) == [0, 1]
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    # One that has nothing to write finds out by flushing.
    open_store(3, replay(job).position).flush()
    with pytest.raises(StaleEpochError):
        newer.flush()
    assert not newer.clear() and recorded(job) == [0, 1]
    with pytest.raises(ValueError, match="expected an epoch"):
        open_store(0)


# -- disks that fail: the job continues without a log, with one warning ----------------------------


def ended(store: JobEventStore) -> bool:
    """Records until the store refuses it."""
    wait_for(lambda: not store.write_event(finished(9)))
    return store.state is RecordingState.FAILED


PLACES: dict[str, Callable[[Path], object]] = {
    "removed": shutil.rmtree,
    "moved away": lambda job: (job.rename(job.with_name("moved")), job.mkdir()),
    "a file": lambda job: (shutil.rmtree(job), job.write_bytes(b"")),
}


@pytest.mark.parametrize("what", PLACES)
def test_a_directory_that_is_none_any_more_ends_the_recording(
    open_store: Open, job: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(flush_interval=TICK)
    store.write_event(finished(0))
    assert store.flush()
    PLACES[what](job)
    assert ended(store)
    assert not store.flush() and not store.stop()
    (warned,) = caplog.records
    assert warned.levelname == "WARNING" and str(job) in caplog.text
    assert "The job continues" in caplog.text


def test_the_next_start_continues_what_a_full_disk_has_cut_off(
    open_store: Open, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def write_some(descriptor: int, data: bytes) -> int:
        if os.fstat(descriptor).st_size > 5000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:999])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_some)
        store = open_store(flush_interval=TICK, write_buffer_size=2000)
        for each in range(100):
            store.write_event(finished(each, bytes(100)))
        assert ended(store)
    found = recorded(job)
    assert found == [*range(len(found))] and 10 < len(found) < 90
    with open_store(2, replay(job).position) as store:
        store.write_event(finished(1000))
    assert recorded(job) == [*found, 1000]
    assert replay(job).epochs == ((1, len(found)), (2, 1))


def test_a_disk_that_hangs_holds_up_neither_the_job_nor_much_memory(
    open_store: Open, job: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(flush_interval=TICK, pending_limit=10_000)
    store.write_event(finished(0))
    assert store.flush()
    thawed = threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(EventFileWriter, "write", lambda *_: thawed.wait(SECONDS))
        for each in range(1, 2000):
            store.write_event(finished(each))
        assert store.state is RecordingState.FAILED
        assert not (store.flush(TICK) or store.stop(TICK))
        thawed.set()
    assert recorded(job) == [0]
    (warned,) = caplog.messages
    assert "more than 10,000 bytes are waiting" in warned
