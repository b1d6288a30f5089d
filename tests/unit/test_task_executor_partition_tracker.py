"""Which outputs a task executor has of an application, and whose their partitions are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from holdfast.errors import DuplicateRegistrationError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.outputs.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)
from holdfast.taskexecutor.partitions.partition_info import OutputID

JOB, OTHER_JOB = JobID("1" * 32), JobID("2" * 32)
DATASET, OTHER_DATASET = IntermediateDataSetID("a" * 64), IntermediateDataSetID("b" * 64)
OUTPUT = OutputID(DATASET, "00000001")
ANOTHER_ATTEMPT = OutputID(DATASET, "00000002")
OTHER_OUTPUT = OutputID(OTHER_DATASET, "00000001")
PUBLISHED = Path("datasets")


def partition(index: int) -> KeptPartition:
    file = f"part-{index:05}-x.parquet"
    return KeptPartition(index=index, file=file, bytes=100 + index, rows=index, version="1")


def manifest(output: Output) -> Manifest:
    dataset = DataSetDescription(
        dataset_id=output.output_id.dataset_id.hex, computes="rows", columns=(), spark_version="4"
    )
    return Manifest(created="now", dataset=dataset, partitions=output.partitions)


class Book:
    """A tracker, and what an application does with it."""

    def __init__(self) -> None:
        self.tracker = TaskExecutorPartitionTracker()
        for job_id in (JOB, OTHER_JOB):
            self.tracker.mark_job_active(job_id)

    def opened(self, job_id: JobID = JOB, output_id: OutputID = OUTPUT) -> Output:
        output = Output(output_id, job_id, Path("staging"))
        self.tracker.start_tracking(output)
        return output

    def finished(self, job_id: JobID = JOB, output_id: OutputID = OUTPUT, *indices: int) -> Output:
        output = self.opened(job_id, output_id)
        kept = [partition(index) for index in indices or (0, 2)]
        assert self.tracker.start_tracking_partitions(output, kept, 4)
        return output

    def promoted(self, job_id: JobID = JOB, output_id: OutputID = OUTPUT) -> Output:
        output = self.finished(job_id, output_id)
        assert self.tracker.promote(output, PUBLISHED, manifest(output))
        return output


@pytest.fixture
def book() -> Book:
    return Book()


def test_a_promoted_output_lies_where_it_is_published(book: Book) -> None:
    output = book.promoted()
    assert (output.directory, output.state) == (PUBLISHED, OutputState.PROMOTED)
    assert output.manifest == manifest(output)
    assert output.files == {each.file: each for each in output.partitions}
    assert not book.tracker.is_tracking_partitions_for(JOB)


def test_a_directory_is_known_by_its_output_s_name(book: Book) -> None:
    book.opened()
    assert book.tracker.knows(OUTPUT.name)
    assert not book.tracker.knows(OTHER_OUTPUT.name)
    assert not book.tracker.knows("no output's name")


class Machine(RuleBasedStateMachine):
    """Against one dictionary of what is to be there."""

    tracked = Bundle("tracked")

    def __init__(self) -> None:
        super().__init__()
        self.tracker = TaskExecutorPartitionTracker()
        self.active: set[JobID] = set()
        self.expected: dict[OutputID, tuple[Output, OutputState]] = {}

    def state_of(self, output: Output) -> OutputState | None:
        known, state = self.expected.get(output.output_id, (None, None))
        return state if known is output else None

    def is_released(self, released: list[Output], expected: list[Output]) -> None:
        assert sorted(map(id, released)) == sorted(map(id, expected))
        for output in released:
            del self.expected[output.output_id]

    @rule(job_id=st.sampled_from([JOB, OTHER_JOB]), active=st.booleans())
    def mark(self, job_id: JobID, active: bool) -> None:
        if active:
            self.tracker.mark_job_active(job_id)
        else:
            self.tracker.mark_job_inactive(job_id)
        (self.active.add if active else self.active.discard)(job_id)

    @rule(
        target=tracked,
        job_id=st.sampled_from([JOB, OTHER_JOB]),
        name=st.sampled_from([OUTPUT, ANOTHER_ATTEMPT, OTHER_OUTPUT]),
        state=st.sampled_from([OutputState.OPEN, OutputState.PARTIAL, OutputState.PROMOTED]),
    )
    def start(self, job_id: JobID, name: OutputID, state: OutputState) -> Output:
        output = Output(name, job_id, Path("staging"), state)
        if name in self.expected:
            with pytest.raises(DuplicateRegistrationError):
                self.tracker.start_tracking(output)
        else:
            self.tracker.start_tracking(output)
            self.expected[name] = output, state
        return output

    @rule(output=tracked, indices=st.sets(st.integers(0, 3)))
    def finish(self, output: Output, indices: set[int]) -> None:
        state = self.state_of(output)
        if state not in (OutputState.OPEN, None):
            return
        kept = [partition(index) for index in sorted(indices)]
        found = self.tracker.start_tracking_partitions(output, kept, 4)
        assert found == (state is OutputState.OPEN and output.job_id in self.active)
        if found:
            self.expected[output.output_id] = output, OutputState.FINISHED
        elif state is not None:
            del self.expected[output.output_id]

    @rule(output=tracked)
    def promote(self, output: Output) -> None:
        state = self.state_of(output)
        if state not in (OutputState.FINISHED, OutputState.PARTIAL, None):
            return
        assert self.tracker.promote(output, PUBLISHED, manifest(output)) == (state is not None)
        if state is not None:
            self.expected[output.output_id] = output, OutputState.PROMOTED

    @rule(output=tracked)
    def stop(self, output: Output) -> None:
        known = self.state_of(output) is not None
        assert self.tracker.stop_tracking(output) == known
        if known:
            del self.expected[output.output_id]

    @rule(job_id=st.sampled_from([JOB, OTHER_JOB]))
    def release_job(self, job_id: JobID) -> None:
        expected = self.of(OutputState.FINISHED, job_id)
        self.is_released(self.tracker.stop_tracking_job_partitions_for(job_id), expected)

    @rule(names=st.none() | st.lists(st.sampled_from([OUTPUT, ANOTHER_ATTEMPT, OTHER_OUTPUT])))
    def release_cluster(self, names: list[OutputID] | None) -> None:
        expected = self.of(OutputState.PROMOTED)
        if names is not None:
            expected += self.of(OutputState.PARTIAL)
            expected = [each for each in expected if each.output_id in names]
        self.is_released(self.tracker.stop_tracking_cluster_partitions(names), expected)

    def of(self, state: OutputState, job_id: JobID | None = None) -> list[Output]:
        return [
            output
            for output, known in self.expected.values()
            if known is state and job_id in (None, output.job_id)
        ]

    @invariant()
    def the_book_is_as_expected(self) -> None:
        assert {each.output_id: (each, each.state) for each in self.tracker.all()} == self.expected
        for state in OutputState:
            assert set(self.tracker.all(state)) == set(self.of(state))
        for job_id in (JOB, OTHER_JOB):
            finished = self.of(OutputState.FINISHED, job_id)
            held = any(output.partitions for output in finished)
            assert self.tracker.is_tracking_partitions_for(job_id) == held
            assert self.tracker.is_job_active(job_id) == (job_id in self.active)


TestMachine: Any = Machine.TestCase
TestMachine.settings = settings(max_examples=2 * settings().max_examples)
