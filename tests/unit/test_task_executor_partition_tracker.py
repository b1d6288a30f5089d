from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    UnknownPartitionError,
)
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.taskexecutor.partitions.cluster_partition_report import ClusterPartitionReportEntry
from holdfast.taskexecutor.partitions.packed_metrics import PACKED_BITS, PACKED_MASK, pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    METRIC_LIMIT,
    PARTITIONS_LIMIT,
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.result_partition_table import ResultPartitionTable
from holdfast.taskexecutor.partitions.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)

JOB, OTHER_JOB = JobID("1" * 32), JobID("2" * 32)
DATASET, OTHER_DATASET = IntermediateDataSetID("a" * 64), IntermediateDataSetID("b" * 64)
OUTPUT = OutputID(DATASET, "00000001")
ANOTHER_ATTEMPT = OutputID(DATASET, "00000002")
OTHER_OUTPUT = OutputID(OTHER_DATASET, "00000001")


def info(output: OutputID = OUTPUT, index: int = 0, number: int = 4) -> TaskExecutorPartitionInfo:
    metrics = PartitionMetrics(bytes=100 + index, rows=index)
    return TaskExecutorPartitionInfo(ResultPartitionID(output, index), metrics, number)


def ids(output: OutputID, *indices: int) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


class Book:
    """A tracker over real partitions, with some of them finished already."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.tracker = TaskExecutorPartitionTracker(environment)

    def finished(self, job_id: JobID, output: OutputID, *indices: int) -> None:
        named = ids(output, *indices)
        for writer in self.environment.create_result_partition_writers(job_id, named):
            writer.setup()
            metrics = writer.finish()
            self.tracker.start_tracking_partition(
                job_id, TaskExecutorPartitionInfo(writer.partition_id, metrics, 4)
            )

    def state(self) -> object:
        jobs = {job_id: self.tracker.job_partitions(job_id) for job_id in (JOB, OTHER_JOB)}
        return self.environment.held(), jobs, self.tracker.cluster_partitions()

    def held(self) -> set[ResultPartitionID]:
        return set(self.environment.held())


@pytest.fixture
def book(memory_shuffle_environment: Any) -> Book:
    return Book(memory_shuffle_environment())


def test_a_tracked_partition_is_its_job_s(book: Book) -> None:
    assert not book.tracker.is_tracking_partitions_for(JOB)
    book.finished(JOB, OUTPUT, 2, 0)
    assert book.tracker.is_tracking_partitions_for(JOB)
    assert not book.tracker.is_tracking_partitions_for(OTHER_JOB)
    assert book.tracker.job_partitions(JOB) == (info(index=2), info(index=0))
    assert book.tracker.job_partitions(OTHER_JOB) == ()


def test_an_external_release_removes_the_partitions_and_forgets_them(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0, 1, 2)
    book.tracker.stop_tracking_and_release_job_partitions(ids(OUTPUT, 0, 2))
    assert book.held() == set(ids(OUTPUT, 1))
    assert book.tracker.job_partitions(JOB) == (info(index=1),)
    book.tracker.stop_tracking_and_release_job_partitions(ids(OUTPUT, 1))
    assert not book.tracker.is_tracking_partitions_for(JOB)


def test_a_release_is_idempotent_and_passes_over_what_is_unknown(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0)
    book.finished(JOB, OTHER_OUTPUT, 0)
    book.tracker.promote_job_partitions(ids(OTHER_OUTPUT, 0))
    before = book.state()
    book.tracker.stop_tracking_and_release_job_partitions(
        [*ids(OUTPUT, 3), *ids(ANOTHER_ATTEMPT, 0), *ids(OTHER_OUTPUT, 0)]
    )
    book.tracker.stop_tracking_and_release_job_partitions_for(OTHER_JOB)
    book.tracker.stop_tracking_and_release_cluster_partitions([DATASET])
    book.tracker.stop_tracking_and_release_cluster_outputs([OUTPUT, ANOTHER_ATTEMPT])
    assert book.state() == before
    for _ in range(2):
        book.tracker.stop_tracking_and_release_job_partitions([*ids(OUTPUT, 0), *ids(OUTPUT, 0)])
        assert book.held() == set(ids(OTHER_OUTPUT, 0))


def test_all_partitions_of_a_job_are_released_and_no_other_s(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0, 1)
    book.finished(JOB, OTHER_OUTPUT, 1)
    book.finished(OTHER_JOB, ANOTHER_ATTEMPT, 0)
    book.tracker.stop_tracking_and_release_job_partitions_for(JOB)
    assert book.held() == set(ids(ANOTHER_ATTEMPT, 0))
    assert not book.tracker.is_tracking_partitions_for(JOB)
    assert book.tracker.is_tracking_partitions_for(OTHER_JOB)


def test_a_promoted_partition_outlives_its_job(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0, 1)
    book.tracker.promote_job_partitions(ids(OUTPUT, 1))
    assert book.tracker.job_partitions(JOB) == (info(index=0),)
    assert book.tracker.cluster_partitions() == {OUTPUT: (info(index=1),)}
    book.tracker.stop_tracking_and_release_job_partitions_for(JOB)
    assert book.held() == set(ids(OUTPUT, 1))
    book.tracker.stop_tracking_and_release_cluster_partitions([DATASET])
    assert book.held() == set()


def test_promotion_is_of_all_partitions_or_of_none(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0, 1)
    book.tracker.promote_job_partitions(ids(OUTPUT, 1))
    before = book.state()
    for unknown in (ids(OUTPUT, 2), ids(OUTPUT, 1), ids(ANOTHER_ATTEMPT, 0)):
        with pytest.raises(UnknownPartitionError) as caught:
            book.tracker.promote_job_partitions([*ids(OUTPUT, 0), *unknown])
        assert caught.value.partition == str(unknown[0])
        assert book.state() == before


def test_a_partition_named_twice_is_promoted_once(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0)
    book.tracker.promote_job_partitions([*ids(OUTPUT, 0), *ids(OUTPUT, 0)])
    assert book.tracker.cluster_partitions() == {OUTPUT: (info(),)}
    assert not book.tracker.is_tracking_partitions_for(JOB)


def test_a_dataset_s_release_reaches_all_of_its_outputs(book: Book) -> None:
    for output in (OUTPUT, ANOTHER_ATTEMPT, OTHER_OUTPUT):
        book.finished(JOB, output, 0, 1)
        book.tracker.promote_job_partitions(ids(output, 0, 1))
    book.tracker.stop_tracking_and_release_cluster_partitions([DATASET])
    assert book.held() == set(ids(OTHER_OUTPUT, 0, 1))
    assert set(book.tracker.cluster_partitions()) == {OTHER_OUTPUT}


def test_an_output_s_release_leaves_the_dataset_s_other_outputs(book: Book) -> None:
    for output in (OUTPUT, ANOTHER_ATTEMPT):
        book.finished(JOB, output, 0)
        book.tracker.promote_job_partitions(ids(output, 0))
    book.tracker.stop_tracking_and_release_cluster_outputs([OUTPUT])
    assert book.held() == set(ids(ANOTHER_ATTEMPT, 0))


def test_all_cluster_partitions_are_released_and_no_job_s(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0, 1)
    book.finished(OTHER_JOB, OTHER_OUTPUT, 0)
    book.tracker.promote_job_partitions([*ids(OUTPUT, 0), *ids(OTHER_OUTPUT, 0)])
    book.tracker.stop_tracking_and_release_all_cluster_partitions()
    assert book.held() == set(ids(OUTPUT, 1))
    assert book.tracker.cluster_partitions() == {}


def test_the_report_tells_each_output_s_partitions_and_how_many_there_are_in_all(
    book: Book,
) -> None:
    assert book.tracker.create_cluster_partition_report().entries == ()
    for output in (OTHER_OUTPUT, ANOTHER_ATTEMPT, OUTPUT):
        book.finished(JOB, output, 3, 1, 0)
        book.tracker.promote_job_partitions(ids(output, 3, 1))
    assert book.tracker.create_cluster_partition_report().entries == tuple(
        ClusterPartitionReportEntry(
            output.dataset_id, (info(output, 1), info(output, 3)), number_of_total_partitions=4
        )
        for output in (OUTPUT, ANOTHER_ATTEMPT, OTHER_OUTPUT)
    )


def test_what_an_earlier_run_left_behind_is_the_cluster_s(book: Book) -> None:
    for writer in book.environment.create_result_partition_writers(JOB, ids(OUTPUT, 1)):
        writer.setup()
        writer.finish()
    book.tracker.start_tracking_cluster_partition(info(index=1))
    assert book.tracker.cluster_partitions() == {OUTPUT: (info(index=1),)}
    assert not book.tracker.is_tracking_partitions_for(JOB)
    book.tracker.stop_tracking_and_release_all_cluster_partitions()
    assert book.held() == set()


def track(job_id: JobID, partition: TaskExecutorPartitionInfo) -> Callable[[Book], None]:
    return lambda book: book.tracker.start_tracking_partition(job_id, partition)


def check(job_id: JobID, partition: TaskExecutorPartitionInfo) -> Callable[[Book], None]:
    return lambda book: book.tracker.check_addition(job_id, partition)


def adopt(partition: TaskExecutorPartitionInfo) -> Callable[[Book], None]:
    return lambda book: book.tracker.start_tracking_cluster_partition(partition)


REFUSED = {
    "a job's partition again": (track(JOB, info(index=0)), DuplicateRegistrationError),
    "a cluster partition again": (track(JOB, info(index=1)), DuplicateRegistrationError),
    "a partition of another job's output": (
        track(OTHER_JOB, info(index=2)),
        DuplicateRegistrationError,
    ),
    "an output of another size": (track(JOB, info(index=2, number=5)), MalformedRequestError),
    "a promoted output of another size": (
        track(JOB, info(OTHER_OUTPUT, 2, number=5)),
        MalformedRequestError,
    ),
    "a job's partition, adopted": (adopt(info(index=0)), DuplicateRegistrationError),
    "a cluster partition, adopted again": (adopt(info(index=1)), DuplicateRegistrationError),
    "an output of another size, adopted": (
        adopt(info(index=2, number=5)),
        MalformedRequestError,
    ),
    "a check of a job's partition": (check(JOB, info(index=0)), DuplicateRegistrationError),
    "a check of a cluster partition": (check(JOB, info(index=1)), DuplicateRegistrationError),
    "a check of another job's output": (
        check(OTHER_JOB, info(index=2)),
        DuplicateRegistrationError,
    ),
    "a check of another size": (check(JOB, info(index=2, number=5)), MalformedRequestError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_the_book_is_refused_and_changes_nothing(book: Book, name: str) -> None:
    book.finished(JOB, OUTPUT, 0, 1)
    book.finished(JOB, OTHER_OUTPUT, 0)
    book.tracker.promote_job_partitions([*ids(OUTPUT, 1), *ids(OTHER_OUTPUT, 0)])
    before = book.state()
    step, error = REFUSED[name]
    with pytest.raises(error):
        step(book)
    assert book.state() == before


def test_a_check_of_what_could_be_tracked_tracks_nothing(book: Book) -> None:
    book.finished(JOB, OUTPUT, 0)
    before = book.state()
    check(JOB, info(index=1))(book)
    check(OTHER_JOB, info(OTHER_OUTPUT))(book)
    assert book.state() == before


def test_a_table_gives_an_owner_s_partitions_only_when_the_owner_is_named() -> None:
    table = ResultPartitionTable[JobID]()
    table.start_tracking(JOB, info())
    table.start_tracking(OTHER_JOB, info(OTHER_OUTPUT))
    named = [*ids(OUTPUT, 0), *ids(OTHER_OUTPUT, 0)]
    assert table.stop_tracking_partitions(named, JOB) == ids(OUTPUT, 0)
    assert table.stop_tracking_partitions(named) == ids(OTHER_OUTPUT, 0)
    assert not table.has_tracked_partitions(OTHER_JOB)


@given(st.integers(0, METRIC_LIMIT - 1), st.integers(0, METRIC_LIMIT - 1), st.integers(0, 1 << 40))
def test_packed_metrics_are_unpacked_as_they_were(size: int, rows: int, above: int) -> None:
    metrics = PartitionMetrics(size, rows)
    assert unpack(above << PACKED_BITS | pack(metrics)) == metrics
    assert pack(metrics) == pack(metrics) & PACKED_MASK


@given(
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.text("0123456789abcdef", min_size=8, max_size=8),
)
def test_an_output_s_name_says_all_of_it(digest: str, attempt: str) -> None:
    output = OutputID(IntermediateDataSetID(digest), attempt)
    assert str(output) == output.name == f"{digest}-{attempt}"
    assert OutputID.parse(output.name) == output
    assert str(ResultPartitionID(output, 7)) == f"{output.name}/7"
    assert ResultPartitionID(output, 7).dataset_id == output.dataset_id


NAME = "a" * 64 + "-00000001"


@pytest.mark.parametrize(
    "name",
    ["", NAME[1:], NAME + "0", NAME.upper(), NAME + "\n", "../" + NAME, NAME.replace("-", "")],
)
def test_what_is_no_output_s_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of an output"):
        OutputID.parse(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OutputID(IntermediateDataSetID("a" * 63), "00000001"),
        lambda: OutputID(DATASET, "0000000"),
        lambda: OutputID(DATASET, "../../.."),
        lambda: ResultPartitionID(OUTPUT, -1),
        lambda: ResultPartitionID(OUTPUT, PARTITIONS_LIMIT),
        lambda: PartitionMetrics(-1, 0),
        lambda: PartitionMetrics(0, METRIC_LIMIT),
        lambda: info(index=4, number=4),
        lambda: info(index=0, number=PARTITIONS_LIMIT + 1),
    ],
)
def test_ids_and_metrics_that_can_t_be_are_not_made(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="got|can't be one of"):
        make()
