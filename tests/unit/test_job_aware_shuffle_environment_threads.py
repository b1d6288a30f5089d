"""Real task threads race with everything that an executor's own thread does."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest

from holdfast.errors import DuplicateRegistrationError, UnknownPartitionError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.taskexecutor.partitions.job_aware_shuffle_environment import (
    JobAwareShuffleEnvironment,
)
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.partitions.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)

ROUNDS = 150
TASKS = 6
PARTITIONS_OF_A_TASK = 3
NUMBER = TASKS * PARTITIONS_OF_A_TASK
OUTPUTS = [OutputID(IntermediateDataSetID(letter * 64), "00000001") for letter in "ab"]


@pytest.fixture(autouse=True)
def threads_that_change_places_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Round:
    """A job whose tasks run in threads of their own, and everything else that may happen to it."""

    def __init__(self, memory_shuffle_environment: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.backing = memory_shuffle_environment()
        self.tracker = TaskExecutorPartitionTracker(self.backing)
        self.environment = JobAwareShuffleEnvironment(self.backing, self.tracker)
        self.job_id = JobID.random()
        self.environment.mark_job_active(self.job_id)
        # Two tasks in three make the first output, the others the second.
        self.tasks = [
            [
                ResultPartitionID(OUTPUTS[task % 3 == 2], task * PARTITIONS_OF_A_TASK + place)
                for place in range(PARTITIONS_OF_A_TASK)
            ]
            for task in range(TASKS)
        ]
        self.partitions = [partition_id for task in self.tasks for partition_id in task]

    def task(self, ids: list[ResultPartitionID], ending: str) -> Callable[[], None]:
        def run() -> None:
            writers = self.environment.create_result_partition_writers(self.job_id, ids, NUMBER)
            for writer in writers:
                writer.setup()
                assert self.environment.has_partitions(self.job_id)
            if ending == "fails":
                for writer in writers:
                    writer.fail("the task has failed")
                return
            for writer in writers[: 2 if ending == "fails late" else None]:
                writer.finish()
            if ending == "fails late":
                for writer in writers:
                    writer.fail("the last partition has failed")

        return run

    def tasks_that(self, *endings: str) -> list[Callable[[], None]]:
        return [self.task(ids, self.random.choice(endings)) for ids in self.tasks]

    def lose_job_master(self) -> None:
        self.environment.mark_job_inactive(self.job_id)
        self.environment.release_all_finished_partitions_for(self.job_id)

    def release_some(self) -> None:
        for _ in range(10):
            self.environment.release_finished_partitions(self.random.sample(self.partitions, 4))

    def promote_some(self) -> None:
        for _ in range(10):
            with suppress(UnknownPartitionError):
                self.tracker.promote_job_partitions(self.random.sample(self.partitions, 2))

    def release_cluster(self) -> None:
        for output in OUTPUTS:
            self.tracker.stop_tracking_and_release_cluster_partitions([output.dataset_id])
        self.tracker.stop_tracking_and_release_all_cluster_partitions()

    def race(self, *racers: Callable[[], None]) -> None:
        """Starts all at once; a partition that is released twice raises in one of them."""
        start = threading.Barrier(len(racers))

        def run(racer: Callable[[], None]) -> None:
            start.wait()
            racer()

        with ThreadPoolExecutor(len(racers)) as threads:
            for racing in [threads.submit(run, racer) for racer in racers]:
                racing.result()

    def held(self) -> set[ResultPartitionID]:
        return set(self.backing.held())

    def promoted(self) -> set[ResultPartitionID]:
        infos = self.tracker.cluster_partitions().values()
        return {info.partition_id for output in infos for info in output}


@pytest.fixture
def rounds(memory_shuffle_environment: Any) -> Iterator[Round]:
    return (Round(memory_shuffle_environment, seed) for seed in range(ROUNDS))


def test_tasks_that_finish_while_their_job_is_lost_leave_nothing(rounds: Iterator[Round]) -> None:
    for one in rounds:
        one.race(*one.tasks_that("finishes"), one.lose_job_master)
        assert one.held() == set()
        assert not one.environment.has_partitions(one.job_id)


def test_whatever_tasks_do_while_their_job_is_lost_they_leave_nothing(
    rounds: Iterator[Round],
) -> None:
    for one in rounds:
        tasks = one.tasks_that("finishes", "fails", "fails late")
        one.race(*tasks, one.lose_job_master, one.release_some)
        assert one.held() == set()
        assert not one.environment.has_partitions(one.job_id)


def test_only_what_was_promoted_outlives_a_lost_job(rounds: Iterator[Round]) -> None:
    outlived = 0
    for one in rounds:
        tasks = one.tasks_that("finishes", "finishes", "fails", "fails late")
        one.race(*tasks, one.promote_some, one.lose_job_master, one.promote_some)
        assert one.held() == one.promoted()
        assert not one.environment.has_partitions(one.job_id)
        outlived += len(one.promoted())
        one.release_cluster()
        assert one.held() == set()
    assert outlived


def test_a_running_job_keeps_what_its_tasks_finish_while_others_release_and_promote(
    rounds: Iterator[Round],
) -> None:
    for one in rounds:
        tasks = one.tasks_that("finishes", "fails late")
        one.race(*tasks, one.release_some, one.promote_some, one.release_cluster, one.release_some)
        own = {info.partition_id for info in one.tracker.job_partitions(one.job_id)}
        assert one.held() == own | one.promoted()
        assert not own & one.promoted()
        assert not one.environment.partitions_in_progress(one.job_id)


def test_of_several_that_set_up_one_partition_exactly_one_has_it(rounds: Iterator[Round]) -> None:
    for one in rounds:
        refused = []
        partition = one.partitions[0]

        def attempt(one: Round = one, refused: list[Exception] = refused) -> None:
            (writer,) = one.environment.create_result_partition_writers(
                one.job_id, one.partitions[:1], NUMBER
            )
            try:
                writer.setup()
            except DuplicateRegistrationError as error:
                refused.append(error)
                writer.fail("another attempt has it")
            else:
                writer.finish()

        one.race(*[attempt] * 4)
        assert len(refused) == 3
        assert one.held() == {partition}


def test_a_lapse_leaves_nothing_however_it_meets_a_promotion(rounds: Iterator[Round]) -> None:
    for one in rounds:

        def lapse(one: Round = one) -> None:
            one.lose_job_master()
            one.tracker.stop_tracking_and_release_all_cluster_partitions()

        for task in one.tasks_that("finishes"):
            task()
        one.race(lapse, one.promote_some, one.promote_some)
        assert one.held() == set()


def test_a_job_never_seems_to_hold_nothing_while_its_partition_goes_from_task_to_executor(
    rounds: Iterator[Round],
) -> None:
    for one in islice(rounds, 50):
        writers = one.environment.create_result_partition_writers(one.job_id, one.tasks[0], NUMBER)
        for writer in writers:
            writer.setup()
            finished = threading.Event()

            def finish(writer: Any = writer, finished: threading.Event = finished) -> None:
                writer.finish()
                finished.set()

            def watch(one: Round = one, finished: threading.Event = finished) -> None:
                while not finished.is_set():
                    assert one.environment.has_partitions(one.job_id)

            one.race(finish, watch, watch)
            one.environment.release_finished_partitions([writer.partition_id])
