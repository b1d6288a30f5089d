"""Coordinators: what a source of files hands out, and when its snapshots are taken."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.coordinators import Coordinators
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.runtime.recovery.operator_coordinator import OperatorCoordinator
from holdfast.runtime.recovery.recovered_job import RecoveredVertex
from holdfast.taskexecutor.partitions.partition_info import OutputID

DATASET = IntermediateDataSetID("a" * 64)
OUTPUT = OutputID(DATASET, "0badcafe")
SPLITS = [
    [FileSplit("file:/data/a.parquet", 0, 128, 1), FileSplit("file:/data/b.parquet", 0, 3, 2)],
    [FileSplit("file:/data/a.parquet", 128, 64, 1)],
    [],
]
SETTINGS = {"spark.sql.files.maxPartitionBytes": "128", "spark.sql.files.minPartitionNum": "2"}
MINUTE = timedelta(minutes=1)


class Clock:
    """Stands still but for what a test adds."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class SilentCoordinator:
    """One of a source that can't be read again, as of a queue."""

    def __init__(self) -> None:
        self.reset: list[int] = []

    def snapshot(self) -> bytes | None:
        return None

    def restore(self, snapshot: bytes) -> None:
        raise ValueError("a queue can't be read again")

    def subtask_finished(self, subtask: int) -> None:
        self.reset = [each for each in self.reset if each != subtask]

    def subtask_reset(self, subtask: int) -> None:
        self.reset.append(subtask)


def split_up(
    assignment: Sequence[Sequence[FileSplit]] = SPLITS, settings: Mapping[str, str] = SETTINGS
) -> FileSplitCoordinator:
    coordinator = FileSplitCoordinator()
    coordinator.deal(settings, assignment)
    return coordinator


def restored(snapshot: bytes | None) -> FileSplitCoordinator:
    assert snapshot is not None
    coordinator = FileSplitCoordinator()
    coordinator.restore(snapshot)
    return coordinator


def listed_by(coordinator: FileSplitCoordinator) -> list[list[FileSplit]]:
    snapshot = coordinator.snapshot()
    assert snapshot is not None
    return [[FileSplit(*fields) for fields in each] for each in json.loads(snapshot)["subtasks"]]


def recovered(*finished: int, snapshot: bytes | None) -> RecoveredVertex:
    return RecoveredVertex(
        JobVertexID("0a"), DATASET, 3, "s", dict.fromkeys(finished, OUTPUT), None, snapshot
    )


def test_a_source_whose_files_are_not_split_yet_has_no_state() -> None:
    coordinator: OperatorCoordinator = FileSplitCoordinator()
    assert coordinator.snapshot() is None
    assert isinstance(coordinator, FileSplitCoordinator)
    assert (coordinator.settings, coordinator.unfinished) == ({}, ())


def test_a_restored_source_reads_the_same_splits_under_the_same_settings() -> None:
    before = split_up()
    before.subtask_finished(1)
    after = restored(before.snapshot())
    assert (after.settings, listed_by(after), after.unfinished) == (SETTINGS, SPLITS, (0, 2))
    after.deal(SETTINGS, SPLITS)
    assert after.unfinished == (0, 2)
    after.subtask_reset(1)
    assert after.unfinished == (0, 1, 2)
    # Of files that are split in another way none has been read.
    after.subtask_finished(1)
    after.deal({"spark.sql.files.maxPartitionBytes": "64"}, SPLITS[1:])
    assert after.unfinished == (0, 1)
    assert after.settings == {"spark.sql.files.maxPartitionBytes": "64"}


@pytest.mark.parametrize(
    "snapshot",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"version":1,"subtasks":[],"finished":[]}',
        b'{"version":2,"settings":[],"subtasks":[],"finished":[]}',
        b'{"version":2,"settings":{},"subtasks":[[]],"finished":[1]}',
        b'{"version":2,"settings":{},"subtasks":[[]],"finished":[-1]}',
        b'{"version":2,"settings":{},"subtasks":[[["a",-1,0,0]]],"finished":[]}',
    ],
)
def test_what_is_no_snapshot_changes_nothing(snapshot: bytes) -> None:
    coordinator = split_up()
    coordinator.subtask_finished(0)
    with pytest.raises(ValueError):
        coordinator.restore(snapshot)
    assert coordinator.unfinished == (1, 2)


def test_what_there_is_not_is_refused() -> None:
    for subtask in (-1, 3):
        for ask in (FileSplitCoordinator.subtask_finished, FileSplitCoordinator.subtask_reset):
            with pytest.raises(ValueError, match="expected one of 3 subtasks"):
                ask(split_up(), subtask)
    for start, length in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="expected a start and a length"):
            FileSplit("a", start, length, 0)


def test_snapshots_come_at_the_start_and_then_after_the_pause() -> None:
    clock = Clock()
    coordinators = Coordinators(MINUTE, clock)
    assert not coordinators.add(DATASET, split_up(), None)
    taken = [coordinators.initialized(DATASET)]
    for subtask, seconds in enumerate((59, 1, 59)):
        clock.seconds += seconds
        taken.append(coordinators.finished(DATASET, subtask))
    assert [None if each is None else json.loads(each)["finished"] for each in taken] == [
        *([], None, [0, 1], None)
    ]


@pytest.mark.parametrize("pause", [timedelta(0), MINUTE])
def test_the_pause_decides_how_many_snapshots_are_taken(pause: timedelta) -> None:
    coordinators = Coordinators(pause, Clock())
    coordinators.add(DATASET, split_up(), None)
    assert coordinators.initialized(DATASET) is not None
    taken = [coordinators.finished(DATASET, subtask) is not None for subtask in range(3)]
    assert taken == [pause == timedelta(0)] * 3


def test_a_restored_coordinator_knows_what_has_finished_and_what_starts_again() -> None:
    before = split_up()
    for subtask in (1, 2):
        before.subtask_finished(subtask)
    after = FileSplitCoordinator()
    found = recovered(0, 2, snapshot=before.snapshot())
    assert Coordinators(MINUTE, Clock()).add(DATASET, after, found)
    assert after.unfinished == (1,)


def test_one_without_snapshots_is_known_as_such() -> None:
    coordinators = Coordinators(MINUTE, Clock())
    silent = SilentCoordinator()
    assert not coordinators.has(DATASET)
    assert not coordinators.add(DATASET, silent, recovered(0, snapshot=None))
    assert coordinators.has(DATASET)
    coordinators.reset(DATASET, [0, 1])
    assert silent.reset == [0, 1]
    assert coordinators.initialized(DATASET) is None
    assert not coordinators.has(DATASET)
    assert coordinators.finished(DATASET, 0) is None
    assert silent.reset == [0, 1]
    # Without a coordinator there is nothing to reset.
    coordinators.reset(DATASET, [0])
    with pytest.raises(ValueError, match="read again"):
        coordinators.add(DATASET, silent, recovered(0, snapshot=b"s"))
