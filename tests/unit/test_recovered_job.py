"""What of a job need not run again: each of the rules, as a short log and what is there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
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
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import METRICS, Tracked, tracked

JOINED, COUNTED = (IntermediateDataSetID(digit * 64) for digit in "ab")
FIRST, SECOND = (OutputID(JOINED, digits * 4) for digits in ("01", "02"))
JOIN, COUNT = (JobVertexID(digits) for digits in ("0a", "0b"))
SPLIT = "four files"
Log = Sequence[JobEvent]


def begun(
    output: OutputID | None = FIRST,
    split: str = SPLIT,
    parallelism: int = 4,
    vertex_id: JobVertexID = JOIN,
    snapshot: bytes | None = None,
) -> JobEvent:
    return ExecutionJobVertexInitialized(vertex_id, parallelism, JOINED, split, output, snapshot)


def done(
    *subtasks: int,
    output: OutputID | None = FIRST,
    snapshot: bytes | None = None,
    vertex_id: JobVertexID = JOIN,
) -> list[JobEvent]:
    metrics = None if output is None else METRICS
    return [
        ExecutionVertexFinished(vertex_id, each, 0, output, metrics, snapshot) for each in subtasks
    ]


def reset(*subtasks: int, vertex_id: JobVertexID = JOIN) -> JobEvent:
    return ExecutionVertexReset(vertex_id, subtasks)


def recover(log: Log, there: Collection[Tracked], whole: Collection[OutputID] = ()) -> RecoveredJob:
    return decide(JobHistory(log), there, whole)


def only(job: RecoveredJob) -> RecoveredVertex:
    assert list(job.vertices) == [JOINED]
    return job.vertices[JOINED]


ALL = tracked(FIRST, 0, 1, 2, 3)
OF_ANOTHER = OutputID(COUNTED, "03" * 4)
# The log, what is there, and by subtask the output that holds its partition: others run again.
RULES: dict[str, tuple[Log, list[Tracked], dict[int, OutputID | None]]] = {
    "finished and there, or lost": (
        [begun(None), *done(0, 1, 2)],
        tracked(FIRST, 0, 1) + tracked(SECOND, 2),
        {0: FIRST, 1: FIRST},
    ),
    "events of no vertex": (
        [
            *[begun(None), *done(4), *done(0, output=OF_ANOTHER)],
            *[*done(1, vertex_id=COUNT), reset(0, vertex_id=COUNT)],
        ],
        tracked(FIRST, 0, 1, 4) + tracked(OF_ANOTHER, 0),
        {},
    ),
    "finished without rows": (
        [begun(None), *done(0, 1), *done(2, 3, output=None)],
        tracked(FIRST, 0, 1),
        {0: FIRST, 1: FIRST, 2: None, 3: None},
    ),
    "finished again after its reset": (
        [begun(), *done(0), reset(0), *done(0)],
        tracked(FIRST, 0),
        {0: FIRST},
    ),
    "not split, and not all there": ([begun(split=""), *done(0, 1, 2)], ALL, {}),
    "after the job's end": (
        [begun(), *done(0), JobFinished(JobStatus.FAILED), begun(SECOND)],
        tracked(FIRST, 0) + tracked(SECOND, 1),
        {1: SECOND},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_what_need_not_run_again(rule: str) -> None:
    log, there, expected = RULES[rule]
    job = recover(log, there)
    vertex = only(job)
    assert (dict(vertex.finished), job.ended) == (expected, None)
    assert set(vertex.missing) == set(range(vertex.parallelism)) - set(expected)


SUBTASKS = st.sets(st.integers(0, 2))
STARTS = st.tuples(st.sampled_from(["s", "s", "t", ""]), st.sampled_from([2, 2, 3]))


@given(st.lists(st.tuples(STARTS, SUBTASKS, SUBTASKS, SUBTASKS), min_size=1, max_size=5))
def test_only_partitions_that_hold_the_rows_that_are_wanted_are_trusted(
    starts: list[tuple[tuple[str, int], set[int], set[int], set[int]]],
) -> None:
    """Of each start how it splits, and whose end is recorded, taken back, and there to be found."""
    log: list[JobEvent] = []
    written: dict[tuple[OutputID, int], tuple[str, int]] = {}
    there, void = set[tuple[OutputID, int]](), set[tuple[OutputID, int]]()
    for number, (how, ended, taken_back, found) in enumerate(starts):
        output, vertex_id = OutputID(JOINED, f"{number:08x}"), JobVertexID(f"{number:02x}")
        of_it = {each for each in range(how[1]) if each in ended}
        log += [begun(output, *how, vertex_id), *done(*of_it, output=output, vertex_id=vertex_id)]
        written |= {(output, subtask): how for subtask in range(how[1])}
        there |= {(output, subtask) for subtask in found if subtask < how[1]}
        if taken_back:
            log.append(reset(*taken_back, vertex_id=vertex_id))
            void |= {place for place in written if place[1] in taken_back}
    split, parallelism = how
    # Starts before one that split in another way count no more.
    while starts and starts[-1][0] == how:
        starts.pop()
    outputs = {OutputID(JOINED, f"{each:08x}") for each in range(len(starts), number + 1)}
    if split:
        expected = {subtask for output, subtask in there - void if output in outputs}
    else:
        all_of_it = {subtask for subtask in of_it - taken_back if (output, subtask) in there}
        expected = all_of_it if len(all_of_it) == parallelism else set()
    partitions = [each for place in there for each in tracked(*place)]
    finished = only(recover(log, partitions)).finished
    assert set(finished) == expected
    for subtask, trusted in finished.items():
        assert trusted is not None and written[trusted, subtask] == how


def test_a_job_that_ended_leaves_nothing() -> None:
    log = [begun(), *done(0, 1, 2, 3), JobFinished(JobStatus.FAILED)]
    job = recover(log, ALL, [FIRST])
    assert (job.ended, job.vertices) == (JobStatus.FAILED, {})


def test_the_log_is_made_to_hold_what_was_found() -> None:
    log, there = [begun(), *done(0)], tracked(FIRST, 0, 2)
    sizes = {each.partition_id: each.metrics for each in there}
    said = list(corrections(recover(log, there), sizes))
    assert said == done(2)
    assert only(recover([*log, *said], there)).unrecorded == ()


@pytest.mark.parametrize(
    ("log", "snapshot"),
    [
        pytest.param([begun(snapshot=b"s")], b"s", id="when it was initialized"),
        pytest.param([begun(snapshot=b"s"), *done(0, snapshot=b"t"), *done(1)], b"t", id="last"),
        pytest.param([begun(), *done(0, snapshot=b"s"), begun(SECOND)], b"s", id="same split"),
        pytest.param([begun(), *done(0, snapshot=b"s"), begun(split="t")], None, id="other split"),
    ],
)
def test_the_last_snapshot_of_the_same_split_counts(log: Log, snapshot: bytes | None) -> None:
    assert only(recover(log, tracked(FIRST, 3))).snapshot == snapshot
