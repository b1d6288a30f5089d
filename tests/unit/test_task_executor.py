"""A task executor in this process: outputs come, are promoted and go; leases lapse; sweeping up."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import (
    DuplicateRegistrationError,
    HoldfastError,
    MalformedRequestError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.ids import JobID
from holdfast.taskexecutor.applications import held_partitions
from holdfast.taskexecutor.outputs.output import Output
from holdfast.taskexecutor.outputs.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__
from tests.taskexecutor.callers import Caller, Clock, manifest_of, output_of, parts, write

GRACE = 5.0
ONE, TWO, THREE = map(output_of, "123")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def executor(root: Path, clock: Clock) -> Iterator[TaskExecutor]:
    executor = TaskExecutor(root, grace_seconds=GRACE, clock=clock)
    yield executor
    executor.close()


@pytest.fixture
def app(executor: TaskExecutor) -> Caller:
    return Caller(executor).connect()


# -- outputs


def test_an_output_is_written_finished_promoted_and_released(
    executor: TaskExecutor, app: Caller, root: Path
) -> None:
    directory = app.open(ONE)
    write(directory, 0, 1, 3)
    kept = app.finish(ONE, number=4)
    assert [(part.index, part.rows) for part in kept] == [(0, 3), (1, 3), (3, 3)]
    assert all(part.bytes == (directory / part.file).stat().st_size for part in kept)
    assert executor.report(None) == ()
    app.promote(ONE, kept)
    executor.end_job(app.application, app.job_id)
    executor.heartbeat(app.application, {ONE: 3, TWO: 9})
    (report,) = executor.report(None)
    assert (report.output, report.partitions, report.number_of_partitions) == (ONE, kept, 4)
    assert report.hits == 3 and app.read_root == f"file:{Path(report.directory).parent}"
    assert app.damage(ONE) is None
    os.utime(Path(report.directory) / kept[1].file, ns=(1, 1))
    assert app.damage(ONE) == "partition 1 was modified"
    executor.release_outputs(app.application, [ONE, TWO])
    assert (executor.report(None), parts(root)) == ((), [])


def test_what_is_not_whole_leaves_the_output_open(app: Caller, tmp_path: Path) -> None:
    directory = app.open(ONE)
    write(directory, 1, 2)
    file = directory / "part-00000-x-c000.zstd.parquet"
    with pytest.raises(UnknownPartitionError, match="/0: "):
        app.finish(ONE, [0, 1], 3)
    file.write_bytes(b"PAR1")
    with pytest.raises(StorageError):
        app.finish(ONE)
    file.unlink()
    write(tmp_path / "elsewhere", 0)
    file.symlink_to(tmp_path / "elsewhere" / file.name)
    with pytest.raises(StorageError, match="expected a file"):
        app.finish(ONE)
    file.unlink()
    for indices, number in (([1, 1], 2), ([2], 2), ([-1], 2), ([1], -1), ([2**31], None)):
        with pytest.raises(MalformedRequestError):
            app.finish(ONE, indices, number)
    write(directory, 0)
    # The third is of an attempt that doesn't count.
    kept = app.finish(ONE, [0, 1], 3)
    assert [part.index for part in kept] == [0, 1]
    assert sorted(path.name for path in directory.glob("[!.]*")) == [part.file for part in kept]


def test_a_manifest_of_other_partitions_promotes_nothing(
    executor: TaskExecutor, app: Caller
) -> None:
    write(app.open(ONE), 0, 1)
    kept = app.finish(ONE)
    changed = kept[0].model_copy(update={"rows": 4})
    for other in ((kept[0],), (changed, kept[1]), (*kept, kept[1]), ()):
        with pytest.raises(UnknownPartitionError):
            app.promote(ONE, other)
    with pytest.raises(MalformedRequestError, match="2222"):
        executor.promote(app.application, app.job_id, ONE, manifest_of(TWO, kept))
    assert app.outputs() == []
    app.promote(ONE, kept)
    assert app.outputs() == [ONE]


def test_what_failed_goes_and_an_ended_job_leaves_only_what_was_promoted(
    executor: TaskExecutor, app: Caller, root: Path
) -> None:
    app.keep(ONE, 0)
    for output in (TWO, THREE):
        write(app.open(output), 0)
    kept = app.finish(THREE)
    # Only what was promoted is released by its name.
    executor.release_outputs(app.application, [TWO, THREE])
    assert len(parts(root)) == 3 and len(kept) == 1
    for output in (ONE, TWO, THREE, THREE):
        executor.fail_output(app.application, app.job_id, output)
    assert (app.outputs(), len(parts(root))) == ([ONE], 1)
    for output in map(output_of, "45"):
        write(app.open(output), 0)
    app.finish(output_of("5"))
    for _ in range(2):
        executor.end_job(app.application, app.job_id)
    assert (app.outputs(), len(parts(root))) == ([ONE], 1)
    with pytest.raises(UnknownJobError):
        app.open(output_of("6"))
    executor.register_job(app.application, app.job_id)


# -- who is known


def test_what_is_unknown_or_twice_is_refused(executor: TaskExecutor, app: Caller) -> None:
    stranger = Caller(executor)
    app.open(THREE)
    refused: list[tuple[type[HoldfastError], Callable[[], object]]] = [
        (DuplicateRegistrationError, app.connect),
        (DuplicateRegistrationError, lambda: executor.register_job(app.application, app.job_id)),
        (DuplicateRegistrationError, lambda: app.open(THREE)),
        (UnknownApplicationError, lambda: stranger.open(ONE)),
        (UnknownApplicationError, lambda: executor.heartbeat(stranger.application, {})),
        (UnknownApplicationError, stranger.outputs),
        (UnknownApplicationError, lambda: executor.open_shuffles(app.application)),
        (UnknownJobError, lambda: executor.open_output(app.application, JobID.random(), TWO)),
        (UnknownDataSetError, lambda: app.finish(ONE)),
        (UnknownDataSetError, lambda: app.damage(ONE)),
        (MalformedRequestError, lambda: stranger.connect(0.0)),
        (MalformedRequestError, lambda: stranger.connect(math.nan)),
        (
            VersionMismatchError,
            lambda: executor.register_application(stranger.application, 9, "0.0.0"),
        ),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    executor.unregister_application(stranger.application)
    assert executor.heartbeat(app.application, {}) == executor.describe().incarnation


def test_an_application_can_not_touch_what_is_anothers(executor: TaskExecutor, app: Caller) -> None:
    other = Caller(executor).connect()
    app.keep(ONE)
    write(app.open(TWO), 0)
    executor.release_outputs(other.application, [ONE])
    executor.fail_output(other.application, app.job_id, TWO)
    with pytest.raises(UnknownJobError):
        executor.finish_output(other.application, app.job_id, TWO, None, None)
    assert (other.outputs(), app.outputs(), len(app.finish(TWO))) == ([], [ONE], 1)


def test_a_disk_is_not_filled_for_the_catalog(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = TaskExecutor(root, holds_for_catalog=True)
    root.mkdir(mode=0o700)
    executor.adopt(60)
    app = Caller(executor).connect()
    for output in (ONE, TWO):
        app.keep(output)
    executor.hold_output(app.application, ONE, "a catalog", "{}")
    with monkeypatch.context() as context:
        context.setattr(held_partitions, "MOST_OF_THE_DISK", 1e-15)
        with pytest.raises(StorageError, match="no room to hold .* beside [1-9][0-9,]* held"):
            executor.hold_output(app.application, TWO, "a catalog", "{}")
    assert set(executor.held()) == {ONE}
    executor.hold_output(app.application, TWO, "a catalog", "{}")
    assert set(executor.held()) == {ONE, TWO}
    executor.close()


def test_an_output_is_given_to_one_alone_to_remove() -> None:
    tracker, job = TaskExecutorPartitionTracker(), JobID.random()
    first, again = (Output(ONE, job, Path("staging")) for _ in range(2))
    tracker.start_tracking(first)
    assert tracker.stop_tracking(first) and not tracker.stop_tracking(first)
    tracker.start_tracking(again)
    assert not tracker.stop_tracking(first) and tracker.all() == [again]


# -- losing the job master


def test_a_lapsed_lease_releases_all_but_what_tasks_still_write(
    executor: TaskExecutor, clock: Clock, root: Path
) -> None:
    app = Caller(executor).connect(lease_seconds=10)
    app.keep(ONE)
    write(app.open(TWO), 0)
    app.finish(TWO)
    in_progress = app.open(THREE)
    clock.now += 9
    executor.heartbeat(app.application, {})
    clock.now += 9
    executor.tick()
    assert app.outputs() == [ONE]
    clock.now += 2
    executor.tick()
    with pytest.raises(UnknownApplicationError):
        app.outputs()
    assert parts(root) == [] and in_progress.is_dir()
    # What its tasks commit goes at once, what they write when it has been idle for a while.
    attempt = in_progress / "_temporary" / "0" / "attempt"
    write(attempt, 1)
    write(in_progress, 0, 2)
    executor.tick()
    assert parts(root) == ["part-00001"]
    clock.now += GRACE - 1
    write(attempt, 3)
    executor.tick()
    clock.now += GRACE - 1
    executor.tick()
    assert attempt.is_dir()
    clock.now += 1
    executor.tick()
    assert not list(root.iterdir())


# -- starting again


def test_a_new_start_adopts_what_is_whole_and_removes_the_rest(
    executor: TaskExecutor, app: Caller, clock: Clock, root: Path, tmp_path: Path
) -> None:
    for digit in "123456789a":
        app.keep(output_of(digit), 0, 2)
    places = {each.output.dataset_id.hex[0]: Path(each.directory) for each in executor.report(None)}
    write(app.open(output_of("b")), 0)
    write(Caller(executor).connect().open(output_of("c")), 0)
    executor.leave()

    def part(digit: str) -> Path:
        return places[digit] / "part-00000-0badcafe-c000.zstd.parquet"

    part("2").unlink()
    os.truncate(part("3"), 5)
    os.utime(part("4"), ns=(1, 1))
    (places["5"] / "_manifest.json").unlink()
    (places["6"] / "_manifest.json").write_text("{")
    (places["7"] / "_output.json").unlink()
    write(places["8"], 1)
    part("9").rename(tmp_path / "outside.parquet")
    part("9").symlink_to(tmp_path / "outside.parquet")
    places["a"].rename(places["a"].with_name("nonsense"))
    (root / f"application-{'e' * 32}").symlink_to(tmp_path)

    executor = TaskExecutor(root, grace_seconds=GRACE, clock=clock)
    executor.adopt(10)
    (report,) = executor.report(None)
    assert (report.output, report.number_of_partitions, len(report.partitions)) == (ONE, 3, 2)
    assert {path.parent.name for path in root.rglob("part-*")} == {ONE.name}
    assert (tmp_path / "outside.parquet").exists()
    # What was adopted goes with a fresh lease, unless its application comes back.
    clock.now += 9
    executor.tick()
    executor.register_application(app.application, 10, __version__)
    clock.now += 9
    executor.tick()
    assert [each.output for each in executor.report(None)] == [ONE]
    clock.now += 2
    executor.tick()
    assert (executor.report(None), parts(root)) == ((), [])
    executor.close()


@pytest.mark.parametrize("turn", range(3))
def test_a_lease_that_lapses_while_threads_work_leaves_nothing(
    root: Path, clock: Clock, turn: int
) -> None:
    executor = TaskExecutor(root, grace_seconds=0.0, clock=clock)
    app = Caller(executor).connect(lease_seconds=10)

    def work(number: int) -> None:
        with suppress(HoldfastError, OSError):
            app.keep(output_of(f"{number % 16:x}", f"{number:08x}"), 0)

    with ThreadPoolExecutor(6) as pool:
        working = [pool.submit(work, number) for number in range(24)]
        clock.now += 20
        executor.tick()
        for each in working:
            each.result()
    for _ in range(3):
        clock.now += 1
        executor.tick()
    assert (parts(root), executor.report(None)) == ([], ())
    executor.close()
