"""What of a job need not run again: each of the rules, told by a short log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest

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
from holdfast.runtime.recovery.partial_vertex import PartialVertex, partial_vertex
from holdfast.runtime.recovery.recovered_job import RecoveredJob, RecoveredVertex, decide
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)

JOINED, COUNTED = (IntermediateDataSetID(digit * 64) for digit in "ab")
FIRST, SECOND = (OutputID(JOINED, digits * 4) for digits in ("01", "02"))
OF_COUNTED = OutputID(COUNTED, "03" * 4)
JOIN, COUNT, SINK = (JobVertexID(digits) for digits in ("0a", "0b", "0c"))
JOIN_AGAIN = JobVertexID("1a")
METRICS = PartitionMetrics(bytes=4096, rows=7)
SPLIT = "four files"


@dataclass(frozen=True)
class Tracked:
    partition_id: ResultPartitionID
    metrics: PartitionMetrics = METRICS


def tracked(output: OutputID, *indices: int) -> list[Tracked]:
    return [Tracked(ResultPartitionID(output, index)) for index in indices]


def initialized(
    output: OutputID | None = None,
    split: str = SPLIT,
    parallelism: int = 4,
    vertex_id: JobVertexID = JOIN,
    snapshot: bytes | None = None,
) -> ExecutionJobVertexInitialized:
    return ExecutionJobVertexInitialized(vertex_id, parallelism, JOINED, split, output, snapshot)


def finished(
    *subtasks: int,
    output: OutputID | None = FIRST,
    snapshot: bytes | None = None,
    vertex_id: JobVertexID = JOIN,
) -> list[JobEvent]:
    metrics = None if output is None else METRICS
    return [
        ExecutionVertexFinished(vertex_id, subtask, 0, output, metrics, snapshot)
        for subtask in subtasks
    ]


def recover(
    log: Sequence[JobEvent], there: Collection[Tracked], whole: Collection[OutputID] = ()
) -> RecoveredJob:
    return decide(JobHistory(log), there, whole)


def only(job: RecoveredJob) -> RecoveredVertex:
    assert list(job.vertices) == [JOINED]
    return job.vertices[JOINED]


def test_what_finished_and_is_there_need_not_run_again() -> None:
    vertex = only(recover([initialized(), *finished(0, 1, 2)], tracked(FIRST, 0, 1, 2)))
    assert vertex.finished == {0: FIRST, 1: FIRST, 2: FIRST}
    assert vertex.missing == (3,)


def test_what_finished_and_is_lost_runs_again() -> None:
    vertex = only(recover([initialized(), *finished(0, 1, 2, 3)], tracked(FIRST, 1)))
    assert vertex.missing == (0, 2, 3)


def test_another_attempts_partition_is_not_the_one_that_finished() -> None:
    vertex = only(recover([initialized(), *finished(0, 1)], tracked(SECOND, 0, 1)))
    assert vertex.missing == (0, 1, 2, 3)


def test_a_partition_counts_without_its_event_where_the_vertex_was_to_write_it() -> None:
    vertex = only(recover([initialized(FIRST)], tracked(FIRST, 1, 3)))
    assert vertex.finished == {1: FIRST, 3: FIRST}
    assert vertex.unrecorded == (1, 3)


def test_a_partition_beyond_the_parallelism_is_nobodys() -> None:
    assert only(recover([initialized(FIRST)], tracked(FIRST, 1, 4))).finished == {1: FIRST}


def test_nothing_is_known_of_what_was_not_initialized() -> None:
    assert not recover(finished(0), tracked(FIRST, 0), [FIRST]).vertices
    assert not recover([], tracked(FIRST, 0), [FIRST]).vertices


def test_events_that_fit_no_vertex_are_passed_over() -> None:
    strange = [*finished(4), *finished(0, output=OF_COUNTED), *finished(1, vertex_id=COUNT)]
    reset = ExecutionVertexReset(COUNT, (0,))
    job = recover([initialized(), *strange, reset], tracked(FIRST, 0, 1, 4))
    assert only(job).missing == (0, 1, 2, 3)


def test_a_subtask_without_rows_leaves_nothing_to_be_tracked() -> None:
    log = [initialized(), *finished(0, 1), *finished(2, 3, output=None)]
    vertex = only(recover(log, tracked(FIRST, 0, 1)))
    assert not vertex.missing
    assert partial_vertex(vertex) == PartialVertex(FIRST, (0, 1), ())


def test_a_reset_undoes_what_was_said_before_it() -> None:
    log = [initialized(FIRST), *finished(0, 1, 2, 3), ExecutionVertexReset(JOIN, (1, 2))]
    vertex = only(recover(log, tracked(FIRST, 0, 1, 2, 3), [FIRST]))
    assert vertex.finished == {0: FIRST, 3: FIRST}
    assert vertex.whole is None
    again = only(recover([*log, *finished(1, output=SECOND)], tracked(SECOND, 1)))
    assert again.finished == {1: SECOND}


def test_after_a_reset_another_output_counts() -> None:
    log = [initialized(FIRST), *finished(0), ExecutionVertexReset(JOIN, (0, 1, 2, 3))]
    log += [initialized(SECOND)]
    vertex = only(recover(log, tracked(FIRST, 0, 1) + tracked(SECOND, 1)))
    assert vertex.finished == {1: SECOND}


def test_what_finished_again_after_its_reset_counts() -> None:
    log = [initialized(FIRST), *finished(0), ExecutionVertexReset(JOIN, (0,)), *finished(0)]
    assert only(recover(log, tracked(FIRST, 0))).finished == {0: FIRST}


@pytest.mark.parametrize(
    "another", [initialized(SECOND, split="other files"), initialized(SECOND, parallelism=3)]
)
def test_partitions_of_another_split_are_not_mixed(another: JobEvent) -> None:
    log = [initialized(FIRST), *finished(0, 1), another]
    vertex = only(recover(log, tracked(FIRST, 0, 1, 2) + tracked(SECOND, 2)))
    assert vertex.finished == {2: SECOND}


def test_partitions_of_the_same_split_are_mixed_over_starts() -> None:
    log = [initialized(FIRST), *finished(0), initialized(SECOND, vertex_id=JOIN_AGAIN)]
    vertex = only(recover(log, tracked(FIRST, 0, 1) + tracked(SECOND, 3)))
    assert vertex.vertex_id == JOIN_AGAIN
    assert vertex.missing == (2,)
    assert partial_vertex(vertex) == PartialVertex(FIRST, (0, 1), (2, 3))


def test_where_the_split_is_not_fixed_it_is_all_or_nothing() -> None:
    log = [initialized(FIRST, split=""), *finished(0, 1, 2, 3)]
    assert only(recover(log, tracked(FIRST, 0, 1, 2))).missing == (0, 1, 2, 3)
    assert not only(recover(log, tracked(FIRST, 0, 1, 2, 3))).missing
    # Without a word of them all, and unpublished: what there is may be a part.
    assert not only(recover(log[:1], tracked(FIRST, 0, 1, 2, 3))).finished


def test_a_vertex_that_starts_again_unsplit_has_nothing() -> None:
    log = [initialized(FIRST, split=""), *finished(0, 1, 2, 3), initialized(split="")]
    assert not only(recover(log, tracked(FIRST, 0, 1, 2, 3))).finished


def test_a_whole_output_is_the_dataset_whoever_has_split_it() -> None:
    log = [initialized(FIRST), *finished(0), initialized(split="other files", parallelism=9)]
    vertex = only(recover(log, tracked(FIRST, 0, 1, 2, 3), [FIRST]))
    assert vertex.whole == FIRST
    assert not vertex.missing
    assert vertex.parallelism == 9


def test_of_whole_outputs_the_one_that_the_log_speaks_of_comes_first() -> None:
    log = [initialized(), *finished(0, output=SECOND)]
    assert only(recover(log, [], [SECOND, FIRST])).whole == SECOND
    assert only(recover(log[:1], [], [SECOND, FIRST])).whole == FIRST


def test_a_job_that_ended_leaves_nothing() -> None:
    log = [initialized(FIRST), *finished(0, 1, 2, 3), JobFinished(JobStatus.FAILED)]
    job = recover(log, tracked(FIRST, 0, 1, 2, 3), [FIRST])
    assert (job.ended, job.vertices) == (JobStatus.FAILED, {})
    job = recover([*log, initialized(SECOND)], tracked(FIRST, 0) + tracked(SECOND, 1))
    assert job.ended is None
    assert only(job).finished == {1: SECOND}


def test_what_finished_after_the_last_snapshot_counts_as_well() -> None:
    log = [initialized(FIRST, snapshot=b"s"), *finished(0, snapshot=b"s0"), *finished(1, 2)]
    assert only(recover(log[:1], tracked(FIRST, 3))).snapshot == b"s"
    vertex = only(recover(log, tracked(FIRST, 0, 1, 3)))
    assert vertex.finished == dict.fromkeys((0, 1, 3), FIRST)
    assert vertex.snapshot == b"s0"


def test_a_snapshot_is_of_the_split_that_it_was_taken_of() -> None:
    log = [initialized(FIRST), *finished(0, snapshot=b"s0"), initialized(SECOND, split="others")]
    vertex = only(recover(log, tracked(SECOND, 2)))
    assert vertex.snapshot is None
    again = only(recover([*log[:2], initialized(SECOND)], []))
    assert again.snapshot == b"s0"
    assert vertex.finished == {2: SECOND}


def test_the_log_is_made_to_say_what_was_found() -> None:
    log = [initialized(FIRST), *finished(0)]
    there = tracked(FIRST, 0, 2)
    sizes = {each.partition_id: each.metrics for each in there}
    said = list(corrections(recover(log, there), sizes))
    assert said == finished(2)
    assert only(recover([*log, *said], there)).unrecorded == ()
