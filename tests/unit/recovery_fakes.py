"""What the tests of recovery share: what is left at the task executors, and starts of a job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.ids import JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)

JOB = JobID("0f" * 16)
METRICS = PartitionMetrics(bytes=10, rows=1)


@dataclass(frozen=True)
class Tracked:
    """A partition that is there."""

    partition_id: ResultPartitionID
    metrics: PartitionMetrics = METRICS


def tracked(output: OutputID, *indices: int) -> list[Tracked]:
    return [Tracked(ResultPartitionID(output, index)) for index in indices]


@dataclass(frozen=True)
class Found:
    """An output: the dataset if it was published, and the partitions that are there."""

    kept: KeptDataSet | None = None
    present: frozenset[int] = frozenset()


@dataclass
class Start:
    """One start of the job, without the rest of a driver; each is killed before the next."""

    events_directory: Path
    epoch: int
    job_id: JobID = JOB

    def check(self) -> None:
        """It is the newest."""

    def take_fresh_epoch(self) -> int:
        raise AssertionError("a recovery has failed")


def kept(output: OutputID, *indices: int) -> KeptDataSet:
    """A published output."""
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="a join", columns=(), spark_version="4.3.0"
    )
    partitions = tuple(
        KeptPartition(index=index, file=f"part-{index:05}.parquet", bytes=10, rows=1, version="1")
        for index in sorted(indices)
    )
    manifest = Manifest(created="2026-01-01T00:00:00", dataset=description, partitions=partitions)
    return KeptDataSet(directories=(f"/kept/{output.name}",), manifest=manifest, name=output.name)
