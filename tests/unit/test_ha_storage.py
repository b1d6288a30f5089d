"""What a start of a job finds of earlier ones, and what it leaves."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability import ha_storage
from holdfast.highavailability.ha_storage import FORGOTTEN_AFTER, HighAvailabilityStorage
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import RecordStatus, VertexProgress
from holdfast.highavailability.job_start import JobStart

A, B, C, D = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
QUERY = JobIdentity(digest=A, action="collect", vertices=(B, C))
WRITE = JobIdentity(digest=A, action="save", sink="file:/out", vertices=(B, C))
DONE = VertexProgress(name="scan", done=4, all=4)
HALF = VertexProgress(name="join", done=1, all=4)
FINISHED = JobStatus.FINISHED

Program = Callable[[], HighAvailabilityStorage]


def but(identity: JobIdentity, **changes: Any) -> JobIdentity:
    return identity.model_copy(update=changes)


CHANGED, NAMED = but(WRITE, digest=D, vertices=(C, D)), but(QUERY, name="nightly")


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # No machine stops here.
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ha"


@pytest.fixture
def program(root: Path) -> Iterator[Program]:
    """Starts programs, with a storage each."""
    started: list[HighAvailabilityStorage] = []

    def start() -> HighAvailabilityStorage:
        started.append(HighAvailabilityStorage(root, uuid.uuid4().hex))
        return started[-1]

    yield start
    for storage in started:
        storage.close()


def is_killed(*starts: JobStart) -> None:
    """Leaves what the operating system leaves of a driver that is killed: everything but locks."""
    for start in starts:
        start.let_go()


def previous_vertices(start: JobStart) -> object:
    return None if start.previous is None else start.previous.vertices


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno >= logging.WARNING]


def states(storage: HighAvailabilityStorage) -> list[str]:
    return [job.state.value for job in storage.jobs()]


# -- the directory


def test_everything_is_its_owner_s_alone(root: Path, program: Program) -> None:
    storage = program()
    start = storage.begin(WRITE)
    storage.seal_key()
    start.journal.write("a stage")
    start.update(sources=[1])
    assert root.stat().st_mode & 0o777 == 0o700
    for path in root.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_directory_that_can_t_be_made_or_that_others_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "ha"):
        with pytest.raises(StorageError, match="can't be used to record jobs"):
            HighAvailabilityStorage(root)
    for mode in (0o770, 0o702):
        tmp_path.chmod(mode)
        with pytest.raises(StorageError, match="writable by other users"):
            HighAvailabilityStorage(tmp_path)


# -- a job's life


def test_a_job_begins_and_leaves_nothing(root: Path, program: Program) -> None:
    (root / "job-of-somebody").mkdir(parents=True, mode=0o700)
    start = program().begin(QUERY, "the answer")
    assert (start.job_id, start.epoch, start.previous) == (QUERY.job_id, 1, None)
    assert not (start.already_done or start.changed)
    assert (start.record.name, start.record.driver.pid) == ("the answer", os.getpid())
    start.end(FINISHED, keep=False)
    assert start.ended
    # What is not ours is left alone.
    assert [path.name for path in root.glob("job-*")] == ["job-of-somebody"]


def test_the_next_start_finds_what_a_killed_one_recorded(program: Program) -> None:
    first = program().begin(QUERY)
    first.update(task_executors=["right:2", "left:1"], vertices={B: DONE, C: HALF}, sources=[1])
    first.events_directory.mkdir()
    (first.events_directory / "events").touch()
    # Nor is it lost where a start does nothing.
    is_killed(first, program().begin(QUERY))
    third = program().begin(QUERY)
    assert third.job_id == first.job_id
    assert third.previous is not None
    assert third.previous.vertices == {B: DONE, C: HALF}
    assert third.previous.task_executors == ("left:1", "right:2")
    assert third.previous.sources == [1]
    assert (third.record.starts, third.record.begun) == (3, first.record.begun)
    assert not (third.already_done or third.changed)
    assert (third.events_directory / "events").exists()


def test_what_was_written_is_not_written_again_unless_its_program_has_ended(
    root: Path, program: Program
) -> None:
    writes = program()
    for _ in range(2):
        # What it writes twice is written twice.
        start = writes.begin(WRITE)
        assert not start.already_done
        start.end(FINISHED, keep=True)
    for _ in range(4):
        last = program()
        assert last.begin(WRITE).already_done
        # Paths don't grow with each start.
        assert not list((root / "programs").glob("*/*/*"))
    assert last.close() and last.close()
    assert not list((root / "programs").iterdir())
    # A program that runs twice in one process was not killed.
    first, second = (HighAvailabilityStorage(root, "this process") for _ in range(2))
    first.begin(WRITE).end(FINISHED, keep=True)
    assert not second.begin(WRITE).already_done
    first.close()
    second.close()


# -- two starts of one job


def refuses_everything(old: JobStart) -> None:
    acts: list[Callable[[], object]] = [
        old.check,
        old.take_fresh_epoch,
        lambda: old.update(vertices={B: DONE}),
        lambda: old.update(sources=[1]),
        lambda: old.journal.write("older"),
        lambda: old.end(FINISHED, keep=True),
        lambda: old.end(JobStatus.FAILED, keep=False),
    ]
    for act in acts:
        with pytest.raises(StaleEpochError) as raised:
            act()
        assert raised.value.newest > raised.value.epoch == old.epoch
    old.remove()


def test_an_old_start_is_refused_everything_even_after_the_job_s_end(program: Program) -> None:
    old = program().begin(WRITE)
    old.journal.write("old")
    new = program().begin(WRITE)
    refuses_everything(old)
    assert new.journal.read() == "old"
    assert previous_vertices(new) == {}
    new.check()
    new.end(FINISHED, keep=False)
    refuses_everything(old)
    again = program().begin(WRITE)
    assert again.epoch > new.epoch
    refuses_everything(old)
    again.check()


def test_a_driver_that_stands_still_over_the_storage_s_lock_is_not_waited_for_long(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ha_storage, "_PATIENCE_SECONDS", 0.05)
    first = program().begin(QUERY)
    with (root / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert program().begin(QUERY).epoch > first.epoch


# -- programs that changed


def test_a_changed_program_resumes_the_job_that_it_shares_most_with(program: Program) -> None:
    less, more = program().begin(WRITE), program().begin(but(WRITE, digest=B, vertices=()))
    # What a job is cut into may be known later.
    more.update(vertices={C: HALF, D: HALF, A: HALF})
    more.journal.write("a stage")
    is_killed(less, more)
    start = program().begin(CHANGED)
    assert start.changed
    assert start.job_id == more.job_id != CHANGED.job_id
    assert start.previous is not None
    assert start.previous.epoch == more.epoch
    assert (start.journal.read(), start.identity) == ("", CHANGED)
    assert not more.directory.exists()
    # Its driver may have been disconnected, and not killed.
    refuses_everything(more)
    start.check()
    is_killed(start)
    again = program().begin(CHANGED)
    assert (again.job_id, again.changed, again.previous) == (more.job_id, False, start.record)


def test_a_program_that_is_as_it_was_once_finds_its_job_or_begins_another(program: Program) -> None:
    first = program().begin(WRITE)
    is_killed(first)
    moved = program().begin(CHANGED)
    # Its job is another program's now.
    original = program().begin(but(WRITE, vertices=()))
    assert original.job_id not in (first.job_id, CHANGED.job_id)
    assert original.previous is None
    moved.check()
    original.end(FINISHED, keep=False)
    is_killed(moved)
    back = program().begin(WRITE)
    assert (back.job_id, back.directory) == (first.job_id, first.directory)
    assert back.previous is not None
    assert not moved.directory.exists()


def test_a_named_job_is_found_however_it_changed(program: Program) -> None:
    first = program().begin(NAMED)
    first.journal.write("a stage")
    is_killed(first)
    start = program().begin(but(NAMED, digest=D, vertices=()))
    assert (start.job_id, start.changed, start.journal.read()) == (first.job_id, True, "")
    assert start.previous is not None


# What was killed, has ended or runs, and what begins then.
OTHERS: dict[str, tuple[JobIdentity, JobIdentity, str]] = {
    "nothing shared": (WRITE, but(CHANGED, vertices=(D,)), "killed"),
    "another sink": (WRITE, but(CHANGED, sink="file:/other"), "killed"),
    "no sink": (WRITE, but(CHANGED, action="collect", sink=None, vertices=(B, C)), "killed"),
    "two answers": (QUERY, but(QUERY, digest=D), "killed"),
    "another occurrence": (QUERY, but(QUERY, occurrence=1), "killed"),
    "a name": (QUERY, NAMED, "killed"),
    "ended": (WRITE, CHANGED, "ended"),
    "running": (WRITE, CHANGED, "running"),
    "ended, of a name": (but(WRITE, name="n"), but(WRITE, name="n", digest=D), "ended"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_another_job_takes_nothing_over(program: Program, what: str) -> None:
    before, other, becomes = OTHERS[what]
    job = program().begin(before)
    if becomes == "ended":
        job.end(FINISHED, keep=True)
    if becomes != "running":
        is_killed(job)
    start = program().begin(other)
    assert (start.changed, start.already_done, start.previous) == (False, False, None)
    assert start.job_id == other.job_id
    if becomes != "ended":
        job.check()


# -- damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "another version": lambda path: path.write_text(
        path.read_text().replace('"version": 1', '"version": 2')
    ),
    "another epoch": lambda path: path.write_text(
        path.read_text().replace('"epoch": 1', '"epoch": 7')
    ),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_job_whose_record_is_damaged_begins_from_scratch(
    program: Program, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    first = program().begin(WRITE)
    first.events_directory.mkdir()
    (record,) = first.directory.glob("record-*")
    is_killed(first)
    DAMAGES[damage](record)
    storage = program()
    assert states(storage) == ["damaged"]
    start = storage.begin(WRITE)
    assert (start.previous, start.already_done) == (None, False)
    assert not start.events_directory.exists()
    assert ["rerunning from scratch" in each for each in warnings(caplog)] == [True]
    start.update(vertices={B: HALF})
    is_killed(start)
    assert previous_vertices(program().begin(WRITE)) == {B: HALF}


def test_what_is_damaged_beside_the_record_is_made_again(
    root: Path, program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    first = program().begin(QUERY)
    first.update(sources=["s"])
    (path,) = first.directory.glob("sources-*")
    is_killed(first)
    path.write_bytes(b"[")
    start = program().begin(QUERY)
    assert start.previous is not None and start.previous.sources is None
    assert ["relisting the sources" in each for each in warnings(caplog)] == [True]
    key = program().seal_key()
    assert program().seal_key() == key
    (root / "seal-key").write_bytes(b"short")
    assert program().seal_key() == program().seal_key() != key


def test_a_storage_that_can_t_be_used_any_more_says_so(root: Path, program: Program) -> None:
    storage = program()
    gone, start = storage.begin(WRITE), storage.begin(QUERY)
    shutil.rmtree(start.directory / "epochs")
    (start.directory / "epochs").write_text("not a directory")
    with pytest.raises(StorageError, match="can't determine"):
        start.check()
    with pytest.raises(StorageError):
        start.journal.write("x")
    assert not start.update(vertices={B: DONE})
    start.end(FINISHED, keep=False)
    (root / "seal-key").mkdir()
    with pytest.raises(StorageError, match="the seal key can't be used"):
        storage.seal_key()
    shutil.rmtree(root)
    with pytest.raises(StorageError, match="can't be recorded"):
        storage.begin(QUERY)
    with pytest.raises(StaleEpochError) as raised:
        gone.check()
    assert raised.value.newest > gone.epoch


def test_a_job_continues_when_its_directory_can_t_be_written(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    start = program().begin(WRITE)
    # A directory in its place is what even root can't write over.
    (record,) = start.directory.glob("record-*")
    record.unlink()
    (record / "in the way").mkdir(parents=True)
    assert not start.update(vertices={B: DONE})
    assert not start.update(vertices={B: HALF})
    start.check()
    start.end(FINISHED, keep=True)
    (warned,) = warnings(caplog)
    assert "continues unrecorded" in warned
    assert start.record.vertices == {B: HALF}
    with pytest.raises(StaleEpochError):
        program().begin(WRITE)
        start.update(vertices={})


# -- listing and forgetting


@pytest.mark.parametrize("ended", [False, True])
def test_what_a_killed_program_has_half_removed_goes_with_the_next_start(
    program: Program, ended: bool
) -> None:
    start = program().begin(WRITE)
    start.journal.write("of another start")
    if ended:
        start.end(FINISHED, keep=False)
        start.events_directory.mkdir(parents=True)
    else:
        is_killed(start)
        next(start.directory.glob("record-*")).unlink()
        shutil.rmtree(start.directory / "epochs")
    assert program().jobs() == ()
    assert not start.directory.exists()


@pytest.mark.parametrize("ended", [False, True])
def test_an_abandoned_job_is_forgotten(program: Program, ended: bool) -> None:
    old = datetime.now(timezone.utc) - FORGOTTEN_AFTER - timedelta(minutes=1)
    storage = program()
    starts = [storage.begin(but(WRITE, occurrence=number)) for number in range(3)]
    forgotten, younger, living = starts
    for start in starts:
        moment = old + timedelta(minutes=2 * (start is younger))
        changes: dict[str, object] = {"started": moment}
        if ended:
            changes |= {"status": RecordStatus.ENDED, "job_status": FINISHED, "ended": moment}
        JobDirectory(start.directory).write_record(start.record.model_copy(update=changes))
    is_killed(forgotten, younger)
    assert {job.job_id for job in program().jobs()} == {younger.job_id, living.job_id}


def test_a_program_holds_no_files_of_jobs_that_it_has_ended(program: Program) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    storage = program()
    before = open_files()
    for _ in range(20):
        storage.begin(QUERY).end(FINISHED, keep=False)
    assert open_files() == before
    storage.begin(WRITE).end(FINISHED, keep=True)
    assert open_files() == before + 1
    storage.close()
    assert open_files() == before


@contextmanager
def forked(act: Callable[[], object]) -> Iterator[Callable[[int], None]]:
    """A child that has done something, and waits; gives what sends it a signal."""
    ready, is_ready = os.pipe()
    child = os.fork()
    if child == 0:
        act()
        os.write(is_ready, b".")
        signal.pause()
    try:
        os.read(ready, 1)
        yield lambda number: os.kill(child, number)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(is_ready)


def test_a_child_that_was_forked_off_does_not_stand_in_for_its_driver(program: Program) -> None:
    storage = program()
    start = storage.begin(QUERY)
    with forked(lambda: None):
        assert states(storage) == ["running"]
        is_killed(start)
        assert states(storage) == ["recoverable"]


def test_a_stopped_driver_runs_its_job_and_a_killed_one_does_not(program: Program) -> None:
    with forked(lambda: program().begin(QUERY)) as send:
        for number in (signal.SIGSTOP, signal.SIGCONT):
            send(number)
            assert states(program()) == ["running"]
    assert states(program()) == ["recoverable"]
