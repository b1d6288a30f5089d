"""One start of a job after another, each of whose drivers dies: real logs, real directories."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import ExecutionVertexFinished, JobStatus
from holdfast.eventstore.replay import replay
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.partial_vertex import PartialVertex
from holdfast.runtime.recovery.partition_progress import PartitionProgress
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import Found, Tracked, kept, tracked

JOINED, COUNTED = (IntermediateDataSetID(digit * 64) for digit in "ab")
FIRST, SECOND = (OutputID(JOINED, digits * 4) for digits in ("01", "02"))
JOIN, JOIN_AGAIN = (JobVertexID(digits) for digits in ("0a", "1a"))
IDENTITY = JobIdentity(digest="00ff" * 16, action="collect")
SPLIT = "four files"
ALL = (0, 1, 2, 3)


@dataclass
class Left:
    """What earlier starts have left at the task executors."""

    committed: dict[OutputID, set[int]] = field(default_factory=dict)
    published: dict[OutputID, KeptDataSet] = field(default_factory=dict)
    broken: Exception | None = None

    def get_all_partition_with_metrics(self) -> list[Tracked]:
        return [
            each for output, found in self.committed.items() for each in tracked(output, *found)
        ]

    def recovered_outputs(self) -> Mapping[OutputID, Found]:
        if self.broken is not None:
            raise self.broken
        return {
            output: Found(self.published.get(output), frozenset(indices))
            for output, indices in self.committed.items()
        }

    def publish(self, output: OutputID, *indices: int) -> KeptDataSet:
        self.committed[output] = set(indices)
        self.published[output] = kept(output, *indices)
        return self.published[output]


class Program:
    """A program that is started again and again, and dies each time but the last."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.left = Left()
        self.programs: list[HighAvailabilityStorage] = []
        self.recoveries: list[JobRecovery] = []

    def begin(self) -> JobStart:
        self.programs.append(HighAvailabilityStorage(self.root))
        return self.programs[-1].begin(IDENTITY)

    def start(
        self, begun: JobStart | None = None, beside: bool = False, **settings: timedelta
    ) -> JobRecovery:
        if not beside:
            self.die()
        recovery = JobRecovery(begun or self.begin(), self.left, **settings)  # type: ignore[arg-type]
        self.recoveries.append(recovery)
        recovery.recover()
        return recovery

    def die(self) -> None:
        """All events get to the disk."""
        for recovery in self.recoveries:
            recovery.close()

    def on_disk(self) -> list[object]:
        (directory,) = self.root.glob("*/events")
        return list(replay(directory).events)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path / "ha")
    yield running
    running.die()
    for each in running.programs:
        each.close()


def whole_job(program: Program) -> KeptDataSet:
    """A first start that is killed once its vertex has finished."""
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    published = program.left.publish(FIRST, *ALL)
    first.finished(JOIN, JOINED, published)
    return published


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_new_job_has_nothing_to_recover(program: Program) -> None:
    with pytest.raises(RuntimeError, match="recover"):
        JobRecovery(program.begin(), program.left).initialized(JOIN, JOINED, 4)  # type: ignore[arg-type]
    recovery = program.start()
    assert recovery.anew and recovery.progress == {}
    assert recovery.whole(JOINED) is recovery.partial(JOINED, SPLIT, 4) is None


def test_what_a_killed_start_had_finished_is_whole(program: Program) -> None:
    published = whole_job(program)
    second = program.start()
    assert not second.anew
    assert second.whole(JOINED) == published
    assert second.partial(JOINED, SPLIT, 4) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 4)}


def test_what_was_published_before_its_event_is_whole(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT)
    published = program.left.publish(FIRST, 0, 1, 3)
    second = program.start()
    assert second.whole(JOINED) == published
    # Its event is there by now, so that it can be reset.
    second.lost([JOINED])
    assert program.start().whole(JOINED) is None


@pytest.mark.parametrize(
    ("split", "output", "there", "missing"),
    [
        pytest.param(SPLIT, FIRST, (0, 3), (1, 2), id="half done"),
        pytest.param(SPLIT, FIRST, (0, 3, 4), None, id="with a partition beyond"),
        pytest.param(SPLIT, None, (0, 3), None, id="not to be salvaged"),
        pytest.param("", FIRST, (0, 3), None, id="not split"),
    ],
)
def test_of_what_was_half_done_what_is_missing_runs(
    program: Program,
    split: str,
    output: OutputID | None,
    there: tuple[int, ...],
    missing: tuple[int, ...] | None,
) -> None:
    # It is on disk before it runs.
    first = program.start(flush_interval=timedelta(hours=1))
    first.initialized(JOIN, JOINED, 4, split, output)
    assert len(program.on_disk()) == 1
    program.left.committed[FIRST] = set(there)
    second = program.start()
    assert second.whole(JOINED) is None
    expected = None if missing is None else PartialVertex(FIRST, there, missing)
    assert second.partial(JOINED, SPLIT, 4) == expected
    for other in ((JOINED, "other files", 4), (JOINED, SPLIT, 5), (JOINED, "", 4)):
        assert second.partial(*other) is None
    assert second.partial(COUNTED, SPLIT, 4) is None


def test_a_completed_vertex_is_whole(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3}
    second = program.start()
    assert second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT)
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 2, 2)}
    published = program.left.publish(FIRST, *ALL)
    second.finished(JOIN_AGAIN, JOINED, published, (1, 2))
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 2)}
    assert program.start().whole(JOINED) == published
    said = [each for each in program.on_disk() if isinstance(each, ExecutionVertexFinished)]
    assert [(each.subtask, each.attempt) for each in said] == [(0, 0), (3, 0), (1, 1), (2, 1)]


def test_salvaged_parts_that_lie_in_another_output_now_count_there(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3}
    second = program.start()
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT)
    program.left.committed.pop(FIRST)
    second.finished(JOIN_AGAIN, JOINED, program.left.publish(SECOND, *ALL), (1, 2))
    program.left.published.clear()
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, ALL, ())


def test_a_vertex_has_the_parallelism_that_it_turns_out_to_have(program: Program) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 1)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 2, 5))
    program.die()
    recovery = JobRecovery(program.begin(), program.left)  # type: ignore[arg-type]
    recovered = recovery.recover().vertices[JOINED]
    recovery.close()
    assert (recovered.parallelism, recovered.whole, recovered.unrecorded) == (6, FIRST, ())


def test_a_vertex_is_recorded_though_it_was_not_initialized(program: Program) -> None:
    first = program.start()
    published = program.left.publish(FIRST, 0, 1)
    with pytest.raises(ValueError, match="no name"):
        first.finished(JOIN, JOINED, published.model_copy(update={"name": None}))
    first.finished(JOIN, JOINED, published)
    assert program.start().whole(JOINED) == published


def test_what_is_lost_runs_again(program: Program) -> None:
    whole_job(program)
    first = program.recoveries[-1]
    first.lost([JOINED, COUNTED])
    assert first.whole(JOINED) is None
    assert first.progress == {JOINED: PartitionProgress(JOINED, 4, 0, 0)}
    second = program.start()
    assert second.whole(JOINED) is second.partial(JOINED, SPLIT, 4) is None
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    published = program.left.publish(SECOND, *ALL)
    second.finished(JOIN_AGAIN, JOINED, published)
    assert program.start().whole(JOINED) == published


@pytest.mark.parametrize("removable", [True, False])
def test_a_job_that_ended_leaves_nothing(
    program: Program, removable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    whole_job(program)
    (directory,) = program.root.glob("*/events")
    directory.chmod(0o700 if removable else 0o500)
    try:
        program.recoveries[-1].end(JobStatus.FINISHED)
    finally:
        directory.chmod(0o700)
    assert not removable or program.on_disk() == []
    second = program.start()
    assert second.anew and second.whole(JOINED) is None
    assert not warnings(caplog)


def test_an_older_start_is_refused(program: Program) -> None:
    overtaken = program.begin()
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    with pytest.raises(StaleEpochError):
        program.start(overtaken, beside=True)
    second = program.start(beside=True)
    for refused in (
        lambda: first.initialized(JOIN, JOINED, 4, SPLIT, FIRST),
        lambda: first.finished(JOIN, JOINED, kept(FIRST, 0)),
        lambda: first.lost([JOINED]),
        lambda: first.end(JobStatus.FINISHED),
    ):
        with pytest.raises(StaleEpochError):
            refused()
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    program.die()
    assert len(program.on_disk()) == 2


# -- what fails ------------------------------------------------------------------------------------


def test_a_recovery_that_fails_begins_from_scratch_and_says_so(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    whole_job(program)
    program.left.broken = StorageError("/kept", "it can't be read")
    begun = program.begin()
    epoch = begun.epoch
    second = program.start(begun)
    assert second.anew and begun.epoch > epoch
    assert (second.whole(JOINED), second.progress) == (None, {})
    (warning,) = warnings(caplog)
    assert "rerunning from scratch: StorageError: /kept: it can't be read" in warning
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    # What the first start left is no part of the job any more, unless it is whole.
    program.left.broken = None
    program.left.published.clear()
    program.left.committed[SECOND] = {2}
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, (2,), (0, 1, 3))


def test_a_job_goes_on_without_a_log_with_one_warning(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    begun = program.begin()
    recovery = program.start(begun, flush_interval=timedelta(milliseconds=1))
    assert recovery.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    shutil.rmtree(begun.events_directory)
    begun.events_directory.write_text("no directory")
    assert not recovery.initialized(JOIN, COUNTED, 4, SPLIT)
    published = program.left.publish(FIRST, *ALL)
    recovery.finished(JOIN, JOINED, published)
    recovery.lost([COUNTED])
    assert recovery.whole(JOINED) == published
    # The warning is there before the job has ended.
    recovery.end(JobStatus.FINISHED)
    (warning,) = warnings(caplog)
    assert "The job continues" in warning


def test_a_job_goes_on_where_epochs_can_not_be_read_with_one_warning(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    begun = program.begin()
    recovery = program.start(begun)
    epochs = begun.directory / "epochs"
    elsewhere = epochs.rename(begun.directory / "elsewhere")
    epochs.write_text("no directory")
    for dataset_id in (JOINED, COUNTED):
        assert recovery.initialized(JOIN, dataset_id, 4, SPLIT)
    (warning,) = warnings(caplog)
    assert "continues without checking" in warning
    epochs.unlink()
    elsewhere.rename(epochs)


# -- sources ---------------------------------------------------------------------------------------

SPLITS = [[FileSplit("file:/a", 0, 10, 1)], [FileSplit("file:/a", 10, 10, 1)]]
SETTINGS = {"cores": "2"}


def split_up() -> FileSplitCoordinator:
    source = FileSplitCoordinator()
    source.deal(SETTINGS, SPLITS)
    return source


def test_a_source_goes_on_from_its_snapshot(program: Program) -> None:
    first = program.start()
    source = FileSplitCoordinator()
    assert not first.coordinate(JOINED, source)
    source.deal(SETTINGS, SPLITS)
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    # Its driver is killed before anything has finished for it.
    program.left.committed[FIRST] = {1}
    second = program.start()
    again = FileSplitCoordinator()
    assert second.coordinate(JOINED, again)
    assert (again.settings, again.unfinished) == (SETTINGS, (0,))
    again.subtask_reset(1)
    assert again.snapshot() == source.snapshot()
    assert second.partial(JOINED, SPLIT, 2) == PartialVertex(FIRST, (1,), (0,))


@pytest.mark.parametrize(("minutes", "taken"), [(3, []), (0, [0, 1])])
def test_snapshots_keep_their_pause(program: Program, minutes: int, taken: list[int]) -> None:
    first = program.start(min_pause=timedelta(minutes=minutes))
    first.coordinate(JOINED, split_up())
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1))
    program.die()
    initialized, *finished = program.on_disk()
    assert initialized.coordinator_snapshot is not None  # type: ignore[attr-defined]
    assert taken == [
        each.subtask  # type: ignore[attr-defined]
        for each in finished
        if each.coordinator_snapshot is not None  # type: ignore[attr-defined]
    ]


def test_a_source_without_snapshots_runs_whole_or_not_at_all(program: Program) -> None:
    first = program.start()
    # Nothing that it could be restored from.
    assert not first.coordinate(JOINED, FileSplitCoordinator())
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    program.left.committed[FIRST] = {1}
    assert program.start().partial(JOINED, SPLIT, 2) is None
    published = program.left.publish(FIRST, 0, 1)
    assert program.start().whole(JOINED) == published


def test_a_source_that_cannot_be_restored_begins_from_scratch(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    class Other(FileSplitCoordinator):
        def snapshot(self) -> bytes:
            return b"of another form"

    first = program.start()
    first.coordinate(JOINED, Other())
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    program.left.committed[FIRST] = {1}
    second = program.start()
    assert second.partial(JOINED, SPLIT, 2) is not None
    assert not second.coordinate(JOINED, FileSplitCoordinator())
    assert second.partial(JOINED, SPLIT, 2) is None
    assert "can't restore the source" in caplog.text


def test_a_lost_dataset_s_source_reads_its_splits_again(program: Program) -> None:
    first = program.start()
    source = split_up()
    first.coordinate(JOINED, source)
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1))
    assert source.unfinished == ()
    first.lost([JOINED])
    assert source.unfinished == (0, 1)
