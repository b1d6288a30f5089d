"""Coordinators: which files' splits a source that starts again still has to read."""

from __future__ import annotations

import pytest

from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator

SPLITS = [
    [FileSplit("file:/data/a.parquet", 0, 128, 1), FileSplit("file:/data/b.parquet", 0, 3, 2)],
    [FileSplit("file:/data/a.parquet", 128, 64, 1)],
    [],
]
SETTINGS = {"spark.sql.files.maxPartitionBytes": "128", "spark.sql.files.minPartitionNum": "2"}


def test_a_restored_source_reads_the_same_splits_under_the_same_settings() -> None:
    source = FileSplitCoordinator()
    assert source.snapshot() is None
    source.deal(SETTINGS, SPLITS)
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
