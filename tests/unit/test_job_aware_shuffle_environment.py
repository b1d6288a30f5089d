from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    TaskExecutorError,
    UnknownJobError,
    UnknownPartitionError,
)
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.taskexecutor.partitions.job_aware_shuffle_environment import (
    JobAwareShuffleEnvironment,
)
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.shuffle_environment import ResultPartitionWriter
from holdfast.taskexecutor.partitions.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)

JOBS = (JobID("1" * 32), JobID("2" * 32))
JOB, OTHER_JOB = JOBS
DATASETS = (IntermediateDataSetID("a" * 64), IntermediateDataSetID("b" * 64))
OUTPUTS = tuple(
    OutputID(dataset_id, attempt) for dataset_id in DATASETS for attempt in ("00000001", "00000002")
)
OUTPUT, ANOTHER_OUTPUT = OUTPUTS[:2]
IN_PROGRESS, FINISHED = "in progress", "finished"


def ids(*indices: int, output: OutputID = OUTPUT) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


class Executor:
    """A shuffle environment over partitions in memory, as a task executor sets it up."""

    def __init__(self, memory_shuffle_environment: Any) -> None:
        self.backing = memory_shuffle_environment()
        self.tracker = TaskExecutorPartitionTracker(self.backing)
        self.environment = JobAwareShuffleEnvironment(self.backing, self.tracker)

    def writers(
        self, job_id: JobID, *indices: int, output: OutputID = OUTPUT, number: int = 4
    ) -> list[ResultPartitionWriter]:
        return self.environment.create_result_partition_writers(
            job_id, ids(*indices, output=output), number
        )

    def set_up(
        self, job_id: JobID, *indices: int, output: OutputID = OUTPUT
    ) -> list[ResultPartitionWriter]:
        writers = self.writers(job_id, *indices, output=output)
        for writer in writers:
            writer.setup()
        return writers

    def finished(self, job_id: JobID, *indices: int, output: OutputID = OUTPUT) -> None:
        for writer in self.set_up(job_id, *indices, output=output):
            writer.finish()

    def lose(self, job_id: JobID) -> None:
        """What the executor does when it loses a job's master."""
        self.environment.mark_job_inactive(job_id)
        self.environment.release_all_finished_partitions_for(job_id)

    def tracked(self, job_id: JobID = JOB) -> list[ResultPartitionID]:
        return [info.partition_id for info in self.tracker.job_partitions(job_id)]

    def state(self) -> object:
        return (
            self.backing.held(),
            [self.environment.is_job_active(job_id) for job_id in JOBS],
            [self.environment.partitions_in_progress(job_id) for job_id in JOBS],
            [self.tracker.job_partitions(job_id) for job_id in JOBS],
            self.tracker.cluster_partitions(),
        )


@pytest.fixture
def executor(memory_shuffle_environment: Any) -> Executor:
    executor = Executor(memory_shuffle_environment)
    executor.environment.mark_job_active(JOB)
    return executor


# General Idea


def test_mark_job_active_informs_the_environment_about_jobs_it_should_keep_partitions_for(
    executor: Executor,
) -> None:
    assert executor.environment.is_job_active(JOB)
    assert not executor.environment.is_job_active(OTHER_JOB)
    executor.finished(JOB, 0)
    assert executor.backing.held() == {ids(0)[0]: FINISHED}


def test_if_this_flag_is_not_set_any_partition_that_finishes_is_released(
    executor: Executor,
) -> None:
    executor.finished(OTHER_JOB, 0)
    assert executor.backing.held() == {}
    assert not executor.environment.has_partitions(OTHER_JOB)


def test_creating_writers_sets_up_and_tracks_nothing(executor: Executor) -> None:
    before = executor.state()
    writers = executor.writers(JOB, 2, 0)
    assert [writer.partition_id for writer in writers] == ids(2, 0)
    assert executor.state() == before


def test_setup_adds_the_created_partitions_as_in_progress(executor: Executor) -> None:
    executor.set_up(JOB, 0, 1)
    assert executor.environment.partitions_in_progress(JOB) == tuple(ids(0, 1))
    assert executor.environment.has_partitions(JOB)
    assert executor.tracked() == []


def test_a_failing_task_s_partitions_are_released_and_removed_from_the_book(
    executor: Executor,
) -> None:
    for writer in executor.set_up(JOB, 0, 1):
        writer.fail("the task has failed")
    assert executor.backing.held() == {}
    assert not executor.environment.has_partitions(JOB)


def test_finish_makes_a_partition_the_executor_s_to_release(executor: Executor) -> None:
    (writer,) = executor.set_up(JOB, 3)
    metrics = writer.finish()
    assert metrics == PartitionMetrics(bytes=103, rows=3)
    assert executor.environment.partitions_in_progress(JOB) == ()
    assert executor.tracker.job_partitions(JOB) == (
        TaskExecutorPartitionInfo(ids(3)[0], metrics, 4),
    )
    assert executor.environment.has_partitions(JOB)


def test_an_external_release_is_forwarded_and_removes_from_the_book(executor: Executor) -> None:
    executor.finished(JOB, 0, 1)
    executor.environment.release_finished_partitions(ids(0))
    assert executor.backing.held() == {ids(1)[0]: FINISHED}
    assert executor.tracked() == ids(1)


def test_an_external_release_leaves_partitions_in_progress_to_their_tasks(
    executor: Executor,
) -> None:
    (writer,) = executor.set_up(JOB, 0)
    executor.environment.release_finished_partitions(ids(0))
    assert executor.backing.held() == {ids(0)[0]: IN_PROGRESS}
    writer.finish()
    assert executor.tracked() == ids(0)


def test_a_job_holds_partitions_until_the_last_is_released_failed_or_promoted(
    executor: Executor,
) -> None:
    executor.finished(JOB, 0, 1)
    (writer,) = executor.set_up(JOB, 2)
    executor.environment.release_finished_partitions(ids(0))
    assert executor.environment.has_partitions(JOB)
    executor.tracker.promote_job_partitions(ids(1))
    assert executor.environment.has_partitions(JOB)
    writer.fail()
    assert not executor.environment.has_partitions(JOB)


# Abnormal events / Special cases


def test_on_losing_the_job_master_all_finished_partitions_of_that_point_in_time_are_released(
    executor: Executor,
) -> None:
    executor.finished(JOB, 0, 1)
    executor.environment.mark_job_active(OTHER_JOB)
    executor.finished(OTHER_JOB, 0, output=ANOTHER_OUTPUT)
    executor.lose(JOB)
    assert not executor.environment.is_job_active(JOB)
    assert executor.backing.held() == {ids(0, output=ANOTHER_OUTPUT)[0]: FINISHED}


def test_partitions_in_progress_are_not_cleaned_up_by_the_executor(executor: Executor) -> None:
    executor.set_up(JOB, 0)
    executor.finished(JOB, 1)
    executor.lose(JOB)
    assert executor.backing.held() == {ids(0)[0]: IN_PROGRESS}
    assert executor.environment.has_partitions(JOB)


def test_a_cancelled_task_fails_its_partitions_and_they_are_cleaned_up(
    executor: Executor,
) -> None:
    (writer,) = executor.set_up(JOB, 0)
    executor.lose(JOB)
    writer.fail("cancelled")
    assert executor.backing.held() == {}
    assert not executor.environment.has_partitions(JOB)


def test_a_task_that_finishes_after_its_job_was_cancelled_leaves_nothing(
    executor: Executor,
) -> None:
    (writer,) = executor.set_up(JOB, 0)
    executor.lose(JOB)
    writer.finish()
    assert executor.backing.held() == {}
    assert not executor.environment.has_partitions(JOB)


def test_the_flag_is_unset_right_away_before_anything_is_released(executor: Executor) -> None:
    executor.finished(JOB, 0)
    (writer,) = executor.set_up(JOB, 1)
    executor.environment.mark_job_inactive(JOB)
    writer.finish()
    assert executor.backing.held() == {ids(0)[0]: FINISHED}


def test_what_was_promoted_outlives_the_loss_of_the_job_master(executor: Executor) -> None:
    executor.finished(JOB, 0)
    executor.tracker.promote_job_partitions(ids(0))
    executor.lose(JOB)
    assert executor.backing.held() == {ids(0)[0]: FINISHED}


def test_a_task_cancelled_right_away_neither_sets_up_nor_leaves_anything(
    executor: Executor,
) -> None:
    before = executor.state()
    for writer in executor.writers(JOB, 0, 1):
        writer.fail("cancelled")
    assert executor.state() == before


def test_a_task_that_fails_after_it_finished_a_partition_takes_it_back(
    executor: Executor,
) -> None:
    first, second = executor.set_up(JOB, 0, 1)
    first.finish()
    for writer in (first, second):
        writer.fail("the second partition has failed")
        writer.fail("again")
    assert executor.backing.held() == {}
    assert not executor.environment.has_partitions(JOB)


def test_a_task_that_fails_after_its_partition_was_promoted_leaves_it(executor: Executor) -> None:
    (writer,) = executor.set_up(JOB, 0)
    writer.finish()
    executor.tracker.promote_job_partitions(ids(0))
    writer.fail()
    assert executor.backing.held() == {ids(0)[0]: FINISHED}


# Bad input


def test_a_second_registration_of_a_job_is_refused_and_changes_nothing(executor: Executor) -> None:
    before = executor.state()
    with pytest.raises(DuplicateRegistrationError, match=JOB.hex):
        executor.environment.mark_job_active(JOB)
    assert executor.state() == before


def test_an_unknown_job_can_t_be_marked_inactive(executor: Executor) -> None:
    before = executor.state()
    with pytest.raises(UnknownJobError, match=OTHER_JOB.hex):
        executor.environment.mark_job_inactive(OTHER_JOB)
    assert executor.state() == before


def test_a_second_setup_is_refused_and_changes_nothing(executor: Executor) -> None:
    (writer,) = executor.set_up(JOB, 0)
    executor.finished(JOB, 1, 2)
    executor.tracker.promote_job_partitions(ids(2))
    before = executor.state()
    others = executor.writers(JOB, 0, 1, 2)
    for duplicate in (writer, *others):
        with pytest.raises(DuplicateRegistrationError):
            duplicate.setup()
        assert executor.state() == before
    for duplicate in others:
        duplicate.fail("it could not be set up")
        assert executor.state() == before


def test_an_output_of_another_job_is_refused_and_changes_nothing(executor: Executor) -> None:
    executor.set_up(JOB, 0)
    executor.finished(JOB, 0, output=ANOTHER_OUTPUT)
    before = executor.state()
    for output in (OUTPUT, ANOTHER_OUTPUT):
        (writer,) = executor.writers(OTHER_JOB, 1, output=output)
        with pytest.raises(DuplicateRegistrationError):
            writer.setup()
        assert executor.state() == before


def test_an_output_of_another_size_is_refused_and_changes_nothing(executor: Executor) -> None:
    executor.set_up(JOB, 0)
    executor.finished(JOB, 0, output=ANOTHER_OUTPUT)
    before = executor.state()
    for output in (OUTPUT, ANOTHER_OUTPUT):
        (writer,) = executor.writers(JOB, 1, output=output, number=5)
        with pytest.raises(MalformedRequestError):
            writer.setup()
        assert executor.state() == before


@pytest.mark.parametrize("number", [0, 2, 1 << 40])
def test_writers_of_partitions_that_can_t_be_are_not_made(executor: Executor, number: int) -> None:
    before = executor.state()
    with pytest.raises(MalformedRequestError):
        executor.writers(JOB, 0, 2, number=number)
    assert executor.state() == before


def test_only_a_partition_in_progress_can_be_finished(executor: Executor) -> None:
    created, finished, failed = executor.writers(JOB, 0, 1, 2)
    for writer in (finished, failed):
        writer.setup()
    finished.finish()
    failed.fail()
    before = executor.state()
    for writer in (created, finished, failed):
        with pytest.raises(UnknownPartitionError):
            writer.finish()
        assert executor.state() == before


def test_a_setup_that_fails_leaves_the_book_as_it_was(executor: Executor) -> None:
    (orphan,) = executor.backing.create_result_partition_writers(JOB, ids(0))
    orphan.setup()
    before = executor.state()
    (writer,) = executor.writers(JOB, 0)
    with pytest.raises(AssertionError):
        writer.setup()
    assert executor.state() == before


def test_a_partition_whose_finish_fails_stays_in_progress_until_its_task_fails_it(
    executor: Executor,
) -> None:
    (writer,) = executor.set_up(JOB, 0)
    # Someone has removed it behind the environment's back.
    executor.backing.change(ids(0)[0], IN_PROGRESS, None)
    with pytest.raises(AssertionError):
        writer.finish()
    assert executor.environment.partitions_in_progress(JOB) == tuple(ids(0))
    with pytest.raises(AssertionError):
        writer.fail()
    assert not executor.environment.has_partitions(JOB)


def test_a_finished_partition_that_can_t_be_tracked_is_released(executor: Executor) -> None:
    (writer,) = executor.set_up(JOB, 0)
    # Only a tracker that is told directly can come to contradict the environment.
    contradiction = TaskExecutorPartitionInfo(ids(1)[0], PartitionMetrics(0, 0), 5)
    executor.tracker.start_tracking_partition(JOB, contradiction)
    with pytest.raises(MalformedRequestError):
        writer.finish()
    assert executor.backing.held() == {}
    assert executor.environment.partitions_in_progress(JOB) == ()


class Machine(RuleBasedStateMachine):
    """Drives the environment and the tracker against a book of one line for each partition."""

    created = Bundle("created")
    working = Bundle("working")
    finished = Bundle("finished")

    def __init__(self, memory_shuffle_environment: Any) -> None:
        super().__init__()
        self.executor = Executor(memory_shuffle_environment)
        self.active: set[JobID] = set()
        # For each partition its job, the number of its output's partitions and what it is.
        self.book: dict[ResultPartitionID, tuple[JobID, int, str]] = {}

    def of(self, what: str, job_id: JobID | None = None) -> list[ResultPartitionID]:
        return [
            partition_id
            for partition_id, (owner, _, kind) in self.book.items()
            if kind == what and job_id in (None, owner)
        ]

    def drop(self, dropped: list[ResultPartitionID]) -> None:
        for partition_id in dropped:
            self.book.pop(partition_id, None)

    def refused(self, error: type[TaskExecutorError], step: Any) -> None:
        before = self.executor.state()
        with pytest.raises(error):
            step()
        assert self.executor.state() == before

    @initialize()
    def start(self) -> None:
        self.executor.environment.mark_job_active(JOB)
        self.active.add(JOB)

    @rule(job_id=st.sampled_from(JOBS))
    def mark_active(self, job_id: JobID) -> None:
        step = self.executor.environment.mark_job_active
        if job_id in self.active:
            return self.refused(DuplicateRegistrationError, lambda: step(job_id))
        step(job_id)
        self.active.add(job_id)

    @rule(job_id=st.sampled_from(JOBS))
    def lose_job_master(self, job_id: JobID) -> None:
        if job_id not in self.active:
            return self.refused(UnknownJobError, lambda: self.executor.lose(job_id))
        self.executor.lose(job_id)
        self.active.remove(job_id)
        self.drop(self.of("job", job_id))

    @rule(
        target=created,
        job_id=st.sampled_from(JOBS),
        output=st.sampled_from(OUTPUTS),
        indices=st.sets(st.integers(0, 2), min_size=1),
        number=st.sampled_from([3, 3, 3, 4]),
    )
    def create(self, job_id: JobID, output: OutputID, indices: set[int], number: int) -> Any:
        writers = self.executor.writers(job_id, *indices, output=output, number=number)
        return multiple(*((job_id, number, writer) for writer in writers))

    @rule(target=working, task=consumes(created))
    def set_up(self, task: Any) -> Any:
        job_id, number, writer = task
        conflicts: list[type[TaskExecutorError]] = []
        for other, (owner, others_number, kind) in self.book.items():
            if other.output == writer.partition_id.output:
                same_job = kind == "cluster" or owner == job_id
                if other == writer.partition_id or not same_job:
                    conflicts.append(DuplicateRegistrationError)
                if others_number != number:
                    conflicts.append(MalformedRequestError)
        if conflicts:
            self.refused(tuple(conflicts), writer.setup)  # type: ignore[arg-type]
            self.refused(UnknownPartitionError, writer.finish)
            return multiple()
        writer.setup()
        self.book[writer.partition_id] = (job_id, number, "in progress")
        return task

    @rule(target=finished, task=consumes(working))
    def finish(self, task: Any) -> Any:
        job_id, number, writer = task
        writer.finish()
        if job_id in self.active:
            self.book[writer.partition_id] = (job_id, number, "job")
        else:
            del self.book[writer.partition_id]
        return task

    @rule(task=consumes(working))
    def fail(self, task: Any) -> None:
        writer = task[2]
        writer.fail("the task has failed")
        del self.book[writer.partition_id]
        writer.fail("again")

    @rule(task=consumes(created))
    def fail_before_setup(self, task: Any) -> None:
        task[2].fail("cancelled")

    @rule(task=consumes(finished))
    def fail_after_finish(self, task: Any) -> None:
        task[2].fail("another partition has failed")
        if self.book.get(task[2].partition_id, (None, None, None))[2] == "job":
            del self.book[task[2].partition_id]

    @rule(data=st.data(), unknown=st.booleans())
    def release(self, data: st.DataObject, unknown: bool) -> None:
        named = data.draw(st.sets(st.sampled_from(list(self.book)))) if self.book else set()
        self.executor.environment.release_finished_partitions(
            [*named, *(ids(99) if unknown else ())]
        )
        self.drop([one for one in named if self.book[one][2] == "job"])

    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        named = data.draw(st.sets(st.sampled_from(list(self.book)))) if self.book else set()
        if any(self.book[one][2] != "job" for one in named):
            return self.refused(
                UnknownPartitionError, lambda: self.executor.tracker.promote_job_partitions(named)
            )
        self.executor.tracker.promote_job_partitions(named)
        for one in named:
            self.book[one] = (*self.book[one][:2], "cluster")

    @rule(dataset_ids=st.sets(st.sampled_from(DATASETS)))
    def release_datasets(self, dataset_ids: set[IntermediateDataSetID]) -> None:
        self.executor.tracker.stop_tracking_and_release_cluster_partitions(dataset_ids)
        self.drop([one for one in self.of("cluster") if one.dataset_id in dataset_ids])

    @rule(outputs=st.sets(st.sampled_from(OUTPUTS)))
    def release_outputs(self, outputs: set[OutputID]) -> None:
        self.executor.tracker.stop_tracking_and_release_cluster_outputs(outputs)
        self.drop([one for one in self.of("cluster") if one.output in outputs])

    @rule()
    def release_all_cluster_partitions(self) -> None:
        self.executor.tracker.stop_tracking_and_release_all_cluster_partitions()
        self.drop(self.of("cluster"))

    @invariant()
    def nothing_leaks_and_nothing_is_missing(self) -> None:
        assert self.executor.backing.held() == {
            partition_id: IN_PROGRESS if kind == "in progress" else FINISHED
            for partition_id, (_, _, kind) in self.book.items()
        }

    @invariant()
    def the_books_agree(self) -> None:
        environment, tracker = self.executor.environment, self.executor.tracker
        for job_id in JOBS:
            in_progress, own = self.of("in progress", job_id), self.of("job", job_id)
            assert set(environment.partitions_in_progress(job_id)) == set(in_progress)
            assert set(self.executor.tracked(job_id)) == set(own)
            assert tracker.is_tracking_partitions_for(job_id) == bool(own)
            assert environment.has_partitions(job_id) == bool(own or in_progress)
            assert environment.is_job_active(job_id) == (job_id in self.active)
        reported = {
            hosted.partition_id: entry.number_of_total_partitions
            for entry in tracker.create_cluster_partition_report().entries
            for hosted in entry.hosted_partitions
        }
        assert reported == {one: self.book[one][1] for one in self.of("cluster")}


def test_the_books_are_right_whatever_happens_in_whatever_order(
    memory_shuffle_environment: Any,
) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: Machine(memory_shuffle_environment),
        settings=settings(max_examples=5 * settings().max_examples),
    )
