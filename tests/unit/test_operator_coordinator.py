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
from holdfast.runtime.recovery.recovered_job import RecoveredVertex
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.taskexecutor.callers import Clock

DATASET = IntermediateDataSetID("a" * 64)
OUTPUT = OutputID(DATASET, "0badcafe")
SPLITS = [
    [FileSplit("file:/data/a.parquet", 0, 128, 1), FileSplit("file:/data/b.parquet", 0, 3, 2)],
    [FileSplit("file:/data/a.parquet", 128, 64, 1)],
    [],
]
SETTINGS = {"spark.sql.files.maxPartitionBytes": "128", "spark.sql.files.minPartitionNum": "2"}
MINUTE = timedelta(minutes=1)


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


def test_a_restored_coordinator_knows_what_has_finished_and_what_starts_again() -> None:
    before = split_up()
    for subtask in (1, 2):
        before.subtask_finished(subtask)
    after = FileSplitCoordinator()
    found = recovered(0, 2, snapshot=before.snapshot())
    assert Coordinators(MINUTE, Clock()).add(DATASET, after, found)
    assert after.unfinished == (1,)


@pytest.mark.parametrize(
    "snapshot",
    [
        b"",
        b"\xff",
        b'{"version":1,"subtasks":[],"finished":[]}',
        b'{"version":2,"settings":[],"subtasks":[],"finished":[]}',
        b'{"version":2,"settings":{},"subtasks":[[]],"finished":[1]}',
        b'{"version":2,"settings":{},"subtasks":[[["a",-1,0,0]]],"finished":[]}',
    ],
)
def test_what_is_no_snapshot_changes_nothing(snapshot: bytes) -> None:
    coordinator = split_up()
    coordinator.subtask_finished(0)
    with pytest.raises(ValueError):
        coordinator.restore(snapshot)
    assert coordinator.unfinished == (1, 2)
