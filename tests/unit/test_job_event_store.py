"""The store: when it writes, what a crash leaves, who is refused, what fails. Real files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StaleEpochError
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


def test_what_is_recorded_is_replayed(open_store: Open, job: Path) -> None:
    with open_store() as store:
        assert all(store.write_event(finished(each)) for each in range(1000))
        assert store.state is RecordingState.RECORDING
    assert recorded(job) == list(range(1000))
    assert store.stop() and store.flush()
    assert not store.write_event(finished(1000))
    assert len(recorded(job)) == 1000


def test_events_are_written_when_the_interval_is_over(open_store: Open, job: Path) -> None:
    store = open_store(flush_interval=timedelta(milliseconds=300))
    wait_for(lambda: replay(job).newest_epoch == 1)
    started = time.monotonic()
    store.write_event(finished(0))
    wait_for(lambda: recorded(job))
    assert time.monotonic() - started > 0.25


@pytest.mark.parametrize("why", ["the buffer is full", "an event cuts", "flush"])
def test_events_are_written_at_once_when(open_store: Open, job: Path, why: str) -> None:
    store = open_store(flush_interval=NEVER, write_buffer_size=1000)
    # A file is there before the first event.
    wait_for(lambda: replay(job).newest_epoch == 1)
    store.write_event(finished(0))
    time.sleep(0.1)
    assert not recorded(job)
    if why == "flush":
        assert store.flush()
        assert recorded(job) == [0]
    else:
        store.write_event(finished(1, bytes(1000 if "full" in why else 0)), cut="cuts" in why)
        wait_for(lambda: recorded(job) == [0, 1])
        store.write_event(finished(2), cut=True)
        wait_for(lambda: recorded(job) == [0, 1, 2])
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


def test_the_next_start_goes_on_where_this_one_ended(open_store: Open, job: Path) -> None:
    for epoch in range(1, 4):
        with open_store(epoch, replay(job).position) as store:
            store.write_event(finished(epoch))
    assert recorded(job) == [1, 2, 3]
    assert replay(job).epochs == ((1, 1), (2, 1), (3, 1))
    with open_store(7, START) as store:
        store.write_event(finished(7))
    assert recorded(job) == [7]


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
    with pytest.raises(StaleEpochError, match="Another driver now runs this job"):
        stale.write_event(finished(67))
    assert not stale.stop()
    assert newer.write_event(finished(1))
    newer.flush()
    assert recorded(job) == [0, 1]
    (warned,) = caplog.records
    assert warned.levelname == "WARNING" and "fenced by epoch 2" in caplog.text
    # One that has nothing to write finds out by flushing.
    open_store(3, replay(job).position).flush()
    with pytest.raises(StaleEpochError):
        newer.flush()
    assert not newer.clear() and recorded(job) == [0, 1]


def test_the_log_of_an_ended_job_is_removed(open_store: Open, job: Path) -> None:
    store = open_store()
    store.write_event(finished(0), cut=True)
    store.write_event(finished(1))
    store.flush()
    (job / "epoch").write_bytes(b"1")
    assert store.clear() and store.clear()
    assert [path.name for path in job.iterdir()] == ["epoch"]


# -- drivers that are killed or paused -------------------------------------------------------------

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
        if subtask % 100 == 0:
            print(subtask, store.flush(), flush=True)
except StaleEpochError as error:
    print("stale", error.newest, flush=True)
"""


def driver(directory: Path, epoch: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", DRIVER, str(directory), str(epoch)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def test_a_killed_driver_leaves_all_that_was_flushed(tmp_path: Path) -> None:
    found: list[int] = []
    for epoch in (1, 2):
        process = driver(tmp_path, epoch)
        try:
            for _ in range(20):
                subtask, done = said(process)
                assert done == "True"
        finally:
            process.kill()
            process.wait()
        before, found = found, recorded(tmp_path)
        own = found[len(before) :]
        assert found[: len(before)] == before
        assert own == list(range(epoch * 1_000_000_000, epoch * 1_000_000_000 + len(own)))
        assert own[-1] >= int(subtask)


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
        assert words == ["stale", "2"] and said(newer)[1] == "True"
        found = replay(tmp_path)
        assert found.events[: len(before.events)] == before.events
        (_, kept), (epoch, added) = found.epochs
        # What had reached the disk before it was paused, and nothing that it wrote after.
        assert (kept, epoch) == (len(before.events), 2) and added > 0
    finally:
        for process in (paused, newer):
            if process is not None:
                process.kill()
                process.wait()


# -- disks that fail: the job goes on without a log, with one warning ------------------------------


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
    if what == "moved away":
        assert recorded(job.with_name("moved")) == [0]


def test_an_event_that_is_too_far_ahead_of_the_disk_ends_the_recording(
    open_store: Open, job: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(pending_limit=10_000)
    store.write_event(finished(0))
    assert store.flush()
    assert not store.write_event(finished(1, bytes(10_000)))
    assert ended(store) and not store.stop()
    assert recorded(job) == [0]
    (warned,) = caplog.messages
    assert "more than 10,000 bytes are waiting" in warned


# Runs the steps that it is given with a store, and prints what became of it.
PROGRAM = """
import json, logging, os, resource, subprocess, sys, time
from datetime import timedelta
from pathlib import Path
from holdfast.eventstore.events import ExecutionVertexFinished
from holdfast.eventstore.log_position import START
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import JobVertexID

warnings = []
handler = logging.Handler()
handler.emit = lambda record: warnings.append(record.getMessage())
logging.getLogger("holdfast").addHandler(handler)
directory = Path(sys.argv[1])

def record(store, count):
    for number in range(count):
        store.write_event(ExecutionVertexFinished(
            JobVertexID("0f"), number, 0, coordinator_snapshot=bytes(100)))

STEPS

print(json.dumps([store.state.value, warnings]))
sys.stdout.flush()
os._exit(0)
"""


def run(steps: str, directory: Path, *before: str) -> list[Any]:
    program = PROGRAM.replace("STEPS", textwrap.dedent(steps))
    done = subprocess.run(
        [*before, sys.executable, "-c", program, str(directory)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_a_file_that_may_not_grow_ends_the_recording(job: Path) -> None:
    state, (warning,) = run(
        """
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        store = JobEventStore(directory, 1, START, write_buffer_size=10_000)
        record(store, 1000)
        store.flush(); record(store, 1000); store.stop()
        """,
        job,
    )
    assert state == "failed" and "File too large" in warning
    count = len(recorded(job))
    assert 300 < count < 500
    # The next start goes on from what is there.
    with JobEventStore(job, 2, replay(job).position) as store:
        store.write_event(finished(count))
    assert recorded(job) == list(range(count + 1))


@pytest.mark.soak
def test_a_disk_that_hangs_holds_up_neither_the_job_nor_much_memory(tmp_path: Path) -> None:
    # A file system of its own, frozen as if its device had gone.
    script = (
        'truncate -s 16M "$0.img" && mkfs.ext4 -q -O ^has_journal "$0.img" && mkdir "$0"'
        ' && mount -o loop "$0.img" "$0" && "$@"'
    )
    place = tmp_path / "frozen"
    shell = ("unshare", "--mount", "--propagation=private", "sh", "-c", script, str(place))
    if None in map(shutil.which, ("unshare", "mkfs.ext4", "fsfreeze")):
        pytest.skip("there are no tools here to make and freeze a file system with")
    if subprocess.run([*shell, "true"], capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    place.rmdir()
    state, (warning,) = run(
        """
        store = JobEventStore(directory / "job", 1, START, pending_limit=4_000_000)
        record(store, 1000)
        assert store.flush()
        # Whatever becomes of this process, nothing stays frozen.
        thaw = subprocess.Popen(
            ["sh", "-c", 'sleep 30; fsfreeze -u "$0"', directory], start_new_session=True)
        subprocess.run(["fsfreeze", "-f", directory], check=True)
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            record(store, 200_000)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            started = time.perf_counter()
            ended = store.flush() or store.stop() or store.clear(timedelta(milliseconds=100))
            took = time.perf_counter() - started
        finally:
            subprocess.run(["fsfreeze", "-u", directory], check=True)
            os.killpg(thaw.pid, 9)
        assert after - before < 40_000 and not ended and took < 2, (before, after, ended, took)
        assert store.clear()
        """,
        place,
        *shell,
    )
    assert state == "failed" and "more than 4,000,000 bytes are waiting" in warning
