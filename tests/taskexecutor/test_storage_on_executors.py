"""The job master's side of task executors that are processes: they die, hang and come back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    LocationsIncompleteError,
    MalformedRequestError,
    StorageError,
    TaskExecutorUnreachableError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.abandonable_calls import AbandonableCalls
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.version import __version__

JOB = JobID("a" * 32)
HOST = "127.0.0.1"
ROWS = 3
SECONDS = 30.0


def comes(condition: Callable[[], object]) -> bool:
    """Whether something becomes true before long."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Side:
    """A job master's storage over one executor process that can be killed and started again."""

    def __init__(self, start: Any, leave: Callable[..., None], directory: Path, port: int) -> None:
        self._start = start
        self.leave = leave
        self.directory = directory
        self._port = port
        self.executor = self.started()
        timeouts = Timeouts(sign_of_life_seconds=1)
        self.gateway = RemoteTaskExecutor(self.executor.address, self.executor.token, timeouts)
        self.application = ApplicationID.random()
        self.storage = self.storage_of(self.application)

    def storage_of(self, application: ApplicationID) -> TaskExecutorStorage:
        return TaskExecutorStorage(
            {self.executor.address: self.gateway},
            application,
            lease_seconds=30,
            heartbeat_seconds=0.1,
            version=__version__,
        )

    def started(self) -> Any:
        self.executor = self._start(self.directory, "--port", str(self._port)).serving()
        return self.executor

    def stage(self, digit: str = "1") -> StagedDataSet:
        return self.storage.stage(JOB, IntermediateDataSetID(digit * 64))

    def publish(self, staged: StagedDataSet, *partitions: WrittenPartition) -> KeptDataSet:
        description = DataSetDescription(
            dataset_id=staged.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
        )
        return self.storage.publish(staged, description, partitions)

    def keep(self, digit: str = "1", number: int = 2) -> KeptDataSet:
        staged = self.stage(digit)
        self.leave(staged.directory, *range(number), rows=ROWS)
        return self.publish(
            staged, *(WrittenPartition(index, HOST, ROWS) for index in range(number))
        )

    def is_there_again(self) -> bool:
        def staged() -> bool:
            try:
                self.storage.discard(self.stage("f"))
            except StorageError:
                return False
            return True

        return comes(staged)

    def files(self) -> list[Path]:
        return list(self.directory.glob("application-*/**/part-*.parquet"))


@pytest.fixture
def side(start: Any, leave: Callable[..., None], tmp_path: Path, free_port: int) -> Iterator[Side]:
    side = Side(start, leave, tmp_path / "kept", free_port)
    yield side
    side.storage.close()


def test_what_is_kept_is_whole_until_it_is_removed(side: Side) -> None:
    kept = side.keep()
    assert kept.rows == 2 * ROWS
    assert [location.split("/part-")[0] for location in kept.locations] == list(
        kept.directories
    ) * 2
    assert kept.directories[0].startswith(f"webhdfs://{side.executor.address}/")
    assert side.storage.damage(kept) is None
    side.storage.remove(kept)
    assert side.storage.damage(kept) == "it has been released"
    assert side.files() == []


def test_two_programs_that_run_the_same_job_both_keep_its_results(side: Side) -> None:
    kept = side.keep()
    other = side.storage_of(ApplicationID.random())
    try:
        staged = other.stage(JOB, IntermediateDataSetID("2" * 64))
        side.storage.end_job(JOB)
        side.leave(staged.directory, 0, rows=ROWS)
        other.discard(staged)
        other.end_job(JOB)
        assert side.storage.damage(kept) is None
    finally:
        other.close()


def test_a_removal_that_can_not_be_told_is_told_when_the_executor_is_back(side: Side) -> None:
    kept = side.keep()
    side.executor.kill()
    side.storage.remove(kept)
    assert len(side.files()) == 2
    side.started()
    assert comes(lambda: not side.files())


def test_an_executor_that_comes_back_still_has_what_it_kept(side: Side) -> None:
    kept = side.keep()
    side.executor.kill()
    assert "is unreachable" in str(side.storage.damage(kept))
    with pytest.raises(StorageError, match="is unreachable"):
        side.stage()
    side.started()
    assert side.is_there_again()
    assert side.storage.damage(kept) is None


def test_an_executor_that_comes_back_empty_has_lost_it(side: Side) -> None:
    lost = side.keep("1")
    side.executor.kill()
    for path in side.directory.glob("application-*"):
        path.rename(side.directory.parent / path.name)
        # A task that wrote meanwhile has made it anew.
        side.leave(path / "staging" / "unknown", 0)
    side.started()
    assert side.is_there_again()
    assert side.storage.damage(lost) == "it has been released"
    # And it keeps what is kept from now on.
    assert side.storage.damage(side.keep("2")) is None


def test_a_call_to_an_executor_that_hangs_ends_with_the_heartbeat_that_gets_no_answer(
    side: Side,
) -> None:
    kept = side.keep()
    os.kill(side.executor.process.pid, signal.SIGSTOP)
    try:
        # The call alone would wait for two minutes.
        before = time.monotonic()
        assert "is unreachable" in str(side.storage.damage(kept))
        assert time.monotonic() - before < SECONDS
        # From then on nobody waits for it.
        with pytest.raises(StorageError, match="is unreachable"):
            side.stage()
    finally:
        os.kill(side.executor.process.pid, signal.SIGCONT)
    assert comes(lambda: side.storage.damage(kept) is None)


def test_a_registration_whose_answer_was_lost_is_made_again(side: Side) -> None:
    side.executor.kill()
    # Somebody registers the application with the new process, and nobody hears of it.
    side.storage.close()
    side.started()
    side.gateway.register_application(side.application, 30, __version__)
    again = TaskExecutorStorage(
        {side.executor.address: side.gateway},
        side.application,
        lease_seconds=30,
        heartbeat_seconds=0.1,
        version=__version__,
    )
    side.storage = again
    assert side.storage.damage(side.keep()) is None


def test_partitions_of_a_host_without_an_executor_are_not_kept(side: Side) -> None:
    staged = side.stage()
    side.leave(staged.directory, 0, rows=ROWS)
    with pytest.raises(LocationsIncompleteError, match="node-9"):
        side.publish(staged, WrittenPartition(0, HOST, ROWS), WrittenPartition(1, "node-9", ROWS))
    side.storage.discard(staged)
    assert side.files() == []


def test_a_file_with_other_rows_than_its_task_wrote_is_not_kept(side: Side) -> None:
    staged = side.stage()
    side.leave(staged.directory, 0, rows=ROWS)
    with pytest.raises(
        StorageError, match=f"its task wrote {ROWS + 1} rows, but its file has {ROWS}"
    ):
        side.publish(staged, WrittenPartition(0, HOST, ROWS + 1))
    side.storage.discard(staged)
    assert side.files() == []


def test_an_executor_that_dies_before_it_takes_over_leaves_locations_incomplete(
    side: Side,
) -> None:
    staged = side.stage()
    side.leave(staged.directory, 0, rows=ROWS)
    side.executor.kill()
    with pytest.raises(LocationsIncompleteError):
        side.publish(staged, WrittenPartition(0, HOST, ROWS))


def test_closing_releases_everything_and_waits_for_nobody_who_is_gone(side: Side) -> None:
    side.keep()
    side.storage.close()
    assert comes(lambda: not side.files())
    side.executor.kill()
    side.storage.close()


def test_text_that_no_message_can_carry_is_a_malformed_request(side: Side) -> None:
    kept = side.keep()
    description = kept.manifest.dataset.model_copy(update={"computes": "\ud800"})
    with pytest.raises(MalformedRequestError):
        side.gateway.promote(
            side.application,
            JOB,
            # Never looked at: the message isn't sent.
            side.gateway.report(side.application)[0].output,
            kept.manifest.model_copy(update={"dataset": description}),
        )


def test_who_waits_for_an_answer_is_told_when_nobody_will_answer() -> None:
    calls = AbandonableCalls("test")
    never = threading.Event()
    gone = TaskExecutorUnreachableError("node-1:1", "no sign of life")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            calls.make(never.wait)
        except TaskExecutorUnreachableError as error:
            raised.append(error)

    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for thread in waiting:
        thread.start()
    assert comes(lambda: calls.abandon(gone) or len(raised) == len(waiting))
    for thread in waiting:
        thread.join()
    assert raised == [gone] * 3
    never.set()
    # Others are not told, and what a call raises comes through.
    assert calls.make(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        calls.make(lambda: 1 // 0)
