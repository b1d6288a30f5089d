"""What several tests of the book-keeping build on. Nothing here starts Spark."""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock

import pytest

from holdfast.ids import JobID
from holdfast.taskexecutor.partitions.partition_info import PartitionMetrics, ResultPartitionID
from holdfast.taskexecutor.partitions.shuffle_environment import ResultPartitionWriter

State = str | None
IN_PROGRESS, FINISHED = "in progress", "finished"


class MemoryShuffleEnvironment:
    """Has partitions in memory, and raises on every step that a partition can't take."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._partitions: dict[ResultPartitionID, str] = {}

    def create_result_partition_writers(
        self, job_id: JobID, ids: Collection[ResultPartitionID]
    ) -> list[ResultPartitionWriter]:
        return [MemoryWriter(self, partition_id) for partition_id in ids]

    def release_partitions_locally(self, ids: Collection[ResultPartitionID]) -> None:
        for partition_id in ids:
            self.change(partition_id, FINISHED, None)

    def held(self) -> dict[ResultPartitionID, str]:
        with self._lock:
            return dict(self._partitions)

    def change(
        self, partition_id: ResultPartitionID, before: str | None, after: str | None
    ) -> None:
        with self._lock:
            found = self._partitions.get(partition_id)
            assert found == before, f"{partition_id} is {found}, expected {before}"
            self._partitions.pop(partition_id, None)
            if after is not None:
                self._partitions[partition_id] = after


class MemoryWriter:
    """Writes nothing, but says that it has."""

    def __init__(self, environment: MemoryShuffleEnvironment, partition_id: ResultPartitionID):
        self._environment = environment
        self._partition_id = partition_id

    @property
    def partition_id(self) -> ResultPartitionID:
        return self._partition_id

    def setup(self) -> None:
        self._environment.change(self._partition_id, None, IN_PROGRESS)

    def finish(self) -> PartitionMetrics:
        self._environment.change(self._partition_id, IN_PROGRESS, FINISHED)
        return PartitionMetrics(bytes=100 + self._partition_id.index, rows=self._partition_id.index)

    def fail(self, cause: str | None = None) -> None:
        self._environment.change(self._partition_id, IN_PROGRESS, None)


@pytest.fixture(scope="session")
def memory_shuffle_environment() -> type[MemoryShuffleEnvironment]:
    """An environment of real partitions, which a test makes as often as it needs one."""
    return MemoryShuffleEnvironment
