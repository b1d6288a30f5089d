"""One start of a job after another, each of whose drivers dies: real logs, real directories."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import ExecutionVertexFinished, JobEvent, JobStatus
from holdfast.eventstore.replay import replay
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import JobRecord
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.runtime.recovery.job_history import JobHistory
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.partial_vertex import PartialVertex
from holdfast.runtime.recovery.partition_progress import PartitionProgress
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import Found, Tracked, kept, tracked

JOINED, COUNTED = (IntermediateDataSetID(digit * 64) for digit in "ab")
FIRST, SECOND = (OutputID(JOINED, digits * 4) for digits in ("01", "02"))
# What two starts call the same vertex.
JOIN, AGAIN = JobVertexID("0a"), JobVertexID("1a")
IDENTITY = JobIdentity(digest="00ff" * 16, action="collect")
SPLIT = "four files"
ALL = (0, 1, 2, 3)
SPLITS = [[FileSplit("file:/a", 10 * number, 10, 1)] for number in ALL]
SETTINGS = {"cores": "2"}


@dataclass
class Left:
    """What earlier starts have left at the task executors."""

    outputs: dict[OutputID, Found] = field(default_factory=dict)
    broken: Exception | None = None

    def get_all_partition_with_metrics(self) -> list[Tracked]:
        found = self.outputs.items()
        return [each for output, left in found for each in tracked(output, *left.present)]

    def recovered_outputs(self) -> Mapping[OutputID, Found]:
        if self.broken is not None:
            raise self.broken
        return self.outputs

    def commit(self, output: OutputID, *indices: int) -> None:
        self.outputs[output] = Found(None, frozenset(indices))

    def publish(self, output: OutputID, *indices: int) -> KeptDataSet:
        published = kept(output, *indices)
        self.outputs[output] = Found(published, frozenset(indices))
        return published


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
        """Begins after all before have died, or beside them."""
        if not beside:
            self.die()
        recovery = JobRecovery(begun or self.begin(), self.left, **settings)  # type: ignore[arg-type]
        self.recoveries.append(recovery)
        recovery.recover()
        return recovery

    def start_on(
        self, *committed: int, source: FileSplitCoordinator | None = None, split: str = SPLIT
    ) -> JobRecovery:
        """Begins a vertex, of whose output some partitions are committed then."""
        recovery = self.start(flush_interval=timedelta(hours=1))
        if source is not None:
            recovery.coordinate(JOINED, source)
        assert recovery.initialized(JOIN, JOINED, 4, split, FIRST)
        # It is on disk before it runs.
        assert JOINED in JobHistory(self.on_disk()).vertices
        self.left.commit(FIRST, *committed)
        return recovery

    def finish(self) -> tuple[JobRecovery, KeptDataSet]:
        """Runs a vertex to its end."""
        recovery, published = self.start_on(), self.left.publish(FIRST, *ALL)
        recovery.finished(JOIN, JOINED, published)
        return recovery, published

    def die(self) -> None:
        """All events get to the disk."""
        for recovery in self.recoveries:
            recovery.close()

    def on_disk(self) -> list[JobEvent]:
        (directory,) = self.root.glob("*/events")
        return list(replay(directory).events)

    def finished_on_disk(self) -> list[ExecutionVertexFinished]:
        return [each for each in self.on_disk() if isinstance(each, ExecutionVertexFinished)]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path / "ha")
    yield running
    running.die()
    for each in running.programs:
        each.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_what_a_killed_start_had_finished_is_whole_until_it_is_lost(program: Program) -> None:
    _, published = program.finish()
    second = program.start()
    assert not second.anew
    assert second.whole(JOINED) == published
    assert second.partial(JOINED, SPLIT, 4) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 4)}
    second.lost([JOINED, COUNTED])
    assert second.whole(JOINED) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 0, 0)}
    third = program.start()
    assert third.whole(JOINED) is None
    assert third.partial(JOINED, SPLIT, 4) is None
    third.initialized(AGAIN, JOINED, 4, SPLIT, SECOND)
    again = program.left.publish(SECOND, *ALL)
    third.finished(AGAIN, JOINED, again)
    fourth = program.start()
    assert fourth.whole(JOINED) == again
    fourth.end(JobStatus.FINISHED)
    assert program.on_disk() == []
    fifth = program.start()
    assert fifth.anew and fifth.whole(JOINED) is None


def test_what_was_published_before_its_event_is_whole_and_can_be_lost(program: Program) -> None:
    program.start_on()
    published = program.left.publish(FIRST, 0, 1, 3)
    second = program.start()
    assert second.whole(JOINED) == published
    second.lost([JOINED])
    assert program.start().whole(JOINED) is None


@pytest.mark.parametrize(
    ("split", "there", "missing"),
    [
        pytest.param(SPLIT, (0, 3), (1, 2), id="half done"),
        pytest.param(SPLIT, (0, 3, 4), None, id="with a partition beyond"),
        pytest.param("", (0, 3), None, id="not split"),
    ],
)
def test_of_what_was_half_done_what_is_missing_runs(
    program: Program, split: str, there: tuple[int, ...], missing: tuple[int, ...] | None
) -> None:
    program.start_on(*there, split=split)
    second = program.start()
    assert second.whole(JOINED) is None
    expected = None if missing is None else PartialVertex(FIRST, there, missing)
    assert second.partial(JOINED, SPLIT, 4) == expected
    for other in ((JOINED, "other files", 4), (JOINED, SPLIT, 5), (JOINED, "", 4)):
        assert second.partial(*other) is None
    assert second.partial(COUNTED, SPLIT, 4) is None


def test_a_completed_vertex_is_whole(program: Program) -> None:
    program.start_on(0, 3)
    second = program.start()
    assert second.initialized(AGAIN, JOINED, 4, SPLIT)
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 2, 2)}
    published = program.left.publish(FIRST, *ALL)
    second.finished(AGAIN, JOINED, published, (1, 2))
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 2)}
    assert program.start().whole(JOINED) == published
    said = program.finished_on_disk()
    assert [(each.subtask, each.attempt) for each in said] == [(0, 0), (3, 0), (1, 1), (2, 1)]


def test_salvaged_parts_that_lie_in_another_output_now_count_there(program: Program) -> None:
    program.start_on(0, 3)
    second = program.start()
    second.initialized(AGAIN, JOINED, 4, SPLIT)
    program.left.outputs.clear()
    second.finished(AGAIN, JOINED, program.left.publish(SECOND, *ALL), (1, 2))
    program.left.commit(SECOND, *ALL)
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, ALL, ())


@pytest.mark.parametrize("initialized", [True, False])
def test_a_vertex_has_the_parallelism_that_it_turns_out_to_have(
    program: Program, initialized: bool
) -> None:
    first = program.start()
    if initialized:
        first.initialized(JOIN, JOINED, 1)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 2, 5))
    assert program.start().progress[JOINED] == PartitionProgress(JOINED, 6, 6, 6)


def test_an_older_start_is_refused(program: Program) -> None:
    overtaken = program.begin()
    first = program.start_on()
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
    second.initialized(AGAIN, JOINED, 4, SPLIT, SECOND)
    program.die()
    assert len(program.on_disk()) == 2


def test_an_end_that_is_overtaken_when_it_has_been_recorded_fails(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, write = program.begin(), JobDirectory.write_record

    def then_overtaken(directory: JobDirectory, record: JobRecord, *, durably: bool) -> None:
        write(directory, record, durably=durably)
        monkeypatch.undo()
        program.begin()

    monkeypatch.setattr(JobDirectory, "write_record", then_overtaken)
    with pytest.raises(StaleEpochError):
        first.end(JobStatus.FINISHED, keep=True)


# -- what fails ------------------------------------------------------------------------------------


def test_a_recovery_that_fails_begins_from_scratch_and_says_so(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    program.finish()
    program.left.broken = StorageError("/kept", "it can't be read")
    begun = program.begin()
    epoch = begun.epoch
    second = program.start(begun)
    assert second.anew and begun.epoch > epoch
    assert (second.whole(JOINED), second.progress) == (None, {})
    (warning,) = warnings(caplog)
    assert "rerunning from scratch" in warning and "/kept: it can't be read" in warning
    second.initialized(AGAIN, JOINED, 4, SPLIT, SECOND)
    # What the first start left is no part of the job any more, unless it is whole.
    program.left.broken = None
    program.left.commit(FIRST, *ALL)
    program.left.commit(SECOND, 2)
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, (2,), (0, 1, 3))


DISKS: dict[str, tuple[Callable[[JobStart], Path], str]] = {
    "events": (lambda start: start.events_directory, "The job continues"),
    "epochs": (lambda start: start.directory / "epochs", "continues without checking"),
}


@pytest.mark.parametrize("what", DISKS)
def test_a_job_continues_without_its_log_or_epochs_with_one_warning(
    program: Program, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    place, said = DISKS[what]
    begun = program.begin()
    recovery = program.start(begun, flush_interval=timedelta(milliseconds=1))
    assert recovery.anew and recovery.progress == {}
    recovery.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    shutil.rmtree(place(begun))
    place(begun).write_text("no directory")
    recovery.initialized(JOIN, COUNTED, 4, SPLIT)
    published = program.left.publish(FIRST, *ALL)
    recovery.finished(JOIN, JOINED, published)
    recovery.lost([COUNTED])
    assert recovery.whole(JOINED) == published
    recovery.end(JobStatus.FINISHED)
    (warning,) = warnings(caplog)
    assert said in warning


# -- sources ---------------------------------------------------------------------------------------


class OfAnotherForm(FileSplitCoordinator):
    def snapshot(self) -> bytes:
        return b"of another form"


def split_up() -> FileSplitCoordinator:
    source = FileSplitCoordinator()
    source.deal(SETTINGS, SPLITS)
    return source


def test_a_source_continues_from_its_snapshot(program: Program) -> None:
    # Its driver is killed before anything has finished for it.
    program.start_on(1, source=split_up())
    second = program.start()
    again = FileSplitCoordinator()
    assert second.coordinate(JOINED, again)
    assert (again.settings, again.unfinished) == (SETTINGS, (0, 2, 3))
    again.subtask_reset(1)
    assert again.snapshot() == split_up().snapshot()
    assert second.partial(JOINED, SPLIT, 4) == PartialVertex(FIRST, (1,), (0, 2, 3))


@pytest.mark.parametrize(("minutes", "taken"), [(3, []), (0, [*ALL])])
def test_snapshots_keep_their_pause(program: Program, minutes: int, taken: list[int]) -> None:
    first = program.start(min_pause=timedelta(minutes=minutes))
    first.coordinate(JOINED, split_up())
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, *ALL))
    program.die()
    said = program.finished_on_disk()
    assert [each.subtask for each in said if each.coordinator_snapshot is not None] == taken


@pytest.mark.parametrize("is_known", [False, True])
def test_a_source_that_cannot_be_restored_begins_from_scratch(
    program: Program, caplog: pytest.LogCaptureFixture, is_known: bool
) -> None:
    program.start_on(1, source=OfAnotherForm() if is_known else FileSplitCoordinator())
    second = program.start()
    assert (second.partial(JOINED, SPLIT, 4) is not None) is is_known
    assert not second.coordinate(JOINED, FileSplitCoordinator())
    assert second.partial(JOINED, SPLIT, 4) is None
    assert ("can't restore the source" in caplog.text) is is_known
    published = program.left.publish(FIRST, *ALL)
    assert program.start().whole(JOINED) == published


def test_a_lost_dataset_s_source_reads_its_splits_again(program: Program) -> None:
    source = split_up()
    first = program.start_on(source=source)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, *ALL))
    assert not source.unfinished
    first.lost([JOINED])
    assert source.unfinished == ALL
