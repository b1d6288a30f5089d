"""Where the partitions of jobs and of the cluster are, and which task executors release them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from holdfast.errors import (
    DuplicateRegistrationError,
    HoldfastError,
    MalformedRequestError,
    UnknownDataSetError,
    UnknownPartitionError,
    UnknownTaskExecutorError,
)
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.job_master_partition_tracker import JobMasterPartitionTracker
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

LEFT, RIGHT = EXECUTORS = ("left", "right")
JOB, OTHER_JOB = JOBS = (JobID("1" * 32), JobID("2" * 32))
DATASET = IntermediateDataSetID("a" * 64)
ONE, TWO, THREE = OUTPUTS = [OutputID(DATASET, digit * 8) for digit in "123"]
NUMBER = 3


def metrics(index: int) -> PartitionMetrics:
    return PartitionMetrics(bytes=100 + index, rows=index)


def ids(output: OutputID, *indices: int) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


class Tracker(JobMasterPartitionTracker):
    """One over two executors."""

    def __init__(self) -> None:
        super().__init__()
        for each in EXECUTORS:
            self.executor_registered(each)

    def finish(
        self,
        output: OutputID,
        *where: str,
        job_id: JobID = JOB,
        number: int = NUMBER,
        first: int = 0,
    ) -> None:
        """Partitions are finished on executors, in their order."""
        for index, executor_id in enumerate(where, first):
            partition_id = ResultPartitionID(output, index)
            info = TaskExecutorPartitionInfo(partition_id, metrics(index), number)
            self.start_tracking_partition(job_id, executor_id, info)

    def of_job(self, job_id: JobID = JOB) -> set[ResultPartitionID]:
        """Those that are a job's, which have the size that they were finished with."""
        found = self.get_all_partition_with_metrics(job_id)
        for partition_id, (executor_id, size) in found.items():
            assert self.locations(partition_id.output)[partition_id.index] == executor_id
            assert size == metrics(partition_id.index)
        return {*found}

    def state(self) -> Any:
        """All that can be asked of it."""
        outputs: dict[OutputID, object] = {}
        for output in OUTPUTS:
            with suppress(UnknownDataSetError):
                outputs[output] = self.locations(output), self.is_complete(output)
        return outputs, [*map(self.datasets_on, EXECUTORS)], [*map(self.of_job, JOBS)]


@pytest.fixture
def tracker() -> Tracker:
    return Tracker()


NOTHING = Tracker().state()


def test_an_output_is_complete_with_its_last_partition(tracker: Tracker) -> None:
    tracker.finish(ONE, LEFT, RIGHT)
    tracker.finish(TWO, RIGHT, job_id=OTHER_JOB, number=1)
    assert (tracker.is_complete(ONE), tracker.is_complete(TWO)) == (False, True)
    tracker.finish(ONE, LEFT, first=2)
    assert tracker.is_complete(ONE)
    assert tracker.locations(ONE) == {0: LEFT, 1: RIGHT, 2: LEFT}
    assert tracker.of_job() == {*ids(ONE, 0, 1, 2)}
    assert [tracker.datasets_on(each) for each in EXECUTORS] == [{ONE}, {ONE, TWO}]


def test_what_was_promoted_outlives_its_job_until_it_is_released(tracker: Tracker) -> None:
    tracker.finish(ONE, LEFT, RIGHT, LEFT)
    tracker.finish(TWO, LEFT, RIGHT)
    tracker.finish(THREE, LEFT, job_id=OTHER_JOB)
    tracker.promote_job_partitions(JOB, [*ids(ONE, 0, 1), *ids(ONE, 1)])
    assert tracker.of_job() == {*ids(ONE, 2), *ids(TWO, 0, 1)}
    assert tracker.is_complete(ONE)
    released = tracker.stop_tracking_partitions_for(JOB)
    assert released == {LEFT: [*ids(ONE, 2), *ids(TWO, 0)], RIGHT: ids(TWO, 1)}
    assert tracker.stop_tracking_partitions_for(JOB) == {}
    assert tracker.locations(ONE) == {0: LEFT, 1: RIGHT} and not tracker.is_complete(ONE)
    assert [tracker.datasets_on(each) for each in EXECUTORS] == [{ONE, THREE}, {ONE}]
    # What is a job's, or unknown, is no cluster partition.
    released_outputs = tracker.stop_tracking_and_release_cluster_outputs([ONE, TWO, THREE])
    assert released_outputs == {LEFT: [ONE], RIGHT: [ONE]}
    assert tracker.of_job(OTHER_JOB) == {*ids(THREE, 0)}
    tracker.stop_tracking_partitions_for(OTHER_JOB)
    assert tracker.state() == NOTHING


def test_what_was_not_promoted_stays_with_the_job(tracker: Tracker) -> None:
    tracker.finish(ONE, LEFT, RIGHT, LEFT)
    tracker.promote_job_partitions(JOB, ids(ONE, 0, 2))
    assert tracker.stop_tracking_and_release_cluster_outputs([ONE]) == {LEFT: [ONE]}
    assert tracker.locations(ONE) == {1: RIGHT}
    tracker.finish(ONE, RIGHT)
    assert tracker.stop_tracking_partitions_for(JOB) == {RIGHT: ids(ONE, 1, 0)}
    assert tracker.state() == NOTHING


def test_a_job_s_partitions_are_released_one_by_one(tracker: Tracker) -> None:
    tracker.finish(ONE, LEFT, RIGHT, LEFT)
    tracker.finish(TWO, LEFT, RIGHT)
    tracker.promote_job_partitions(JOB, ids(ONE, 0))
    named = [*ids(ONE, 0, 1), *ids(TWO, 0, 2), *ids(THREE, 0)]
    released = tracker.stop_tracking_and_release_job_partitions(named)
    assert released == {RIGHT: ids(ONE, 1), LEFT: ids(TWO, 0)}
    assert (tracker.locations(ONE), tracker.locations(TWO)) == ({0: LEFT, 2: LEFT}, {1: RIGHT})
    assert [tracker.datasets_on(each) for each in EXECUTORS] == [{ONE}, {TWO}]
    tracker.stop_tracking_and_release_job_partitions(ids(TWO, 1))
    # It may be produced again, whoever does.
    tracker.finish(TWO, RIGHT, job_id=OTHER_JOB)


def test_what_an_executor_has_lost_leaves_the_rest(tracker: Tracker) -> None:
    tracker.finish(ONE, LEFT, RIGHT, LEFT)
    tracker.promote_job_partitions(JOB, ids(ONE, 0, 1, 2))
    tracker.finish(TWO, LEFT, RIGHT, RIGHT)
    tracker.cluster_partitions_lost(LEFT, OUTPUTS)
    assert tracker.locations(ONE) == {1: RIGHT}
    assert not tracker.is_complete(ONE)
    # It belongs to its job, which hasn't finished it.
    assert tracker.locations(TWO) == {0: LEFT, 1: RIGHT, 2: RIGHT}
    assert tracker.datasets_on(LEFT) == {TWO}
    assert tracker.stop_tracking_and_release_cluster_outputs([ONE]) == {RIGHT: [ONE]}


Refused = tuple[type[HoldfastError], Callable[[Tracker], object]]
REFUSED: dict[str, Refused] = {
    "an executor twice": (DuplicateRegistrationError, lambda it: it.executor_registered(LEFT)),
    "an unknown executor": (UnknownTaskExecutorError, lambda it: it.finish(THREE, "nowhere")),
    "its losses": (UnknownTaskExecutorError, lambda it: it.cluster_partitions_lost("no", [ONE])),
    "a partition twice": (DuplicateRegistrationError, lambda it: it.finish(TWO, RIGHT)),
    "a promoted partition twice": (DuplicateRegistrationError, lambda it: it.finish(ONE, RIGHT)),
    "an output of another job": (
        DuplicateRegistrationError,
        lambda it: it.finish(TWO, LEFT, job_id=OTHER_JOB, first=1),
    ),
    "another number of partitions": (
        MalformedRequestError,
        lambda it: it.finish(TWO, LEFT, number=NUMBER + 1, first=1),
    ),
    **{
        f"to promote {what}": (
            UnknownPartitionError,
            partial(Tracker.promote_job_partitions, job_id=job_id, ids=named),
        )
        for what, job_id, named in (
            ("what isn't there", JOB, ids(TWO, 0, 1)),
            ("an unknown output", JOB, [*ids(TWO, 0), *ids(THREE, 0)]),
            ("what was", JOB, ids(ONE, 1, 0)),
            ("another job's", OTHER_JOB, ids(TWO, 0)),
        )
    },
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_changes_nothing(tracker: Tracker, what: str) -> None:
    tracker.finish(ONE, LEFT, RIGHT)
    tracker.finish(TWO, LEFT)
    tracker.promote_job_partitions(JOB, ids(ONE, 0))
    before = tracker.state()
    error, refused = REFUSED[what]
    with pytest.raises(error):
        refused(tracker)
    assert tracker.state() == before
