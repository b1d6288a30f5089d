"""A job's log and its partitions together: each start goes on where the last one was killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.storage.intermediate_result_storage import StagedDataSet
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from tests.unit.recovery_fakes import JOB, Start

VERTEX = JobVertexID("cd" * 16)
DATASET = IntermediateDataSetID("1" * 64)
DESCRIPTION = DataSetDescription(
    dataset_id=DATASET.hex, computes="rows", columns=(), spark_version="4.3.0"
)
SPLIT, PARALLELISM = "four files", 4


class Run:
    """A start that has recovered what there is."""

    def __init__(self, root: Path, epoch: int) -> None:
        claim = RecoveryClaim(JOB, epoch)
        self.storage = embedded_recovery_storage(root / "kept", claim, retention_seconds=600)
        events = root / "events"
        events.mkdir(exist_ok=True)
        self.recovery = JobRecovery(Start(events, epoch), self.storage)
        self.recovery.recover()

    def kill(self) -> None:
        self.recovery.close()
        self.storage.leave()

    def stage(self) -> StagedDataSet:
        """What is to be written by this start: all, or what is missing."""
        partial = self.recovery.partial(DATASET, SPLIT, PARALLELISM)
        if partial is not None:
            self.recovery.initialized(VERTEX, DATASET, PARALLELISM, SPLIT)
            self.missing = partial.missing
            return self.storage.stage_missing(JOB, partial.salvaged, partial.missing, PARALLELISM)
        self.missing = tuple(range(PARALLELISM))
        staged = self.storage.stage(JOB, DATASET)
        output = OutputID.parse(staged.name)
        self.recovery.initialized(VERTEX, DATASET, PARALLELISM, SPLIT, output)
        return staged

    def write(self, staged: StagedDataSet, *partitions: int) -> None:
        """Tasks write partitions that are missing; each holds its own number."""
        for partition in partitions:
            task = self.missing.index(partition)
            name = f"part-{task:05}-{staged.name[-8:]}-c000.zstd.parquet"
            pq.write_table(pa.table({"a": [partition]}), staged.directory / name)

    def finish(self, staged: StagedDataSet) -> None:
        kept = self.storage.publish(staged, DESCRIPTION, number_of_partitions=PARALLELISM)
        self.recovery.finished(VERTEX, DATASET, kept, self.missing)

    def rows(self) -> list[int] | None:
        kept = self.recovery.whole(DATASET)
        if kept is None:
            return None
        return [row for each in kept.locations for row in pq.read_table(each)["a"].to_pylist()]


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[list[Run]]:
    """Begins the next one by `begin`."""
    begun: list[Run] = []
    yield begun
    for each in begun:
        each.kill()


def begin(runs: list[Run], root: Path) -> Run:
    if runs:
        runs[-1].kill()
    runs.append(Run(root, len(runs) + 1))
    return runs[-1]


def test_what_each_start_has_done_counts_for_all_that_follow(
    runs: list[Run], tmp_path: Path
) -> None:
    first = begin(runs, tmp_path)
    first.write(first.stage(), 2)
    second = begin(runs, tmp_path)
    staged = second.stage()
    assert second.missing == (0, 1, 3)
    second.write(staged, 3)
    third = begin(runs, tmp_path)
    staged = third.stage()
    assert third.missing == (0, 1)
    third.write(staged, 0, 1)
    # What was split in another way is not completed.
    assert third.recovery.partial(DATASET, "other files", PARALLELISM) is None
    assert third.recovery.partial(DATASET, SPLIT, PARALLELISM - 1) is None
    assert third.rows() is None
    # Killed before it could publish: all is there, and nothing has to run.
    fourth = begin(runs, tmp_path)
    partial = fourth.recovery.partial(DATASET, SPLIT, PARALLELISM)
    assert partial is not None
    assert partial.missing == ()
    fourth.recovery.initialized(VERTEX, DATASET, PARALLELISM, SPLIT)
    kept = fourth.storage.publish_salvaged(JOB, partial.salvaged, DESCRIPTION, PARALLELISM)
    # Killed before it could say so.
    assert begin(runs, tmp_path).rows() == [0, 1, 2, 3]
    runs[-1].recovery.finished(VERTEX, DATASET, kept, ())
    assert begin(runs, tmp_path).rows() == [0, 1, 2, 3]


def test_what_was_finished_is_whole_for_the_next_start(runs: list[Run], tmp_path: Path) -> None:
    first = begin(runs, tmp_path)
    first.write(first.stage(), 1)
    second = begin(runs, tmp_path)
    staged = second.stage()
    second.write(staged, 0, 2, 3)
    second.finish(staged)
    assert second.rows() == [0, 1, 2, 3]
    assert begin(runs, tmp_path).rows() == [0, 1, 2, 3]
