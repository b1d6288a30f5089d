"""One start of a job after another, each of whose drivers dies: real logs, real directories."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    JobStatus,
)
from holdfast.eventstore.replay import event_files, replay
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.partial_vertex import PartialVertex
from holdfast.runtime.recovery.partition_progress import PartitionProgress
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)

JOINED, COUNTED = (IntermediateDataSetID(digit * 64) for digit in "ab")
FIRST, SECOND = (OutputID(JOINED, digits * 4) for digits in ("01", "02"))
JOIN, JOIN_AGAIN, SINK = (JobVertexID(digits) for digits in ("0a", "1a", "0c"))
IDENTITY = JobIdentity(digest="00ff" * 16, action="collect")
SPLIT = "four files"
SLOWLY = timedelta(hours=1)


@dataclass(frozen=True)
class Tracked:
    partition_id: ResultPartitionID
    metrics: PartitionMetrics


@dataclass(frozen=True)
class Found:
    kept: KeptDataSet | None
    present: frozenset[int]


@dataclass
class Left:
    """What earlier starts have left at the task executors."""

    committed: dict[OutputID, set[int]] = field(default_factory=dict)
    published: dict[OutputID, KeptDataSet] = field(default_factory=dict)
    broken: Exception | None = None

    def get_all_partition_with_metrics(self) -> list[Tracked]:
        return [
            Tracked(ResultPartitionID(output, index), PartitionMetrics(10, 1))
            for output, indices in self.committed.items()
            for index in sorted(indices)
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


def kept(output: OutputID, *indices: int) -> KeptDataSet:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="a join", columns=(), spark_version="4.3.0"
    )
    partitions = tuple(
        KeptPartition(index=index, file=f"part-{index:05}.parquet", bytes=10, rows=1, version="1")
        for index in indices
    )
    manifest = Manifest(created="2026-01-01T00:00:00", dataset=description, partitions=partitions)
    return KeptDataSet(directories=(f"/kept/{output.name}",), manifest=manifest, name=output.name)


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

    def start(self, begun: JobStart | None = None, **settings: timedelta) -> JobRecovery:
        # Earlier ones have died with all of their events on disk.
        self.die()
        return self.start_beside(begun, **settings)

    def die(self) -> None:
        for recovery in self.recoveries:
            recovery.close()

    def start_beside(self, begun: JobStart | None = None, **settings: timedelta) -> JobRecovery:
        recovery = JobRecovery(begun or self.begin(), self.left, **settings)  # type: ignore[arg-type]
        self.recoveries.append(recovery)
        recovery.recover()
        return recovery

    def events(self) -> list[object]:
        self.die()
        return self.events_on_disk()

    def events_on_disk(self) -> list[object]:
        (directory,) = self.root.glob("*/events")
        return list(replay(directory).events)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    running = Program(tmp_path / "ha")
    yield running
    running.die()
    for each in running.programs:
        each.close()


def test_a_new_job_has_nothing_to_recover(program: Program) -> None:
    recovery = program.start()
    assert recovery.anew
    assert recovery.whole(JOINED) is None
    assert recovery.partial(JOINED, SPLIT, 4) is None
    assert recovery.progress == {}


def test_events_come_after_the_recovery(program: Program) -> None:
    with pytest.raises(RuntimeError, match="recover"):
        JobRecovery(program.begin(), program.left).initialized(JOIN, JOINED, 4)


def test_what_a_killed_start_had_finished_is_whole(program: Program) -> None:
    first = program.start()
    assert first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    published = program.left.publish(FIRST, 0, 1, 2, 3)
    first.finished(JOIN, JOINED, published)
    assert first.whole(JOINED) == published
    assert first.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 0)}
    first.close()

    second = program.start()
    assert not second.anew
    assert second.whole(JOINED) == published
    assert second.partial(JOINED, SPLIT, 4) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 4)}


def test_an_initialized_vertex_is_on_disk_before_it_runs(program: Program) -> None:
    recovery = program.start(flush_interval=SLOWLY)
    recovery.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    (event,) = program.events_on_disk()
    assert isinstance(event, ExecutionJobVertexInitialized)


def test_what_was_published_without_a_word_is_whole(program: Program) -> None:
    # Killed between the publishing and the event.
    program.start().initialized(JOIN, JOINED, 4, SPLIT)
    published = program.left.publish(FIRST, 0, 1, 3)
    second = program.start()
    assert second.whole(JOINED) == published
    # It is said by now, so that it can be taken back.
    second.lost([JOINED])
    assert program.start().whole(JOINED) is None


def test_a_vertex_that_was_half_done_runs_what_is_missing(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3}
    second = program.start()
    assert second.whole(JOINED) is None
    assert second.partial(JOINED, SPLIT, 4) == PartialVertex(FIRST, (0, 3), (1, 2))
    assert second.partial(JOINED, "other files", 4) is None
    assert second.partial(JOINED, SPLIT, 5) is None
    assert second.partial(JOINED, "", 4) is None
    assert second.partial(COUNTED, SPLIT, 4) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 2, 2)}

    assert second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT)
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 2, 2)}
    published = program.left.publish(FIRST, 0, 1, 2, 3)
    second.finished(JOIN_AGAIN, JOINED, published, (1, 2))
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 4, 2)}
    said = [each for each in program.events() if isinstance(each, ExecutionVertexFinished)]
    assert [(each.subtask, each.attempt) for each in said] == [(0, 0), (3, 0), (1, 1), (2, 1)]
    assert program.start().whole(JOINED) == published


def test_an_output_with_a_partition_that_does_not_count_is_not_gone_on_with(
    program: Program,
) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3, 4}
    second = program.start()
    assert second.progress[JOINED].done == 2
    assert second.partial(JOINED, SPLIT, 4) is None


def test_a_vertex_that_runs_whole_though_it_need_not_is_salvaged_as_well(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0}
    second = program.start()
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    assert second.progress == {JOINED: PartitionProgress(JOINED, 4, 0, 0)}
    program.left.committed[SECOND] = {1, 2, 3}
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, (1, 2, 3), (0,))


def test_a_vertex_that_was_not_to_be_salvaged_is_not(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT)
    program.left.committed[FIRST] = {0, 3}
    assert program.start().partial(JOINED, SPLIT, 4) is None


def test_another_split_forgets_what_was_half_done(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3}
    second = program.start()
    second.initialized(JOIN_AGAIN, JOINED, 5, "other files", SECOND)
    assert second.partial(JOINED, SPLIT, 4) is None
    assert second.progress == {JOINED: PartitionProgress(JOINED, 5, 0, 0)}
    program.left.committed[SECOND] = {1}
    third = program.start()
    assert third.partial(JOINED, SPLIT, 4) is None
    assert third.partial(JOINED, "other files", 5) == PartialVertex(SECOND, (1,), (0, 2, 3, 4))


def test_a_vertex_has_the_parallelism_that_it_turns_out_to_have(program: Program) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 1)
    published = program.left.publish(FIRST, 0, 2, 5)
    first.finished(JOIN, JOINED, published)
    assert first.progress == {JOINED: PartitionProgress(JOINED, 6, 6, 0)}
    program.die()
    recovery = JobRecovery(program.begin(), program.left)
    recovered = recovery.recover().vertices[JOINED]
    recovery.close()
    assert (recovered.parallelism, recovered.whole, recovered.unrecorded) == (6, FIRST, ())


def test_a_dataset_without_a_name_is_refused(program: Program) -> None:
    pinned = program.left.publish(FIRST, 0).model_copy(update={"name": None})
    with pytest.raises(ValueError, match="no name"):
        program.start().finished(JOIN, JOINED, pinned)


def test_a_vertex_that_nobody_initialized_is_recorded_as_well(program: Program) -> None:
    first = program.start()
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1))
    assert program.start().whole(JOINED) is not None


def test_salvaged_parts_in_another_output_are_said_to_be_there(program: Program) -> None:
    program.start().initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    program.left.committed[FIRST] = {0, 3}
    second = program.start()
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT)
    program.left.committed.pop(FIRST)
    published = program.left.publish(SECOND, 0, 1, 2, 3)
    second.finished(JOIN_AGAIN, JOINED, published, (1, 2))
    program.left.published.clear()
    third = program.start()
    assert third.partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, (0, 1, 2, 3), ())


def test_what_is_lost_runs_again(program: Program) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1, 2, 3))
    first.lost([JOINED, COUNTED])
    assert first.whole(JOINED) is None
    assert first.progress == {JOINED: PartitionProgress(JOINED, 4, 0, 0)}
    second = program.start()
    assert second.whole(JOINED) is None
    assert second.partial(JOINED, SPLIT, 4) is None
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    published = program.left.publish(SECOND, 0, 1, 2, 3)
    second.finished(JOIN_AGAIN, JOINED, published)
    assert program.start().whole(JOINED) == published


def test_a_job_that_ended_leaves_nothing(program: Program) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1, 2, 3))
    first.end(JobStatus.FINISHED)
    assert program.events() == []
    assert first.whole(JOINED) is None
    second = program.start()
    assert second.anew
    assert second.whole(JOINED) is None


def test_an_end_whose_log_could_not_be_removed_is_an_end(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    begun = program.begin()
    first = program.start(begun)
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1, 2, 3))
    begun.events_directory.chmod(0o500)
    try:
        first.end(JobStatus.FINISHED)
        remains = replay(begun.events_directory).events
    finally:
        begun.events_directory.chmod(0o700)
    if remains:
        second = program.start()
        assert second.anew
        assert second.whole(JOINED) is None
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_an_older_start_is_refused(program: Program) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    second = program.start_beside()
    for refused in (
        lambda: first.initialized(JOIN, JOINED, 4, SPLIT, FIRST),
        lambda: first.finished(JOIN, JOINED, kept(FIRST, 0)),
        lambda: first.lost([JOINED]),
        lambda: first.end(JobStatus.FINISHED),
    ):
        with pytest.raises(StaleEpochError):
            refused()
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    assert len(program.events()) == 2


def test_a_start_that_was_overtaken_before_it_recovered_is_refused(program: Program) -> None:
    begun = program.begin()
    program.start().initialized(JOIN, JOINED, 4)
    with pytest.raises(StaleEpochError):
        program.start(begun)


def test_a_recovery_that_fails_begins_anew_and_says_so(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    first = program.start()
    first.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1, 2, 3))
    program.left.broken = StorageError("/kept", "it can't be read")
    begun = program.begin()
    epoch = begun.epoch
    second = program.start(begun)
    assert second.anew
    assert begun.epoch > epoch
    assert (second.whole(JOINED), second.progress) == (None, {})
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "rerunning from scratch: StorageError: /kept: it can't be read" in warnings[0]
    second.initialized(JOIN_AGAIN, JOINED, 4, SPLIT, SECOND)
    assert len(program.events()) == 1
    # What the first start left is no part of the job any more, unless it is whole.
    program.left.broken = None
    program.left.published.clear()
    program.left.committed[SECOND] = {2}
    assert program.start().partial(JOINED, SPLIT, 4) == PartialVertex(SECOND, (2,), (0, 1, 3))


def test_a_job_ends_after_it_was_said_why_it_is_not_recorded(program: Program) -> None:
    said = []

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            threading.Event().wait(0.2)
            said.append(record.getMessage())

    begun = program.begin()
    recovery = program.start(begun, flush_interval=timedelta(milliseconds=1))
    assert recovery.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    handler = Slow(logging.WARNING)
    logging.getLogger("holdfast").addHandler(handler)
    try:
        shutil.rmtree(begun.events_directory)
        begun.events_directory.write_text("no directory")
        assert not recovery.initialized(JOIN, COUNTED, 4, SPLIT)
        recovery.end(JobStatus.FINISHED)
        assert len(said) == 1
    finally:
        logging.getLogger("holdfast").removeHandler(handler)


def test_a_disk_that_fails_makes_the_job_go_on_with_one_warning(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    begun = program.begin()
    recovery = program.start(begun, flush_interval=timedelta(milliseconds=1))
    assert recovery.initialized(JOIN, JOINED, 4, SPLIT, FIRST)
    shutil.rmtree(begun.events_directory)
    begun.events_directory.write_text("no directory")
    assert not recovery.initialized(JOIN, COUNTED, 4, SPLIT)
    published = program.left.publish(FIRST, 0, 1, 2, 3)
    recovery.finished(JOIN, JOINED, published)
    recovery.lost([COUNTED])
    assert recovery.whole(JOINED) == published
    recovery.end(JobStatus.FINISHED)
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "The job continues" in warnings[0]


def test_whoever_cannot_ask_for_the_epoch_goes_on_with_one_warning(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    begun = program.begin()
    recovery = program.start(begun)
    epochs = begun.directory / "epochs"
    elsewhere = epochs.rename(begun.directory / "elsewhere")
    epochs.write_text("no directory")
    for dataset_id in (JOINED, COUNTED):
        assert recovery.initialized(JOIN, dataset_id, 4, SPLIT)
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "continues without checking" in warnings[0]
    epochs.unlink()
    elsewhere.rename(epochs)


def test_a_log_that_is_cut_anywhere_recovers_what_it_still_says(program: Program) -> None:
    begun = program.begin()
    first = program.start(begun)
    first.initialized(JOIN, JOINED, 4, SPLIT)
    published = program.left.publish(FIRST, 0, 1, 2, 3)
    first.finished(JOIN, JOINED, published)
    first.close()
    program.left.published.clear()
    path = max(event_files(begun.events_directory).values(), key=lambda each: each.stat().st_size)
    whole = path.read_bytes()
    seen = set()
    for size in range(len(whole), -1, -7):
        path.write_bytes(whole[:size])
        recovery = JobRecovery(begun, program.left)
        history = replay(begun.events_directory).events
        with pytest.raises(StaleEpochError):
            # Its epoch has written here before; what it decides comes before that.
            recovery.recover()
        said = [each for each in history if isinstance(each, ExecutionVertexFinished)]
        found = recovery.progress.get(JOINED)
        assert len(said) == (0 if found is None else found.done)
        assert recovery.whole(JOINED) is None
        seen.add(len(said))
    assert seen == {0, 1, 2, 3, 4}


SPLITS = [[FileSplit("file:/a", 0, 10, 1)], [FileSplit("file:/a", 10, 10, 1)]]


def dealt(settings: dict[str, str] | None = None) -> FileSplitCoordinator:
    source = FileSplitCoordinator()
    source.deal(settings or {"cores": "2"}, SPLITS)
    return source


def test_a_source_goes_on_from_its_snapshot(program: Program) -> None:
    first = program.start()
    source = FileSplitCoordinator()
    assert not first.coordinate(JOINED, source)
    source.deal({"cores": "2"}, SPLITS)
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    first.close()
    # Its driver is killed before anything has finished for it.
    program.left.committed[FIRST] = {1}

    second = program.start()
    again = FileSplitCoordinator()
    assert second.coordinate(JOINED, again)
    assert again.settings == {"cores": "2"}
    assert again.unfinished == (0,)
    again.subtask_reset(1)
    assert again.snapshot() == source.snapshot()
    assert second.partial(JOINED, SPLIT, 2) == PartialVertex(FIRST, (1,), (0,))


@pytest.mark.parametrize(
    ("pause", "taken"), [(timedelta(minutes=3), []), (timedelta(0), [0, 1, 2, 3, 4, 5])]
)
def test_snapshots_keep_their_pause(program: Program, pause: timedelta, taken: list[int]) -> None:
    first = JobRecovery(program.begin(), program.left, min_pause=pause)
    first.recover()
    source = FileSplitCoordinator()
    source.deal({}, [[each] for splits in SPLITS * 3 for each in splits])
    first.coordinate(JOINED, source)
    first.initialized(JOIN, JOINED, 6, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1, 2, 3, 4, 5))
    first.close()
    said = program.events()
    assert [
        each.coordinator_snapshot is not None
        for each in said
        if isinstance(each, ExecutionJobVertexInitialized)
    ] == [True]
    assert [
        each.subtask
        for each in said
        if isinstance(each, ExecutionVertexFinished) and each.coordinator_snapshot is not None
    ] == taken


def test_a_source_without_snapshots_runs_whole_or_not_at_all(program: Program) -> None:
    first = program.start()
    # Nothing that it could be restored from.
    assert not first.coordinate(JOINED, FileSplitCoordinator())
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    program.left.committed[FIRST] = {1}
    assert program.start().partial(JOINED, SPLIT, 2) is None
    published = program.left.publish(FIRST, 0, 1)
    assert program.start().whole(JOINED) == published


def test_a_source_that_cannot_be_restored_begins_anew(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    class Other(FileSplitCoordinator):
        """Has another form of snapshots."""

        def snapshot(self) -> bytes:
            return b"of another form"

    first = program.start()
    other = Other()
    other.deal({}, SPLITS)
    first.coordinate(JOINED, other)
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1))
    program.left.published.clear()
    program.left.committed[FIRST] = {1}
    second = program.start()
    assert second.partial(JOINED, SPLIT, 2) is not None
    assert not second.coordinate(JOINED, FileSplitCoordinator())
    assert second.partial(JOINED, SPLIT, 2) is None
    assert "can't restore the source" in caplog.text


def test_a_lost_datasets_source_hands_its_splits_out_again(program: Program) -> None:
    first = program.start()
    source = dealt()
    first.coordinate(JOINED, source)
    first.initialized(JOIN, JOINED, 2, SPLIT, FIRST)
    first.finished(JOIN, JOINED, program.left.publish(FIRST, 0, 1))
    assert source.unfinished == ()
    first.lost([JOINED])
    assert source.unfinished == (0, 1)
