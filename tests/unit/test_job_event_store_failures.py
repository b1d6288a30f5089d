"""A disk that fails makes the job go on without recording, with one warning. Real failures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.eventstore.events import ExecutionVertexFinished
from holdfast.eventstore.log_position import START
from holdfast.eventstore.recording_state import RecordingState
from holdfast.eventstore.replay import event_files, replay
from holdfast.eventstore.store import JobEventStore
from holdfast.ids import JobVertexID
from tests.harness.errors import NamespacesUnavailableError
from tests.harness.namespaces import unshare_command

SECONDS = 60
TICK = timedelta(milliseconds=5)

# Runs the steps that it is given with a store, and tells what became of it.
PROGRAM = """
import json, logging, os, resource, sys, time
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
times = []
handed_over = 0

def record(store, count, size=100):
    global handed_over
    for _ in range(count):
        event = ExecutionVertexFinished(
            JobVertexID("0f"), handed_over, 0, coordinator_snapshot=bytes(size))
        started = time.perf_counter()
        if store.write_event(event):
            handed_over += 1
        times.append(time.perf_counter() - started)

STEPS

print(json.dumps({
    "state": store.state.value, "warnings": warnings, "handed_over": handed_over,
    "slowest": max(times, default=0), "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
}))
sys.stdout.flush()
os._exit(0)
"""


def finished(subtask: int) -> ExecutionVertexFinished:
    return ExecutionVertexFinished(JobVertexID("0f"), subtask, 0)


def run(steps: str, directory: Path, *before: str) -> dict[str, Any]:
    program = PROGRAM.replace("STEPS", textwrap.dedent(steps))
    done = subprocess.run(
        [*before, sys.executable, "-c", program, str(directory)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def recorded(directory: Path) -> int:
    """How many events can be replayed: the first ones, in their order."""
    found = [event.subtask for event in replay(directory).events]  # type: ignore[union-attr]
    assert found == list(range(len(found)))
    return len(found)


def ended(store: JobEventStore) -> bool:
    """Goes on recording until the store says that it doesn't any more."""
    deadline = time.monotonic() + SECONDS
    while store.write_event(finished(9)) and time.monotonic() < deadline:
        time.sleep(0.002)
    return store.state is RecordingState.FAILED


def test_a_directory_that_is_removed_ends_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "job"
    store = JobEventStore(directory, 1, START, flush_interval=TICK)
    store.write_event(finished(0))
    assert store.flush()
    shutil.rmtree(directory)
    assert ended(store)
    assert not store.flush()
    assert not store.stop()
    assert not store.clear()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(directory) in caplog.text
    assert "The job continues" in caplog.text


def test_a_directory_that_is_moved_away_keeps_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = JobEventStore(tmp_path / "job", 1, START, flush_interval=TICK)
    store.write_event(finished(0))
    assert store.flush()
    (tmp_path / "job").rename(tmp_path / "moved")
    (tmp_path / "job").mkdir()
    assert ended(store)
    assert recorded(tmp_path / "moved") == 1
    assert len(caplog.records) == 1


def test_a_file_where_the_directory_should_be_ends_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "job").write_bytes(b"")
    store = JobEventStore(tmp_path / "job", 1, START, flush_interval=TICK)
    assert ended(store)
    assert len(caplog.records) == 1


def test_a_file_that_may_not_grow_ends_the_recording(tmp_path: Path) -> None:
    told = run(
        """
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        store = JobEventStore(directory, 1, START, write_buffer_size=10_000)
        record(store, 1000)
        store.flush(); record(store, 1000); store.stop()
        """,
        tmp_path,
    )
    assert told["state"] == "failed"
    (warning,) = told["warnings"]
    assert "File too large" in warning
    assert 300 < recorded(tmp_path) < 500
    # What is there can be gone on with.
    with JobEventStore(tmp_path, 2, replay(tmp_path).position) as store:
        store.write_event(finished(recorded(tmp_path)))
    assert replay(tmp_path).epochs[-1] == (2, 1)


def test_a_directory_that_may_not_be_written_ends_the_recording() -> None:
    # Not below pytest's directory, which others than its owner can't even enter.
    directory = Path(tempfile.mkdtemp())
    try:
        directory.chmod(0o555)
        told = run(
            """
            if os.getuid() == 0:
                os.setuid(65534)
            store = JobEventStore(directory, 1, START)
            record(store, 100)
            store.flush(); record(store, 100); store.stop()
            """,
            directory,
        )
        assert told["state"] == "failed"
        (warning,) = told["warnings"]
        assert "Permission denied" in warning
        assert told["handed_over"] <= 100
        assert event_files(directory) == {}
    finally:
        directory.rmdir()


def test_a_full_disk_ends_the_recording(tmp_path: Path) -> None:
    try:
        unshare = unshare_command(tmp_path)
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    place = tmp_path / "full"
    place.mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs "$0" && "$@" && cp -r "$0/job" "$0.copy"'
    told = run(
        """
        store = JobEventStore(directory / "job", 1, START, write_buffer_size=10_000)
        record(store, 2000)
        store.flush(); record(store, 1000); store.stop()
        """,
        place,
        *(*unshare, "sh", "-c", script, str(place)),
    )
    assert told["state"] == "failed"
    (warning,) = told["warnings"]
    assert "No space left on device" in warning
    assert 300 < recorded(tmp_path / "full.copy") < 600


def test_an_event_that_is_too_far_ahead_of_the_disk_ends_the_recording(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = JobEventStore(tmp_path, 1, START, pending_limit=10_000)
    store.write_event(finished(0))
    assert store.flush()
    large = ExecutionVertexFinished(JobVertexID("0f"), 1, 0, coordinator_snapshot=bytes(10_000))
    assert not store.write_event(large)
    assert store.state is RecordingState.FAILED
    assert not store.write_event(finished(2))
    assert not store.stop()
    assert recorded(tmp_path) == 1
    assert len(caplog.records) == 1
    assert "more than 10,000 bytes are waiting" in caplog.text


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
    told = run(
        """
        import contextlib, subprocess
        from holdfast.eventstore.replay import replay

        @contextlib.contextmanager
        def frozen():
            # Whatever becomes of this process, nothing stays frozen.
            thaw = subprocess.Popen(
                ["sh", "-c", 'sleep 30; fsfreeze -u "$0"', directory], start_new_session=True)
            subprocess.run(["fsfreeze", "-f", directory], check=True)
            try:
                yield
            finally:
                subprocess.run(["fsfreeze", "-u", directory], check=True)
                os.killpg(thaw.pid, 9)

        store = JobEventStore(directory / "job", 1, START, pending_limit=4_000_000)
        record(store, 1000)
        assert store.flush()
        with frozen():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            times.clear()
            record(store, 200_000)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert after - before < 40_000, (before, after)
            started = time.perf_counter()
            assert not store.flush() and not store.stop()
            assert time.perf_counter() - started < 1
        # What was under way when the disk hung is written whole once it doesn't any more.
        store._writer._thread.join(10)
        found = [event.subtask for event in replay(directory / "job").events]
        assert 1000 <= len(found) <= handed_over and found == list(range(len(found)))
        with frozen():
            assert not store.clear(timedelta(milliseconds=100))
        assert store.clear()
        assert not replay(directory / "job").events
        """,
        place,
        *shell,
    )
    assert told["state"] == "failed"
    (warning,) = told["warnings"]
    assert "more than 4,000,000 bytes are waiting" in warning
    assert told["slowest"] < 1
    assert 1000 + 20_000 < told["handed_over"] < 1000 + 40_000
