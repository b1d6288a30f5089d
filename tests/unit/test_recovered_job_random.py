"""What need not run again, decided a second time in another way, for random logs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.job_history import JobHistory
from holdfast.runtime.recovery.log_corrections import corrections
from holdfast.runtime.recovery.recovered_job import RecoveredJob, RecoveredVertex, decide
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from tests.unit.recovery_fakes import METRICS, Tracked

DATASETS = [IntermediateDataSetID(digit * 64) for digit in "ab"]
OUTPUTS = [OutputID(dataset_id, digits * 8) for dataset_id in DATASETS for digits in "12"]
VERTICES = [JobVertexID(digits) for digits in ("0a", "0b")]
# Most of what happens, happens to one vertex; the more of it meets.
SUBTASKS = st.sampled_from([0, 0, 1, 1, 2])
SOME_OUTPUTS = st.sampled_from([*OUTPUTS[:2] * 4, *OUTPUTS])
SOME_VERTICES = st.sampled_from([*VERTICES[:1] * 5, *VERTICES])


def initialized(
    vertex_id: JobVertexID,
    parallelism: int,
    output: OutputID,
    split: str,
    named: bool,
    snapshot: bytes | None,
) -> ExecutionJobVertexInitialized:
    return ExecutionJobVertexInitialized(
        vertex_id, parallelism, output.dataset_id, split, output if named else None, snapshot
    )


def finished(
    vertex_id: JobVertexID, subtask: int, output: OutputID | None, snapshot: bytes | None
) -> ExecutionVertexFinished:
    metrics = None if output is None else METRICS
    return ExecutionVertexFinished(vertex_id, subtask, 0, output, metrics, snapshot)


INITIALIZED = st.builds(
    initialized,
    SOME_VERTICES,
    st.sampled_from([2, 2, 2, 3]),
    SOME_OUTPUTS,
    st.sampled_from(["s", "s", "s", "t", ""]),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, b"first"]),
)
FINISHED = st.builds(
    finished,
    SOME_VERTICES,
    SUBTASKS,
    SOME_OUTPUTS | st.none(),
    st.sampled_from([None, None, None, b"snapshot"]),
)
RESET = st.builds(
    ExecutionVertexReset, SOME_VERTICES, st.sampled_from([(0,), (1,), (0, 1), (0, 1, 2)])
)
EVENTS = st.one_of(
    FINISHED, FINISHED, FINISHED, INITIALIZED, RESET, st.just(JobFinished(JobStatus.FAILED))
)
# Most start as a log does.
LOGS = st.builds(
    lambda first, rest: [*first, *rest],
    st.lists(INITIALIZED, max_size=2),
    st.lists(EVENTS, max_size=14),
)
PARTITIONS = [ResultPartitionID(output, index) for output in OUTPUTS for index in range(4)]
LOST = st.just(set()) | st.sets(st.sampled_from(PARTITIONS), min_size=4, max_size=12)
TRACKED = LOST.map(lambda lost: [Tracked(each) for each in PARTITIONS if each not in lost])
WHOLE = st.just(()) | st.sets(st.sampled_from(OUTPUTS), max_size=2)


def recover(
    log: Sequence[JobEvent], tracked: Collection[Tracked], whole: Collection[OutputID]
) -> RecoveredJob:
    return decide(JobHistory(log), tracked, whole)


class Reading:
    """Reads a log from its end, a question at a time; slow, and without any state."""

    def __init__(self, log: Sequence[JobEvent], dataset_id: IntermediateDataSetID) -> None:
        self.log = list(log)
        self.dataset_id = dataset_id
        last = self.initializations()[-1]
        self.vertex = self.log[last]
        assert isinstance(self.vertex, ExecutionJobVertexInitialized)
        self.begin = last
        for at in reversed(self.initializations()):
            event = self.log[at]
            assert isinstance(event, ExecutionJobVertexInitialized)
            same = (event.split, event.parallelism) == (
                self.vertex.split,
                self.vertex.parallelism,
            )
            if not same or not event.split:
                break
            self.begin = at

    def initializations(self) -> list[int]:
        return [
            at
            for at, event in enumerate(self.log)
            if isinstance(event, ExecutionJobVertexInitialized)
            and event.dataset_id == self.dataset_id
        ]

    def is_meant(self, at: int, vertex_id: JobVertexID) -> bool:
        """Whether a vertex's id means this dataset's vertex at a place in the log."""
        for event in reversed(self.log[:at]):
            if isinstance(event, ExecutionJobVertexInitialized) and event.vertex_id == vertex_id:
                return event.dataset_id == self.dataset_id
        return False

    def parallelism(self, at: int) -> int:
        event = self.log[max(each for each in self.initializations() if each < at)]
        assert isinstance(event, ExecutionJobVertexInitialized)
        return event.parallelism

    def finishes(self) -> Iterator[tuple[int, ExecutionVertexFinished]]:
        for at, event in enumerate(self.log):
            if (
                isinstance(event, ExecutionVertexFinished)
                and self.is_meant(at, event.vertex_id)
                and event.subtask < self.parallelism(at)
                and (event.output is None or event.output.dataset_id == self.dataset_id)
            ):
                yield at, event

    def resets(self, subtask: int) -> list[int]:
        return [
            at
            for at, event in enumerate(self.log)
            if isinstance(event, ExecutionVertexReset)
            and subtask in event.subtasks
            and self.is_meant(at, event.vertex_id)
        ]

    def named(self, output: OutputID) -> int | None:
        """Where the log first names an output."""
        places = [at for at, event in self.finishes() if event.output == output]
        places += [
            at for at in self.initializations() if getattr(self.log[at], "output", None) == output
        ]
        return min(places, default=None)

    def is_void(self, output: OutputID, subtask: int) -> bool:
        first = self.named(output)
        if first is None:
            return False
        resets = [at for at in self.resets(subtask) if at > first]
        said = [
            at
            for at, event in self.finishes()
            if event.output == output and event.subtask == subtask
        ]
        return bool(resets) and max(resets) > max(said, default=-1)

    def last_word(self, subtask: int) -> tuple[int, ExecutionVertexFinished] | None:
        said = [(at, each) for at, each in self.finishes() if each.subtask == subtask]
        if not said or said[-1][0] < self.begin:
            return None
        return None if any(at > said[-1][0] for at in self.resets(subtask)) else said[-1]

    def finished(self, present: Collection[ResultPartitionID]) -> dict[int, OutputID | None]:
        assert isinstance(self.vertex, ExecutionJobVertexInitialized)
        found: dict[int, OutputID | None] = {}
        for subtask in range(self.vertex.parallelism):
            word = self.last_word(subtask)
            if word is not None:
                output = word[1].output
                if output is None or ResultPartitionID(output, subtask) in present:
                    found[subtask] = output
        if not self.vertex.split:
            return found if len(found) == self.vertex.parallelism else {}
        for at in self.initializations():
            output = getattr(self.log[at], "output", None)
            if at < self.begin or output is None:
                continue
            for subtask in range(self.vertex.parallelism):
                partition_id = ResultPartitionID(output, subtask)
                if partition_id in present and not self.is_void(output, subtask):
                    found.setdefault(subtask, output)
        return found


MANY = settings(max_examples=5 * settings.default.max_examples)


def since_the_jobs_end(log: Sequence[JobEvent]) -> list[JobEvent]:
    ends = [at for at, event in enumerate(log) if isinstance(event, JobFinished)]
    return list(log[ends[-1] + 1 :]) if ends else list(log)


@MANY
@given(LOGS, TRACKED, WHOLE)
def test_another_reading_of_the_log_decides_the_same(
    log: list[JobEvent], tracked: list[Tracked], whole: Collection[OutputID]
) -> None:
    job = recover(log, tracked, whole)
    present = {each.partition_id for each in tracked}
    counts = since_the_jobs_end(log)
    initialized_ones = {
        event.dataset_id for event in counts if isinstance(event, ExecutionJobVertexInitialized)
    }
    assert job.by_dataset.keys() == initialized_ones
    for dataset_id, vertex in job.by_dataset.items():
        reading = Reading(counts, dataset_id)
        valid = [
            output
            for output in whole
            if output.dataset_id == dataset_id
            and not any(reading.is_void(output, subtask) for subtask in range(4))
        ]
        assert (vertex.whole in valid) if valid else (vertex.whole is None)
        assert sorted([*vertex.finished, *vertex.missing]) == list(range(vertex.parallelism))
        if vertex.whole is not None:
            assert not vertex.missing
            for subtask, output in vertex.finished.items():
                word = reading.last_word(subtask)
                said_to_leave_nothing = word is not None and word[1].output is None
                assert output == (None if said_to_leave_nothing else vertex.whole)
        else:
            assert vertex.finished == reading.finished(present)


@given(LOGS, TRACKED, WHOLE)
def test_a_start_that_does_nothing_changes_nothing(
    log: list[JobEvent], tracked: list[Tracked], whole: Collection[OutputID]
) -> None:
    job = recover(log, tracked, whole)
    # A vertex whose id another one has had since can't be spoken of any more.
    history = JobHistory(log)
    assume(all(history._by_id[each.vertex_id] is each for each in history.vertices.values()))
    sizes = {each.partition_id: each.metrics for each in tracked}
    again = recover([*log, *corrections(job, sizes)], tracked, whole)
    assert _findings(again) == _findings(job)
    # Nothing is left to be said, but what has no partition to be named by.
    assert all(
        vertex.finished[subtask] is None
        for vertex in again.vertices.values()
        for subtask in vertex.unrecorded
    )


@given(LOGS, st.integers(0, 20))
def test_events_add_up_one_by_one(log: list[JobEvent], at: int) -> None:
    history = JobHistory(log[:at])
    for event in log[at:]:
        history.apply(event)
    together = JobHistory(log)
    assert history.vertices == together.vertices
    assert history.ended == together.ended


def _findings(job: RecoveredJob) -> list[tuple[object, ...]]:
    def of(vertex: RecoveredVertex) -> tuple[object, ...]:
        return (vertex.dataset_id, vertex.split, dict(vertex.finished), vertex.whole)

    return [of(vertex) for vertex in job.vertices.values()]
