"""What a start of a job finds of earlier ones, and what it leaves."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability import ha_storage, job_directory
from holdfast.highavailability.ha_storage import FORGOTTEN_AFTER, HighAvailabilityStorage
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_listing import JobState, KnownJob
from holdfast.highavailability.job_record import JobRecord, RecordStatus, VertexProgress
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import JobID

A, B, C, D = ("1" * 64, "2" * 64, "3" * 64, "4" * 64)
QUERY = JobIdentity(digest=A, action="collect", vertices=(B, C))
OUT = "file:/out"
BEFORE = JobIdentity(digest=A, action="save", sink=OUT, vertices=(B, C))
CHANGED = JobIdentity(digest=D, action="save", sink=OUT, vertices=(C, D))
WRITE = JobIdentity(digest=A, action="save", sink="file:/out")
DONE = VertexProgress(name="scan", done=4, all=4)
HALF = VertexProgress(name="join", done=1, all=4)

Program = Callable[[], HighAvailabilityStorage]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ha"


@pytest.fixture
def program(root: Path) -> Iterator[Program]:
    """Starts programs, each with a storage of its own."""
    started: list[HighAvailabilityStorage] = []

    def start() -> HighAvailabilityStorage:
        started.append(HighAvailabilityStorage(root, uuid.uuid4().hex))
        return started[-1]

    yield start
    for storage in started:
        storage.close()


def is_killed(start: JobStart) -> None:
    """Leaves what the operating system leaves of a driver that is killed: everything but locks."""
    start.let_go()


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
    for directory, names, files in os.walk(root):
        for name in names:
            assert Path(directory, name).stat().st_mode & 0o777 == 0o700
        for name in files:
            assert Path(directory, name).stat().st_mode & 0o777 == 0o600
    assert root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_directory_that_others_can_write_to_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(StorageError, match="writable by other users"):
        HighAvailabilityStorage(root)


def test_a_directory_that_can_t_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "ha"):
        with pytest.raises(StorageError, match="can't be used to record jobs"):
            HighAvailabilityStorage(root)


def test_a_directory_that_can_t_be_written_to_is_refused(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("nothing is refused to root")
    tmp_path.chmod(0o500)
    with pytest.raises(StorageError, match="can't be used to record jobs"):
        HighAvailabilityStorage(tmp_path)


def test_what_is_not_ours_is_left_alone(root: Path, program: Program) -> None:
    (root / "job-of-somebody").mkdir(parents=True, mode=0o700)
    (root / "notes.txt").write_text("mine")
    program().begin(QUERY).end(JobStatus.FINISHED, keep=False)
    assert {"job-of-somebody", "notes.txt"} <= {path.name for path in root.iterdir()}


# -- a job's life


def test_a_job_that_begins_finds_nothing(program: Program) -> None:
    start = program().begin(QUERY, "the answer")
    assert start.job_id == QUERY.job_id
    assert (start.epoch, start.previous) == (1, None)
    assert not (start.already_done or start.changed or start.ended)
    assert start.journal.read() == ""
    assert start.record.driver.pid == os.getpid()
    assert start.record.driver.host == socket.gethostname()
    assert start.record.name == "the answer"
    assert not start.events_directory.exists()
    start.check()


def test_a_job_that_was_killed_is_gone_on_with(program: Program) -> None:
    first = program().begin(QUERY)
    first.update(
        task_executors=["right:2", "left:1"],
        vertices={B: DONE, C: HALF},
        sources={"files": [["a", 1]]},
    )
    first.events_directory.mkdir()
    (first.events_directory / "events").touch()
    is_killed(first)
    second = program().begin(QUERY)
    assert second.job_id == first.job_id
    assert second.epoch > first.epoch
    assert second.previous is not None
    assert second.previous.epoch == first.epoch
    assert second.previous.vertices == {B: DONE, C: HALF}
    assert second.previous.task_executors == ("left:1", "right:2")
    assert second.previous.sources == {"files": [["a", 1]]}
    assert (second.record.starts, second.record.begun) == (2, first.record.begun)
    assert not (second.already_done or second.changed)
    assert (second.events_directory / "events").exists()


def test_what_a_start_that_did_nothing_had_found_is_found_by_the_next(program: Program) -> None:
    first = program().begin(QUERY)
    first.update(task_executors=["left:1"], vertices={B: HALF}, sources=["s"])
    is_killed(first)
    is_killed(program().begin(QUERY))
    third = program().begin(QUERY)
    assert third.previous is not None
    assert third.previous.task_executors == ("left:1",)
    assert third.previous.vertices == {B: HALF}
    assert third.previous.sources == ["s"]
    third.update(vertices={B: DONE})
    is_killed(third)
    fourth = program().begin(QUERY)
    assert fourth.previous is not None
    assert (fourth.previous.sources, fourth.previous.vertices) == (["s"], {B: DONE})
    assert fourth.record.starts == 4


def test_a_job_that_ended_leaves_nothing(root: Path, program: Program) -> None:
    storage = program()
    start = storage.begin(QUERY)
    start.update(vertices={B: DONE})
    start.end(JobStatus.FINISHED, keep=False)
    assert start.ended
    assert storage.jobs() == ()
    assert not [path for path in root.iterdir() if path.name.startswith(("job-", ".removed-"))]
    again = program().begin(QUERY)
    assert again.previous is None
    assert again.epoch > start.epoch


def test_epochs_never_come_back(program: Program) -> None:
    storage = program()
    epochs = []
    for _ in range(5):
        for identity in (QUERY, WRITE):
            start = storage.begin(identity)
            epochs.append(start.epoch)
            start.end(JobStatus.FINISHED, keep=False)
    assert epochs == sorted(set(epochs))


def test_jobs_know_nothing_of_each_other(program: Program) -> None:
    storage = program()
    others = [
        QUERY.model_copy(update={"occurrence": 1}),
        QUERY.model_copy(update={"name": "n"}),
        WRITE,
    ]
    first = storage.begin(QUERY)
    for identity in others:
        assert storage.begin(identity).previous is None
    first.check()
    assert len(storage.jobs()) == 4


# -- two starts of one job


def test_an_old_start_is_refused_everything(program: Program) -> None:
    old = program().begin(WRITE)
    old.journal.write("old")
    new = program().begin(WRITE)
    refused: list[Callable[[], object]] = [
        old.check,
        lambda: old.update(vertices={B: DONE}),
        lambda: old.update(sources=[1]),
        lambda: old.journal.write("older"),
        lambda: old.end(JobStatus.FINISHED, keep=True),
        lambda: old.end(JobStatus.FAILED, keep=False),
        old.take_fresh_epoch,
    ]
    for act in refused:
        with pytest.raises(StaleEpochError) as raised:
            act()
        assert (raised.value.epoch, raised.value.newest) == (old.epoch, new.epoch)
    assert new.journal.read() == "old"
    assert new.previous is not None
    assert new.previous.vertices == {}
    old.remove()
    new.check()
    assert new.directory.is_dir()


def test_an_old_start_is_refused_after_the_job_has_ended(program: Program) -> None:
    old = program().begin(WRITE)
    new = program().begin(WRITE)
    new.end(JobStatus.FINISHED, keep=False)
    with pytest.raises(StaleEpochError):
        old.check()
    with pytest.raises(StaleEpochError):
        old.journal.write("x")
    with pytest.raises(StaleEpochError):
        old.end(JobStatus.FINISHED, keep=False)
    again = program().begin(WRITE)
    assert again.epoch > new.epoch > old.epoch
    with pytest.raises(StaleEpochError):
        old.check()


def test_what_an_old_start_writes_too_late_counts_for_nothing(program: Program) -> None:
    """As when it is stopped between its check and its writing."""
    old = program().begin(WRITE)
    new = program().begin(WRITE)
    new.update(vertices={B: HALF}, sources=["new"])
    new.journal.write("new")
    directory = JobDirectory(old.directory)
    directory.write_journal(old.epoch, "old")
    directory.write_sources(old.epoch, ["old"])
    directory.write_record(old.record.model_copy(update={"vertices": {B: DONE}}))
    is_killed(new)
    third = program().begin(WRITE)
    assert third.previous is not None
    assert (third.previous.vertices, third.previous.sources) == ({B: HALF}, ["new"])
    assert third.journal.read() == "new"


def test_whoever_begins_while_the_job_ends_begins_anew(program: Program) -> None:
    """Many starts and ends at once: each start is alone with its epoch, or refused."""
    storages = [program() for _ in range(4)]
    begin = threading.Barrier(4)

    def run(storage: HighAvailabilityStorage) -> list[int]:
        begin.wait()
        epochs = list[int]()
        while len(epochs) < 12:
            try:
                start = storage.begin(QUERY)
                epochs.append(start.epoch)
                start.update(vertices={B: DONE})
                start.end(JobStatus.FINISHED, keep=False)
            except StaleEpochError as error:
                assert error.newest > error.epoch
        return epochs

    with ThreadPoolExecutor(4) as pool:
        epochs = [epoch for each in pool.map(run, storages) for epoch in each]
    assert len(set(epochs)) == len(epochs) == 48


def test_a_start_that_is_overtaken_while_it_begins_is_refused(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were both to try again, neither might come to an end."""
    slow, fast, begun = program(), program(), list[JobStart]()
    meanwhile(monkeypatch, "claim", lambda: begun.append(fast.begin(WRITE)))
    with pytest.raises(StaleEpochError):
        slow.begin(WRITE)
    begun[0].check()


@pytest.mark.parametrize("step", ["fence", "write_record"])
def test_who_is_overtaken_while_it_begins_takes_nothing_over(
    program: Program, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its record is read by nobody, so that nobody would know what was done for it."""
    slow, fast = program(), program()

    def overtake() -> None:
        fast.begin(WRITE).end(JobStatus.FINISHED, keep=True)

    meanwhile(monkeypatch, step, overtake)
    with pytest.raises(StaleEpochError):
        slow.begin(WRITE)
    slow.close(interrupted=True)
    assert program().begin(WRITE).already_done


def test_a_start_that_newer_ones_have_come_and_gone_before_takes_another_epoch(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That its own is the newest that is left says nothing any more."""
    slow, claim_epoch, gone = program(), job_directory.claim_epoch, list[int]()

    def claimed(epochs: Path, epoch: int) -> bool:
        monkeypatch.setattr(job_directory, "claim_epoch", claim_epoch)
        fast = program()
        start = fast.begin(WRITE)
        start.end(JobStatus.FINISHED, keep=True)
        fast.close()
        gone.extend([epoch, start.epoch])
        # Yet another one is about to begin.
        epochs.mkdir(parents=True)
        return claim_epoch(epochs, epoch)

    monkeypatch.setattr(ha_storage, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(job_directory, "claim_epoch", claimed)
    start = slow.begin(WRITE)
    assert gone[0] < gone[1] < start.epoch
    assert (start.previous, start.already_done) == (None, False)


FIRST, SECOND = (WRITE.model_copy(update={"occurrence": each}) for each in range(2))


def test_of_two_runs_that_take_over_from_one_another_one_is_refused(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = program(), program()
    slow.begin(FIRST).end(JobStatus.FINISHED, keep=True)

    def overtake() -> None:
        assert fast.begin(FIRST).already_done
        fast.begin(SECOND)

    meanwhile(monkeypatch, "newest_epoch", overtake)
    with pytest.raises(StaleEpochError):
        slow.begin(SECOND)
    # It may begin anew where the other one was in its way.
    fast.begin(SECOND).end(JobStatus.FINISHED, keep=True)
    last = program()
    assert all(last.begin(each).already_done for each in (FIRST, SECOND))
    assert len(last.done_jobs()) == 2
    slow.close()
    last.close()
    assert not any(program().begin(each).already_done for each in (FIRST, SECOND))


def test_a_run_that_has_ended_with_another_takes_nothing_over(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, new = program(), program()
    slow.begin(FIRST).end(JobStatus.FINISHED, keep=True)

    def overtake() -> None:
        for storage in (program(), new):
            assert storage.begin(FIRST).already_done is (storage is not new)
            storage.begin(SECOND).end(JobStatus.FINISHED, keep=True)
            storage.close(interrupted=storage is new)

    meanwhile(monkeypatch, "newest_epoch", overtake)
    with pytest.raises(StaleEpochError):
        slow.begin(SECOND)
    slow.close()
    assert program().begin(SECOND).already_done


def test_a_run_goes_on_with_all_that_were_killed_before(root: Path, program: Program) -> None:
    program().begin(WRITE).end(JobStatus.FINISHED, keep=True)
    for _ in range(4):
        last = program()
        assert last.begin(WRITE).already_done
        paths = [path.relative_to(root) for path in (root / "programs").rglob("*")]
        assert max(len(path.parts) for path in paths) == 3
    last.close()
    assert not list((root / "programs").iterdir())
    assert not program().begin(WRITE).already_done


def meanwhile(patch: pytest.MonkeyPatch, step: str, does: Callable[[], object]) -> None:
    """Something is done before the next step of a job's directory, as by another program."""
    real, to_do = getattr(JobDirectory, step), [does]

    def call(*args: object, **kwargs: object) -> object:
        if to_do:
            to_do.pop()()
        return real(*args, **kwargs)

    # Whoever does it doesn't wait for the other one's lock.
    patch.setattr(ha_storage, "_PATIENCE_SECONDS", 0)
    patch.setattr(JobDirectory, step, call)


def test_threads_may_record_at_once(program: Program) -> None:
    start = program().begin(WRITE)
    begin = threading.Barrier(6)

    def record(number: int) -> None:
        begin.wait()
        for _ in range(10):
            assert start.update(task_executors=[str(number)])
            start.journal.write(str(number))
            start.update(vertices={B: VertexProgress(name=str(number))}, sources=[number])
            start.check()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(record, range(6)))
    is_killed(start)
    again = program().begin(WRITE)
    assert again.previous is not None
    assert again.previous.vertices == start.record.vertices
    assert again.previous.task_executors == start.record.task_executors
    assert again.previous.sources == start.record.sources
    assert again.journal.read() in "012345"


def test_a_job_may_start_anew_by_itself(program: Program) -> None:
    is_killed(program().begin(QUERY))
    start = program().begin(QUERY)
    start.update(vertices={B: DONE}, sources=["s"])
    start.events_directory.mkdir()
    before = start.epoch
    assert start.take_fresh_epoch() == start.epoch > before
    assert start.previous is None
    assert not start.events_directory.exists()
    start.check()
    assert [job.driven for job in program().jobs()] == [True]
    is_killed(start)
    after = program().begin(QUERY)
    assert after.previous is not None
    assert (after.previous.vertices, after.previous.sources) == ({}, None)


# -- jobs with a sink


def test_a_written_job_is_not_done_again_after_a_kill(program: Program) -> None:
    first = program().begin(WRITE)
    first.update(sources=["large"])
    first.end(JobStatus.FINISHED, keep=True)
    is_killed(first)
    for _ in range(3):
        # Each of these programs is killed as well.
        storage = program()
        start = storage.begin(WRITE)
        assert start.already_done
        assert start.previous is not None
        assert start.previous.sources == ["large"]
        assert start.ended
        assert states(storage) == ["ended"]
        is_killed(start)
    storage = program()
    start = storage.begin(WRITE)
    assert start.already_done
    start.end(JobStatus.FINISHED, keep=True)
    storage.close()
    again = program().begin(WRITE)
    assert (again.already_done, again.previous) == (False, None)


def test_a_written_job_is_done_again_when_its_program_ended(program: Program) -> None:
    storage = program()
    storage.begin(WRITE).end(JobStatus.FINISHED, keep=True)
    assert states(storage) == ["ended"]
    storage.close()
    start = program().begin(WRITE)
    assert (start.already_done, start.previous) == (False, None)


def test_a_written_job_is_not_done_again_while_its_first_program_hangs(program: Program) -> None:
    hanging = program()
    hanging.begin(WRITE).end(JobStatus.FINISHED, keep=True)
    second = program()
    assert second.begin(WRITE).already_done
    # Woken up, the first one does no harm to what the second has taken over.
    hanging.close()
    assert program().begin(WRITE).already_done


def test_a_written_job_is_done_again_in_the_same_process(root: Path) -> None:
    first, second = (HighAvailabilityStorage(root, "this process") for _ in range(2))
    first.begin(WRITE).end(JobStatus.FINISHED, keep=True)
    assert not second.begin(WRITE).already_done
    first.close()
    second.close()


def test_a_program_that_is_interrupted_leaves_what_it_has_done(program: Program) -> None:
    storage = program()
    storage.begin(WRITE).end(JobStatus.FINISHED, keep=True)
    storage.close(interrupted=True)
    assert program().begin(WRITE).already_done


def test_a_program_ends_in_one_step_for_all_of_its_jobs(root: Path, program: Program) -> None:
    storage = program()
    others = [WRITE.model_copy(update={"occurrence": number}) for number in range(3)]
    for each in others:
        storage.begin(each).end(JobStatus.FINISHED, keep=True)
    (run,) = (root / "programs").iterdir()
    # As far as a program comes that is killed over its end.
    run.rmdir()
    again = program()
    assert not any(again.begin(each).already_done for each in others)


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.CANCELED])
def test_a_job_that_failed_is_done_again(program: Program, status: JobStatus) -> None:
    first = program().begin(WRITE)
    first.end(status, keep=True)
    is_killed(first)
    start = program().begin(WRITE)
    assert (start.already_done, start.previous) == (False, None)


def test_a_job_without_a_sink_is_never_done_already(program: Program) -> None:
    first = program().begin(QUERY)
    first.end(JobStatus.FINISHED, keep=True)
    is_killed(first)
    start = program().begin(QUERY)
    assert (start.already_done, start.previous) == (False, None)


def test_a_named_job_that_computes_something_else_is_not_done_already(program: Program) -> None:
    named = WRITE.model_copy(update={"name": "nightly"})
    first = program().begin(named)
    first.end(JobStatus.FINISHED, keep=True)
    is_killed(first)
    start = program().begin(named.model_copy(update={"digest": D}))
    assert start.job_id == first.job_id
    assert (start.already_done, start.previous) == (False, None)


def test_many_programs_end_at_their_own_pace(program: Program) -> None:
    """Closing a program leaves the jobs of another one alone."""
    one, other = program(), program()
    one.begin(WRITE).end(JobStatus.FINISHED, keep=True)
    mine = other.begin(WRITE)
    one.close()
    mine.check()
    mine.end(JobStatus.FINISHED, keep=True)
    one.close()
    assert states(other) == ["ended"]
    other.close()
    assert other.jobs() == ()


# -- programs that changed


def test_a_changed_program_goes_on_with_what_it_shares_most_with(program: Program) -> None:
    storage = program()
    less = storage.begin(BEFORE)
    more = storage.begin(JobIdentity(digest=B, action="save", sink=OUT, vertices=(C, D, A)))
    more.journal.write("a stage")
    for start in (less, more):
        is_killed(start)
    start = program().begin(CHANGED)
    assert start.changed
    assert start.job_id == more.job_id != CHANGED.job_id
    assert start.previous is not None
    assert start.previous.epoch == more.epoch
    assert start.journal.read() == ""
    assert start.identity == CHANGED


def test_a_job_is_known_by_what_it_was_cut_into_later(program: Program) -> None:
    first = program().begin(JobIdentity(digest=A, action="save", sink=OUT))
    first.update(vertices={C: HALF})
    is_killed(first)
    assert program().begin(CHANGED).job_id == first.job_id


def test_a_changed_program_is_found_again_by_itself(program: Program) -> None:
    first = program().begin(BEFORE)
    is_killed(first)
    is_killed(program().begin(CHANGED))
    again = program().begin(CHANGED)
    assert again.job_id == first.job_id
    assert again.previous is not None
    assert not again.changed
    # The program as it was before: its job's directory is somebody else's now.
    original = program().begin(BEFORE.model_copy(update={"vertices": ()}))
    assert original.job_id not in (first.job_id, CHANGED.job_id)
    assert original.previous is None
    again.check()
    is_killed(original)
    assert program().begin(BEFORE).job_id == original.job_id


def test_starts_of_a_program_that_is_as_it_was_once_find_one_job(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory that its job had is another one's since."""
    is_killed(program().begin(BEFORE))
    living = program().begin(CHANGED)
    slow, fast, begun = program(), program(), list[JobStart]()
    original = BEFORE.model_copy(update={"vertices": ()})
    meanwhile(monkeypatch, "claim", lambda: begun.append(fast.begin(original)))
    with pytest.raises(StaleEpochError):
        slow.begin(original)
    begun[0].check()
    living.check()


def test_a_job_lies_in_the_directory_of_its_identity_whatever_its_id(
    root: Path, program: Program
) -> None:
    """So that all starts of a program meet in one."""
    killed = program().begin(BEFORE)
    is_killed(killed)
    moved = program().begin(CHANGED)
    assert moved.job_id == killed.job_id
    assert moved.directory == JobDirectory.of(root, CHANGED.job_id).path
    assert not killed.directory.exists()
    assert [(job.job_id, job.directory) for job in program().jobs()] == [
        (killed.job_id, moved.directory)
    ]
    is_killed(moved)
    back = program().begin(BEFORE)
    assert (back.job_id, back.directory) == (killed.job_id, killed.directory)
    assert back.previous is not None
    assert not moved.directory.exists()


def test_a_job_that_was_moved_leaves_its_old_driver_nothing(program: Program) -> None:
    """It was disconnected, and not killed."""
    old = program().begin(BEFORE)
    old.journal.write("a stage")
    old.let_go()
    moved = program().begin(CHANGED)
    refused: list[Callable[[], object]] = [
        old.check,
        old.take_fresh_epoch,
        lambda: old.update(vertices={C: HALF}),
        lambda: old.journal.write("another stage"),
        lambda: old.end(JobStatus.FINISHED, keep=True),
    ]
    for call in refused:
        with pytest.raises(StaleEpochError):
            call()
    old.remove()
    assert not old.directory.exists()
    moved.check()
    assert moved.journal.read() == ""
    assert program().begin(CHANGED).previous == moved.record


@pytest.mark.parametrize("step", [None, "claim", "fence"])
def test_what_was_found_elsewhere_may_have_ended_by_the_time_it_is_moved(
    program: Program, monkeypatch: pytest.MonkeyPatch, step: str | None
) -> None:
    killed = program().begin(BEFORE)
    is_killed(killed)
    slow, fast = program(), program()
    find = ha_storage._left_by_a_changed_program

    def found(others: Sequence[KnownJob], identity: JobIdentity) -> KnownJob | None:
        monkeypatch.undo()
        job = find(others, identity)
        resumed = fast.begin(CHANGED)
        assert job is not None
        assert job.job_id == resumed.job_id == killed.job_id
        resumed.end(JobStatus.FINISHED, keep=True)
        if step is None:
            fast.close()
        else:
            meanwhile(monkeypatch, step, fast.close)
        return job

    monkeypatch.setattr(ha_storage, "_PATIENCE_SECONDS", 0)
    monkeypatch.setattr(ha_storage, "_left_by_a_changed_program", found)
    start = slow.begin(CHANGED)
    assert (start.previous, start.already_done) == (None, False)
    assert not killed.directory.exists()
    program().begin(CHANGED)
    with pytest.raises(StaleEpochError):
        start.check()


def begun_in_vain(root: Path, storage: HighAvailabilityStorage) -> tuple[JobDirectory, int]:
    """What a start of CHANGED leaves that is killed before it records itself."""
    directory = JobDirectory.of(root, CHANGED.job_id)
    directory.epochs.mkdir(parents=True)
    return directory, storage.next_epoch(directory)


def test_a_start_that_recorded_nothing_is_not_in_the_way(root: Path, program: Program) -> None:
    killed = program().begin(BEFORE)
    is_killed(killed)
    begun_in_vain(root, program())
    start = program().begin(CHANGED)
    assert start.job_id == killed.job_id
    assert start.previous == killed.record


def test_what_a_start_in_the_way_records_later_counts_for_nothing(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = program().begin(BEFORE)
    is_killed(killed)
    directory, epoch = begun_in_vain(root, program())
    late = killed.record.model_copy(update={"identity": CHANGED, "epoch": epoch, "starts": 9})
    move = HighAvailabilityStorage._move

    def moved(storage: HighAvailabilityStorage, left: JobDirectory, to: JobDirectory) -> None:
        move(storage, left, to)
        directory.write_record(late)

    monkeypatch.setattr(HighAvailabilityStorage, "_move", moved)
    start = program().begin(CHANGED)
    assert start.previous == killed.record
    assert program().begin(CHANGED).previous == start.record


def test_a_start_that_records_itself_is_not_moved_away(
    root: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had looked before the other job was left."""
    killed = program().begin(BEFORE)
    is_killed(killed)
    directory, epoch = begun_in_vain(root, program())
    first = killed.record.model_copy(update={"identity": CHANGED, "epoch": epoch, "starts": 9})
    meanwhile(monkeypatch, "fence", lambda: directory.write_record(first))
    start = program().begin(CHANGED)
    assert start.previous == first
    assert killed.directory.exists()


def test_a_record_that_was_written_after_its_job_had_ended_is_no_job(program: Program) -> None:
    killed, storage = program().begin(BEFORE), program()
    is_killed(killed)
    for epoch in (killed.directory / "epochs").iterdir():
        epoch.unlink()
    start = storage.begin(CHANGED)
    assert (start.job_id, start.previous) == (CHANGED.job_id, None)


def test_a_job_that_runs_is_not_taken_by_another(program: Program) -> None:
    living = program().begin(BEFORE)
    start = program().begin(CHANGED)
    assert (start.changed, start.previous, start.job_id) == (False, None, CHANGED.job_id)
    living.check()


def test_a_job_that_ended_is_not_taken_by_another(program: Program) -> None:
    ended = program().begin(BEFORE)
    ended.end(JobStatus.FINISHED, keep=True)
    is_killed(ended)
    assert program().begin(CHANGED).previous is None


def test_a_job_that_shares_nothing_is_not_taken(program: Program) -> None:
    is_killed(program().begin(BEFORE))
    start = program().begin(JobIdentity(digest=D, action="save", sink=OUT, vertices=(D,)))
    assert start.previous is None
    assert program().begin(JobIdentity(digest=B, action="save", sink=OUT)).previous is None


@pytest.mark.parametrize("sink", [None, "file:/other"])
def test_a_job_with_another_sink_is_another_job(program: Program, sink: str | None) -> None:
    is_killed(program().begin(BEFORE))
    action = "collect" if sink is None else "save"
    another = JobIdentity(digest=D, action=action, sink=sink, vertices=(B, C))
    assert program().begin(another).previous is None
    same = program().begin(BEFORE)
    assert same.previous is not None
    assert not same.changed


def test_an_answer_does_not_take_what_another_has_left(program: Program) -> None:
    is_killed(program().begin(QUERY))
    assert program().begin(QUERY.model_copy(update={"digest": D})).previous is None


def test_a_named_job_is_found_however_it_changed(program: Program) -> None:
    named = QUERY.model_copy(update={"name": "nightly"})
    first = program().begin(named)
    first.journal.write("a stage")
    is_killed(first)
    start = program().begin(named.model_copy(update={"digest": D, "vertices": ()}))
    assert start.job_id == first.job_id
    assert start.changed
    assert start.previous is not None
    assert start.journal.read() == ""


# -- damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"\xff\xfe\x00"),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text(path.read_text().replace('"version": 1', '"version": 2')),
        lambda path: path.write_text(path.read_text().replace('"epoch": 1', '"epoch": 7')),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_damaged_record_starts_the_job_anew(
    program: Program, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object]
) -> None:
    first = program().begin(WRITE)
    first.events_directory.mkdir()
    (record,) = first.directory.glob("record-*")
    is_killed(first)
    damage(record)
    storage = program()
    assert states(storage) == ["damaged"]
    assert warnings(caplog) == []
    start = storage.begin(WRITE)
    assert start.previous is None
    assert not start.already_done
    assert not start.events_directory.exists()
    (warned,) = warnings(caplog)
    assert "rerunning from scratch" in warned
    start.update(vertices={B: HALF})
    is_killed(start)
    again = program().begin(WRITE)
    assert again.previous is not None
    assert again.previous.vertices == {B: HALF}


def test_a_record_cut_anywhere_never_raises(program: Program) -> None:
    first = program().begin(WRITE)
    (path,) = first.directory.glob("record-*")
    whole = path.read_bytes()
    is_killed(first)
    storage = program()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        (job,) = storage.jobs()
        assert job.state is JobState.DAMAGED
    path.write_bytes(whole)
    assert states(storage) == ["recoverable"]


def test_damaged_sources_are_listed_anew(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    first = program().begin(QUERY)
    first.update(sources=["s"])
    (path,) = first.directory.glob("sources-*")
    is_killed(first)
    path.write_bytes(b"[")
    start = program().begin(QUERY)
    assert start.previous is not None
    assert start.previous.sources is None
    (warned,) = warnings(caplog)
    assert "relisting the sources" in warned


def test_every_program_seals_with_the_same_key(root: Path, program: Program) -> None:
    first = program().seal_key()
    assert len(first) == 32
    assert program().seal_key() == first
    (root / "seal-key").write_bytes(b"short")
    second, third = program().seal_key(), program().seal_key()
    assert first != second == third


def test_a_key_that_can_t_be_kept_is_an_error(root: Path, program: Program) -> None:
    storage = program()
    (root / "seal-key").mkdir()
    with pytest.raises(StorageError, match="the seal key can't be used"):
        storage.seal_key()


def test_a_job_goes_on_when_its_directory_can_t_be_written(
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
    start.end(JobStatus.FINISHED, keep=True)
    (warned,) = warnings(caplog)
    assert "continues unrecorded" in warned
    assert start.record.vertices == {B: HALF}
    with pytest.raises(StaleEpochError):
        program().begin(WRITE)
        start.update(vertices={})


def test_a_job_whose_directory_is_gone_is_refused(root: Path, program: Program) -> None:
    start = program().begin(QUERY)
    shutil.rmtree(root)
    with pytest.raises(StaleEpochError) as raised:
        start.check()
    assert raised.value.newest > start.epoch


def test_a_directory_that_can_t_be_read_is_no_new_start(root: Path, program: Program) -> None:
    start = program().begin(QUERY)
    shutil.rmtree(start.directory / "epochs")
    (start.directory / "epochs").write_text("not a directory")
    with pytest.raises(StorageError, match="can't determine"):
        start.check()
    with pytest.raises(StorageError):
        start.journal.write("x")
    assert not start.update(vertices={B: DONE})
    start.end(JobStatus.FINISHED, keep=False)


def test_a_storage_that_fails_later_says_so_at_begin(root: Path, program: Program) -> None:
    storage = program()
    shutil.rmtree(root)
    with pytest.raises(StorageError, match="can't be recorded"):
        storage.begin(QUERY)


# -- listing and forgetting


def test_jobs_are_listed_with_what_becomes_of_them(program: Program) -> None:
    storage = program()
    identities = [WRITE.model_copy(update={"occurrence": number}) for number in range(4)]
    running, killed, ended, taken = (storage.begin(each) for each in identities)
    is_killed(killed)
    ended.end(JobStatus.FINISHED, keep=True)
    program().begin(identities[3])
    is_killed(taken)
    listed = storage.jobs()
    assert [job.state.value for job in listed] == ["running", "recoverable", "ended", "running"]
    assert [job.job_id for job in listed] == [
        each.job_id for each in (running, killed, ended, taken)
    ]
    assert [job.record is not None and job.record.epoch == job.epoch for job in listed] == [
        True
    ] * 4


def test_a_job_of_a_start_that_has_recorded_nothing_yet_is_the_last_one_s(
    program: Program,
) -> None:
    storage = program()
    start = storage.begin(QUERY)
    epoch = storage.next_epoch(JobDirectory(start.directory))
    (job,) = storage.jobs()
    assert (job.epoch, job.driven, job.state.value) == (epoch, False, "recoverable")
    assert job.record is not None
    assert job.record.epoch == start.epoch


@pytest.mark.parametrize("status", [RecordStatus.RUNNING, RecordStatus.ENDED])
def test_what_nobody_starts_again_is_forgotten(program: Program, status: RecordStatus) -> None:
    def recorded_at(start: JobStart, moment: datetime) -> None:
        changes: dict[str, object] = {"started": moment}
        if status is RecordStatus.ENDED:
            changes |= {"status": status, "job_status": JobStatus.FINISHED, "ended": moment}
        record = start.record.model_copy(update=changes)
        JobDirectory(start.directory).write_record(record)

    old = datetime.now(timezone.utc) - FORGOTTEN_AFTER - timedelta(minutes=1)
    storage = program()
    forgotten, younger, living = (
        storage.begin(WRITE.model_copy(update={"occurrence": number})) for number in range(3)
    )
    recorded_at(forgotten, old)
    recorded_at(younger, old + timedelta(minutes=2))
    recorded_at(living, old)
    is_killed(forgotten)
    is_killed(younger)
    listed = {job.job_id for job in program().jobs()}
    assert listed == {younger.job_id, living.job_id}


def test_what_was_half_removed_is_removed_at_the_next_start(root: Path, program: Program) -> None:
    start = program().begin(WRITE)
    start.journal.write("of another start")
    is_killed(start)
    # As far as a program comes that is killed over it.
    next(start.directory.glob("record-*")).unlink()
    shutil.rmtree(start.directory / "epochs")
    assert program().jobs() == ()
    assert not start.directory.exists()


def test_what_is_written_after_the_end_is_removed_at_the_next_start(
    root: Path, program: Program
) -> None:
    start = program().begin(QUERY)
    start.end(JobStatus.FINISHED, keep=False)
    start.events_directory.mkdir(parents=True)
    assert program().jobs() == ()
    assert not start.directory.exists()


def test_a_program_forgets_the_jobs_that_it_has_ended(program: Program) -> None:
    storage = program()
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        storage.begin(QUERY).end(JobStatus.FINISHED, keep=False)
    assert len(os.listdir("/proc/self/fd")) == open_files
    kept = storage.begin(WRITE)
    kept.end(JobStatus.FINISHED, keep=True)
    assert len(os.listdir("/proc/self/fd")) == open_files + 1
    storage.close()
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_record_says_how_it_ended_or_nothing() -> None:
    now = datetime.now(timezone.utc)
    fields: dict[str, object] = {
        "job_id": "1" * 32,
        "identity": QUERY,
        "name": "n",
        "epoch": 1,
        "begun": now,
        "started": now,
        "driver": {"host": "h", "pid": 1},
    }
    assert JobRecord.model_validate(fields).id == JobID("1" * 32)
    for wrong in ({"status": "ENDED"}, {"job_status": "FINISHED"}, {"ended": now}):
        with pytest.raises(ValueError):
            JobRecord.model_validate({**fields, **wrong})


def test_a_child_that_was_forked_off_does_not_stand_in_for_its_driver(program: Program) -> None:
    storage = program()
    start = storage.begin(QUERY)
    telling, told = os.pipe()
    ready, is_ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(is_ready, b".")
        os.read(telling, 1)
        os._exit(0)
    try:
        os.read(ready, 1)
        assert states(storage) == ["running"]
        is_killed(start)
        assert states(storage) == ["recoverable"]
    finally:
        os.write(told, b".")
        os.waitpid(child, 0)
        for pipe in (telling, told, ready, is_ready):
            os.close(pipe)
