"""Where the partitions of jobs and of the cluster are, and which task executors release them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    UnknownDataSetError,
    UnknownPartitionError,
    UnknownTaskExecutorError,
)
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.job_master_partition_tracker import (
    JobMasterPartitionTracker,
)
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

EXECUTORS = ("left", "right")
LEFT, RIGHT = EXECUTORS
JOBS = (JobID("1" * 32), JobID("2" * 32))
JOB, OTHER_JOB = JOBS
DATASET, OTHER_DATASET = IntermediateDataSetID("a" * 64), IntermediateDataSetID("b" * 64)
OUTPUT = OutputID(DATASET, "00000001")
ANOTHER_ATTEMPT = OutputID(DATASET, "00000002")
OTHER_OUTPUT = OutputID(OTHER_DATASET, "00000001")
OUTPUTS = (OUTPUT, ANOTHER_ATTEMPT, OTHER_OUTPUT)
NUMBER = 3


def metrics(index: int) -> PartitionMetrics:
    return PartitionMetrics(bytes=100 + index, rows=index)


def info(output: OutputID, index: int, number: int = NUMBER) -> TaskExecutorPartitionInfo:
    return TaskExecutorPartitionInfo(ResultPartitionID(output, index), metrics(index), number)


def ids(output: OutputID, *indices: int) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


def track(
    tracker: JobMasterPartitionTracker, job_id: JobID, output: OutputID, where: dict[int, str]
) -> None:
    for index, executor_id in where.items():
        tracker.start_tracking_partition(job_id, executor_id, info(output, index))


def state(tracker: JobMasterPartitionTracker, executors: Iterable[str]) -> Any:
    """All that can be asked of the tracker."""
    outputs: dict[OutputID, object] = {}
    for output in OUTPUTS:
        with suppress(UnknownDataSetError):
            outputs[output] = dict(tracker.locations(output)), tracker.is_complete(output)
    held = {each: set(tracker.datasets_on(each)) for each in executors}
    return outputs, held, [dict(tracker.get_all_partition_with_metrics(each)) for each in JOBS]


@pytest.fixture
def tracker() -> JobMasterPartitionTracker:
    tracker = JobMasterPartitionTracker()
    for executor_id in EXECUTORS:
        tracker.executor_registered(executor_id)
    return tracker


@dataclass
class Partition:
    """A line of the model's book."""

    executor_id: str
    promoted: bool


@dataclass
class Output:
    """A page of the model's book."""

    job_id: JobID | None
    number: int
    promoted: bool = False


class Machine(RuleBasedStateMachine):
    """Drives the tracker against a book that is looked through from beginning to end."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = JobMasterPartitionTracker()
        self.executors: set[str] = set()
        self.outputs: dict[OutputID, Output] = {}
        self.partitions: dict[ResultPartitionID, Partition] = {}

    def of(self, output: OutputID, promoted: bool | None = None) -> list[ResultPartitionID]:
        return [
            partition_id
            for partition_id, partition in self.partitions.items()
            if partition_id.output == output and promoted in (None, partition.promoted)
        ]

    def refused(self, error: Any, step: Callable[[], object]) -> None:
        before = state(self.tracker, self.executors)
        with pytest.raises(error):
            step()
        assert state(self.tracker, self.executors) == before

    def by_executor(self, released: list[ResultPartitionID]) -> dict[str, set[ResultPartitionID]]:
        expected: dict[str, set[ResultPartitionID]] = {}
        for partition_id in released:
            partition = self.partitions.pop(partition_id)
            expected.setdefault(partition.executor_id, set()).add(partition_id)
        return expected

    @rule(executor_id=st.sampled_from(EXECUTORS))
    def register(self, executor_id: str) -> None:
        def step() -> None:
            self.tracker.executor_registered(executor_id)

        if executor_id in self.executors:
            return self.refused(DuplicateRegistrationError, step)
        step()
        self.executors.add(executor_id)

    @rule(
        job_id=st.sampled_from(JOBS),
        executor_id=st.sampled_from(EXECUTORS),
        output=st.sampled_from(OUTPUTS),
        indices=st.sets(st.integers(0, NUMBER - 1), min_size=1),
        number=st.sampled_from([NUMBER, NUMBER, NUMBER, NUMBER + 1]),
    )
    @precondition(lambda self: self.executors)
    def finish(
        self, job_id: JobID, executor_id: str, output: OutputID, indices: set[int], number: int
    ) -> None:
        for index in sorted(indices):
            self.finish_one(job_id, executor_id, info(output, index, number))

    def finish_one(self, job_id: JobID, executor_id: str, one: TaskExecutorPartitionInfo) -> None:
        def step() -> None:
            self.tracker.start_tracking_partition(job_id, executor_id, one)

        partition_id = one.partition_id
        if executor_id not in self.executors:
            return self.refused(UnknownTaskExecutorError, step)
        page = self.outputs.get(partition_id.output)
        if page and (page.job_id != job_id or partition_id in self.partitions):
            return self.refused(DuplicateRegistrationError, step)
        if page and page.number != one.number_of_partitions:
            return self.refused(MalformedRequestError, step)
        step()
        self.outputs.setdefault(partition_id.output, Output(job_id, one.number_of_partitions))
        self.partitions[partition_id] = Partition(executor_id, promoted=False)

    @rule(data=st.data(), job_id=st.sampled_from(JOBS), whole=st.booleans())
    @precondition(lambda self: self.partitions)
    def promote(self, data: st.DataObject, job_id: JobID, whole: bool) -> None:
        if whole:
            named = self.of(data.draw(st.sampled_from(list(self.outputs))), promoted=False)
        else:
            named = list(data.draw(st.sets(st.sampled_from(list(self.partitions)))))

        def step() -> None:
            self.tracker.promote_job_partitions(job_id, named)

        if any(
            self.partitions[one].promoted or self.outputs[one.output].job_id != job_id
            for one in named
        ):
            return self.refused(UnknownPartitionError, step)
        step()
        for partition_id in named:
            self.partitions[partition_id].promoted = True
            self.outputs[partition_id.output].promoted = True

    @rule(data=st.data())
    @precondition(lambda self: self.partitions)
    def stop_tracking(self, data: st.DataObject) -> None:
        named = data.draw(st.sets(st.sampled_from(list(self.partitions))))
        own = [one for one in named if not self.partitions[one].promoted]
        expected = self.by_executor(own)
        unknown = ids(OutputID(DATASET, "ffffffff"), 0)
        released = self.tracker.stop_tracking_and_release_job_partitions([*named, *unknown])
        assert {where: set(there) for where, there in released.items()} == expected
        for output in {one.output for one in own}:
            if not self.outputs[output].promoted and not self.of(output):
                del self.outputs[output]

    @rule(job_id=st.sampled_from(JOBS))
    def end_job(self, job_id: JobID) -> None:
        own = [output for output, page in self.outputs.items() if page.job_id == job_id]
        expected = self.by_executor([one for output in own for one in self.of(output, False)])
        released = self.tracker.stop_tracking_partitions_for(job_id)
        assert {where: set(there) for where, there in released.items()} == expected
        for output in own:
            self.outputs[output].job_id = None
            if not self.outputs[output].promoted:
                del self.outputs[output]

    @rule(outputs=st.sets(st.sampled_from(OUTPUTS)))
    def release_cluster_partitions(self, outputs: set[OutputID]) -> None:
        by_output = self.tracker.stop_tracking_and_release_cluster_outputs(outputs)
        self.released(by_output, outputs)

    def released(self, released: dict[str, list[OutputID]], outputs: set[OutputID]) -> None:
        named = [one for output in outputs for one in self.of(output, promoted=True)]
        expected = {
            where: {one.output for one in there} for where, there in self.by_executor(named).items()
        }
        assert {where: set(there) for where, there in released.items()} == expected
        assert all(len(set(there)) == len(there) for there in released.values())
        for output in outputs & set(self.outputs):
            if self.outputs[output].promoted:
                self.outputs[output].promoted = False
                if not self.of(output):
                    del self.outputs[output]

    @invariant()
    def outputs_are_where_the_book_says(self) -> None:
        for output in OUTPUTS:
            page = self.outputs.get(output)
            if page is None:
                with pytest.raises(UnknownDataSetError):
                    self.tracker.locations(output)
                continue
            where = {one.index: self.partitions[one].executor_id for one in self.of(output)}
            assert self.tracker.locations(output) == where
            assert self.tracker.is_complete(output) == (len(where) == page.number)

    @invariant()
    def executors_and_jobs_have_what_the_book_says(self) -> None:
        for executor_id in self.executors:
            assert self.tracker.datasets_on(executor_id) == {
                partition_id.output
                for partition_id, partition in self.partitions.items()
                if partition.executor_id == executor_id
            }
        for job_id in JOBS:
            assert self.tracker.get_all_partition_with_metrics(job_id) == {
                partition_id: (partition.executor_id, metrics(partition_id.index))
                for partition_id, partition in self.partitions.items()
                if not partition.promoted and self.outputs[partition_id.output].job_id == job_id
            }


TestTrackerInAnyOrder: Any = Machine.TestCase
TestTrackerInAnyOrder.settings = settings(max_examples=2 * settings().max_examples)


def test_what_an_executor_has_lost_leaves_the_rest(tracker: JobMasterPartitionTracker) -> None:
    track(tracker, JOB, OUTPUT, {0: LEFT, 1: RIGHT, 2: LEFT})
    tracker.promote_job_partitions(JOB, ids(OUTPUT, 0, 1, 2))
    track(tracker, JOB, ANOTHER_ATTEMPT, {0: LEFT, 1: RIGHT, 2: RIGHT})
    tracker.cluster_partitions_lost(LEFT, OUTPUTS)
    assert tracker.locations(OUTPUT) == {1: RIGHT}
    assert not tracker.is_complete(OUTPUT)
    # It belongs to its job, which hasn't finished it.
    assert tracker.locations(ANOTHER_ATTEMPT) == {0: LEFT, 1: RIGHT, 2: RIGHT}
    assert tracker.datasets_on(LEFT) == {ANOTHER_ATTEMPT}
    assert tracker.stop_tracking_and_release_cluster_outputs([OUTPUT]) == {RIGHT: [OUTPUT]}
    with pytest.raises(UnknownTaskExecutorError):
        tracker.cluster_partitions_lost("nowhere", [OUTPUT])
