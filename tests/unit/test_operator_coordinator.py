"""Coordinators: which files' splits a source that starts again still has to read."""

from __future__ import annotations

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
SPLITS = [
    [FileSplit("file:/data/a.parquet", 0, 128, 1), FileSplit("file:/data/b.parquet", 0, 3, 2)],
    [FileSplit("file:/data/a.parquet", 128, 64, 1)],
    [],
]
SETTINGS = {"spark.sql.files.maxPartitionBytes": "128", "spark.sql.files.minPartitionNum": "2"}


@pytest.fixture
def source() -> FileSplitCoordinator:
    coordinator = FileSplitCoordinator()
    assert coordinator.snapshot() is None
    coordinator.deal(SETTINGS, SPLITS)
    return coordinator


def test_a_restored_source_reads_the_same_splits_under_the_same_settings(
    source: FileSplitCoordinator,
) -> None:
    source.subtask_finished(1)
    snapshot = source.snapshot()
    assert snapshot is not None
    after = FileSplitCoordinator()
    after.restore(snapshot)
    assert (after.settings, after.unfinished, after.snapshot()) == (SETTINGS, (0, 2), snapshot)
    after.deal(SETTINGS, SPLITS)
    assert after.unfinished == (0, 2)
    after.subtask_reset(1)
    assert after.unfinished == (0, 1, 2)
    # Of files that are split in another way none has been read.
    after.subtask_finished(1)
    after.deal({}, SPLITS[1:])
    assert (after.settings, after.unfinished) == ({}, (0, 1))
    with pytest.raises(ValueError, match="expected one of 2 subtasks"):
        after.subtask_finished(2)


@pytest.mark.parametrize(
    "snapshot",
    [
        b"\xff",
        b'{"version":1,"subtasks":[],"finished":[]}',
        b'{"version":2,"settings":{},"subtasks":[[]],"finished":[1]}',
        b'{"version":2,"settings":{},"subtasks":[[["a",-1,0,0]]],"finished":[]}',
    ],
)
def test_what_is_no_snapshot_changes_nothing(source: FileSplitCoordinator, snapshot: bytes) -> None:
    source.subtask_finished(0)
    with pytest.raises(ValueError):
        source.restore(snapshot)
    assert source.unfinished == (1, 2)


def test_a_restored_coordinator_knows_what_has_finished_and_what_starts_again(
    source: FileSplitCoordinator,
) -> None:
    for subtask in (1, 2):
        source.subtask_finished(subtask)
    finished = dict.fromkeys((0, 2), OutputID(DATASET, "0badcafe"))
    found = RecoveredVertex(JobVertexID("0a"), DATASET, 3, "s", finished, None, source.snapshot())
    after = FileSplitCoordinator()
    assert Coordinators(timedelta(minutes=1), Clock()).add(DATASET, after, found)
    assert after.unfinished == (1,)
