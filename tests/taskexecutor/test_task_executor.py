"""A task executor in this process: outputs come, are promoted and go; leases lapse; sweeping up."""

from __future__ import annotations

import io
import math
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, Manifest
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

GRACE = 5.0


def _parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2, 3]}), made)
    return made.getvalue()


PARQUET = _parquet()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def executor(tmp_path: Path, clock: Clock) -> Iterator[TaskExecutor]:
    executor = TaskExecutor(tmp_path / "kept", grace_seconds=GRACE, clock=clock)
    yield executor
    executor.close()


def output_of(digit: str, attempt: str = "0badcafe") -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), attempt)


ONE = output_of("1")
TWO = output_of("2")


def files(path: Path) -> list[str]:
    return sorted(each.name for each in path.rglob("*.parquet"))


def write(directory: Path, *indices: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for index in indices:
        (directory / f"part-{index:05}-x-c000.zstd.parquet").write_bytes(PARQUET)


# -- outputs


def test_an_output_is_written_finished_promoted_and_released(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    write(directory, 0, 1, 3)
    kept = app.finish(ONE, number=4)
    assert [(part.index, part.rows) for part in kept] == [(0, 3), (1, 3), (3, 3)]
    assert all(part.bytes == (directory / part.file).stat().st_size for part in kept)
    assert executor.report(None) == ()
    app.promote(ONE, kept)
    executor.end_job(app.application, app.job_id)
    (report,) = executor.report(None)
    assert (report.output, report.partitions, report.number_of_partitions) == (ONE, kept, 4)
    assert app.read_root == f"file:{Path(report.directory).parent}"
    assert executor.damage(app.application, ONE) is None
    executor.release_outputs(app.application, [ONE, TWO])
    executor.release_outputs(app.application, [ONE])
    assert executor.report(None) == ()
    assert files(tmp_path) == []


def test_files_of_attempts_that_do_not_count_go(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    write(directory, 0, 1, 2)
    (directory / "_temporary" / "0").mkdir(parents=True)
    kept = app.finish(ONE, [0, 2], 3)
    assert [part.index for part in kept] == [0, 2]
    assert sorted(path.name for path in directory.iterdir()) == [part.file for part in kept]


def test_a_partition_that_is_missing_leaves_the_output_open(
    executor: TaskExecutor, make_caller: Any
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    write(directory, 0, 2)
    with pytest.raises(UnknownPartitionError, match="/1: "):
        app.finish(ONE, [0, 1], 3)
    assert len(files(directory)) == 2
    write(directory, 1)
    assert [part.index for part in app.finish(ONE, [0, 1], 3)] == [0, 1]


def test_a_file_that_is_not_whole_or_a_link_leaves_the_output_open(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    broken = directory / "part-00000-x-c000.zstd.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(StorageError):
        app.finish(ONE)
    broken.unlink()
    write(tmp_path / "elsewhere", 0)
    broken.symlink_to(tmp_path / "elsewhere" / broken.name)
    with pytest.raises(StorageError, match="expected a file"):
        app.finish(ONE)
    broken.unlink()
    write(directory, 0)
    assert len(app.finish(ONE)) == 1


@pytest.mark.parametrize(
    ("indices", "number"),
    [([0, 0], 2), ([2], 2), ([-1], 2), ([0], 0), ([0], -1), ([0], 2**31 + 1), ([2**31], None)],
)
def test_partitions_that_can_not_be_are_refused(
    executor: TaskExecutor, make_caller: Any, indices: list[int], number: int | None
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    write(directory, 0, 1)
    with pytest.raises(MalformedRequestError):
        app.finish(ONE, indices, number)
    assert len(files(directory)) == 2
    assert len(app.finish(ONE)) == 2


def test_a_failed_output_goes_before_and_after_it_is_finished(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    write(app.open(ONE), 0)
    executor.fail_output(app.application, app.job_id, ONE)
    write(app.open(TWO), 0)
    app.finish(TWO)
    executor.fail_output(app.application, app.job_id, TWO)
    executor.fail_output(app.application, app.job_id, TWO)
    assert files(tmp_path) == []


def test_a_promoted_output_does_not_fail(executor: TaskExecutor, make_caller: Any) -> None:
    app = make_caller(executor).connect()
    app.keep("1")
    executor.fail_output(app.application, app.job_id, ONE)
    assert app.outputs() == [ONE]


def test_a_manifest_of_other_partitions_promotes_nothing(
    executor: TaskExecutor, make_caller: Any
) -> None:
    app = make_caller(executor).connect()
    write(app.open(ONE), 0, 1)
    kept = app.finish(ONE)
    changed = kept[0].model_copy(update={"rows": 4})
    for other in ((kept[0],), (changed, kept[1]), (*kept, kept[1]), ()):
        with pytest.raises(UnknownPartitionError):
            app.promote(ONE, other)
    description = DataSetDescription(
        dataset_id="2" * 64, computes="rows", columns=(), spark_version="4.3.0"
    )
    with pytest.raises(MalformedRequestError, match="2222"):
        executor.promote(
            app.application,
            app.job_id,
            ONE,
            Manifest(created="x", dataset=description, partitions=kept),
        )
    assert app.outputs() == []
    app.promote(ONE, kept)
    assert app.outputs() == [ONE]


def test_an_ended_job_leaves_only_what_was_promoted(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    app.keep("1", (0,))
    write(app.open(TWO), 0)
    app.finish(TWO)
    write(app.open(output_of("3")), 0)
    executor.end_job(app.application, app.job_id)
    executor.end_job(app.application, app.job_id)
    assert app.outputs() == [ONE]
    assert len(files(tmp_path)) == 1
    with pytest.raises(UnknownJobError):
        app.open(output_of("4"))
    executor.register_job(app.application, app.job_id)


# -- who is known


def test_what_is_unknown_or_twice_is_refused(executor: TaskExecutor, make_caller: Any) -> None:
    app = make_caller(executor).connect()
    stranger = make_caller(executor)
    with pytest.raises(DuplicateRegistrationError):
        executor.register_application(app.application, 9, __version__)
    with pytest.raises(DuplicateRegistrationError):
        executor.register_job(app.application, app.job_id)
    with pytest.raises(UnknownApplicationError):
        stranger.open(ONE)
    with pytest.raises(UnknownApplicationError):
        executor.heartbeat(stranger.application, {})
    with pytest.raises(UnknownApplicationError):
        executor.report(stranger.application)
    with pytest.raises(UnknownJobError):
        executor.open_output(app.application, JobID.random(), TWO)
    with pytest.raises(UnknownDataSetError):
        app.finish(ONE)
    with pytest.raises(UnknownDataSetError):
        executor.damage(app.application, ONE)
    app.open(ONE)
    with pytest.raises(DuplicateRegistrationError):
        app.open(ONE)
    assert app.finish(ONE) == ()
    with pytest.raises(UnknownDataSetError):
        app.finish(ONE)
    executor.unregister_application(stranger.application)
    assert executor.heartbeat(app.application, {}) == executor.describe().incarnation


@pytest.mark.parametrize("lease", [0.0, -1.0, math.nan])
def test_a_lease_lasts(executor: TaskExecutor, lease: float) -> None:
    with pytest.raises(MalformedRequestError):
        executor.register_application(ApplicationID.random(), lease, __version__)
    assert executor.report(None) == ()


def test_another_version_is_refused(executor: TaskExecutor, tmp_path: Path) -> None:
    application = ApplicationID.random()
    with pytest.raises(VersionMismatchError, match="0.0.0"):
        executor.register_application(application, 9, "0.0.0")
    executor.register_application(application, 9, __version__)


def test_an_application_can_not_touch_what_is_anothers(
    executor: TaskExecutor, make_caller: Any
) -> None:
    app, other = make_caller(executor).connect(), make_caller(executor).connect()
    app.keep("1")
    write(app.open(TWO), 0)
    executor.release_outputs(other.application, [ONE])
    executor.fail_output(other.application, app.job_id, TWO)
    with pytest.raises(UnknownJobError):
        executor.finish_output(other.application, app.job_id, TWO, None, None)
    assert other.outputs() == []
    assert app.outputs() == [ONE]
    assert len(app.finish(TWO)) == 1


def test_hits_are_as_the_application_tells(executor: TaskExecutor, make_caller: Any) -> None:
    app = make_caller(executor).connect()
    app.keep("1")
    executor.heartbeat(app.application, {ONE: 3, TWO: 9})
    executor.heartbeat(app.application, {})
    assert [report.hits for report in executor.report(None)] == [3]


def test_damage_is_told(executor: TaskExecutor, make_caller: Any) -> None:
    app = make_caller(executor).connect()
    app.keep("1")
    (report,) = executor.report(app.application)
    os.utime(Path(report.directory) / report.partitions[1].file, ns=(1, 1))
    assert executor.damage(app.application, ONE) == "partition 1 was modified"


# -- losing the job master


def test_a_lapsed_lease_releases_all_but_what_tasks_still_write(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app = make_caller(executor).connect(lease_seconds=10)
    app.keep("1")
    write(app.open(TWO), 0)
    app.finish(TWO)
    in_progress = app.open(output_of("3"))
    clock.now += 9
    executor.heartbeat(app.application, {})
    clock.now += 9
    executor.tick()
    assert app.outputs() == [ONE]
    clock.now += 2
    executor.tick()
    with pytest.raises(UnknownApplicationError):
        app.outputs()
    assert files(tmp_path) == []
    assert in_progress.is_dir()


def test_what_a_zombie_commits_is_swept_up_at_once(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app = make_caller(executor).connect(lease_seconds=1)
    in_progress = app.open(ONE)
    clock.now += 2
    executor.tick()
    attempt = in_progress / "_temporary" / "0" / "attempt"
    write(attempt, 1)
    write(in_progress, 0, 2)
    executor.tick()
    assert [name[:10] for name in files(in_progress)] == ["part-00001"]
    clock.now += GRACE - 1
    write(attempt, 3)
    executor.tick()
    clock.now += GRACE - 1
    executor.tick()
    assert attempt.is_dir()
    clock.now += 1
    executor.tick()
    assert not list((tmp_path / "kept").iterdir())


def test_a_task_that_begins_after_everything_was_let_go_leaves_nothing(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    directory = app.open(ONE)
    executor.unregister_application(app.application)
    assert not list((tmp_path / "kept").iterdir())
    write(directory / "_temporary" / "0", 1)
    write(directory, 0)
    executor.tick()
    assert [name[:10] for name in files(tmp_path)] == ["part-00001"]
    clock.now += GRACE
    executor.tick()
    assert not list((tmp_path / "kept").iterdir())


def test_a_lost_application_may_come_back_while_its_tasks_still_run(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app = make_caller(executor).connect(lease_seconds=1)
    zombie = app.open(ONE)
    clock.now += 2
    executor.tick()
    again = make_caller(executor, app.application).connect(lease_seconds=1000)
    again.keep("2", (0,))
    write(zombie, 0)
    executor.tick()
    assert files(zombie) == []
    clock.now += GRACE
    executor.tick()
    assert not zombie.exists()
    assert again.outputs() == [TWO]
    assert len(files(tmp_path)) == 1


def test_strangers_beside_outputs_go_when_they_are_idle(
    executor: TaskExecutor, make_caller: Any, clock: Clock
) -> None:
    app = make_caller(executor).connect(lease_seconds=1000)
    app.keep("1")
    (report,) = executor.report(None)
    stranger = Path(report.directory).parent / TWO.name
    write(stranger, 0)
    executor.tick()
    clock.now += GRACE - 1
    executor.tick()
    assert files(stranger)
    clock.now += 1
    executor.tick()
    assert not stranger.exists()
    assert executor.damage(app.application, ONE) is None


# -- starting again


def again(tmp_path: Path, clock: Clock) -> TaskExecutor:
    executor = TaskExecutor(tmp_path / "kept", grace_seconds=GRACE, clock=clock)
    executor.adopt(10)
    return executor


def test_a_new_start_adopts_what_is_whole_and_removes_the_rest(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app, gone = make_caller(executor).connect(), make_caller(executor).connect()
    names = "123456789a"
    kept = {digit: app.keep(digit, (0, 2)) for digit in names}
    places = {each.output: Path(each.directory) for each in executor.report(None)}
    write(app.open(output_of("b")), 0)
    write(gone.open(output_of("c")), 0)
    executor.leave()

    def part(digit: str, index: int = 0) -> Path:
        return places[kept[digit]] / f"part-{index:05}-x-c000.zstd.parquet"

    part("2").unlink()
    os.truncate(part("3"), 5)
    os.utime(part("4"), ns=(1, 1))
    (places[kept["5"]] / "_manifest.json").unlink()
    (places[kept["6"]] / "_manifest.json").write_text("{")
    (places[kept["7"]] / "_output.json").unlink()
    write(places[kept["8"]], 1)
    part("9").rename(tmp_path / "outside.parquet")
    part("9").symlink_to(tmp_path / "outside.parquet")
    places[kept["a"]].rename(places[kept["a"]].with_name("nonsense"))
    (tmp_path / "kept" / f"application-{'e' * 32}").symlink_to(tmp_path)

    executor = again(tmp_path, clock)
    assert [each.output for each in executor.report(None)] == [ONE]
    left = {path.parent.name for path in (tmp_path / "kept").rglob("part-*")}
    assert left == {ONE.name}
    assert (tmp_path / "outside.parquet").exists()
    (report,) = executor.report(app.application)
    assert (report.number_of_partitions, len(report.partitions)) == (3, 2)
    assert not (tmp_path / "kept" / f"application-{gone.application.hex}").exists()
    executor.register_application(app.application, 10, __version__)
    with pytest.raises(DuplicateRegistrationError):
        executor.register_application(app.application, 10, __version__)
    executor.release_outputs(app.application, [ONE])
    assert not list((tmp_path / "kept").rglob("part-*"))
    executor.close()


def test_what_was_adopted_goes_with_its_fresh_lease(
    executor: TaskExecutor, make_caller: Any, clock: Clock, tmp_path: Path
) -> None:
    app = make_caller(executor).connect(lease_seconds=10)
    app.keep("1")
    clock.now += 9
    executor.leave()
    executor = again(tmp_path, clock)
    clock.now += 9
    executor.tick()
    assert executor.heartbeat(app.application, {}) == executor.describe().incarnation
    clock.now += 9
    executor.tick()
    assert [each.output for each in executor.report(None)] == [ONE]
    clock.now += 2
    executor.tick()
    assert not list((tmp_path / "kept").iterdir())


# -- threads


def test_many_threads_leave_exactly_what_they_promoted(
    executor: TaskExecutor, make_caller: Any, tmp_path: Path
) -> None:
    app = make_caller(executor).connect()
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            executor.tick()

    def work(number: int) -> OutputID | None:
        output = output_of(f"{number % 16:x}", f"{number:08x}")
        write(app.open(output), 0, 1)
        if number % 3 == 0:
            executor.fail_output(app.application, app.job_id, output)
            return None
        app.promote(output, app.finish(output))
        if number % 3 == 1:
            executor.release_outputs(app.application, [output])
            return None
        return output

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            left = {output for output in pool.map(work, range(60)) if output is not None}
    finally:
        stop.set()
        ticking.join()
    assert set(app.outputs()) == left
    assert len(files(tmp_path)) == 2 * len(left)
    executor.end_job(app.application, app.job_id)
    assert set(app.outputs()) == left


def test_a_lease_that_lapses_while_threads_work_leaves_nothing(
    tmp_path: Path, make_caller: Any, clock: Clock
) -> None:
    for turn in range(10):
        root = tmp_path / str(turn)
        executor = TaskExecutor(root, grace_seconds=0.0, clock=clock)
        app = make_caller(executor).connect(lease_seconds=10)

        def work(number: int, app: Any = app) -> None:
            output = output_of(f"{number % 16:x}", f"{number:08x}")
            try:
                write(app.open(output), 0)
                app.promote(output, app.finish(output))
            except (UnknownApplicationError, UnknownJobError, UnknownPartitionError):
                return
            except (UnknownDataSetError, StorageError, OSError):
                return

        with ThreadPoolExecutor(6) as pool:
            working = [pool.submit(work, number) for number in range(24)]
            clock.now += 20
            executor.tick()
            for each in working:
                each.result()
        for _ in range(3):
            clock.now += 1
            executor.tick()
        assert not list(root.rglob("*.parquet")), turn
        assert executor.report(None) == ()
        executor.close()
