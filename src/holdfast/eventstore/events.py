"""What happens in a job that whoever takes it over has to know.

Source: FLIP-383, "The Whole Workflow of Job Recovery"; Flink's `runtime/jobmaster/event`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import (
    PARTITIONS_LIMIT,
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)

SNAPSHOT_LIMIT = 1 << 30
"""Below how many bytes a coordinator's snapshot has to be."""


class JobStatus(Enum):
    """How a job ended."""

    FINISHED = "FINISHED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


@dataclass(frozen=True, slots=True)
class ExecutionJobVertexInitialized:
    """The parallelism of a vertex has been decided.

    Attributes:
        vertex_id: the vertex, as this run of the job calls it.
        parallelism: how many subtasks it has, at least one.
        dataset_id: the dataset that it produces, by which a changed program finds it again; None
            for a vertex that leaves nothing behind.
        split: how the subtasks split the data, in words of whoever runs the vertex: where two texts
            are equal and not empty, so is the split. Empty where that is not fixed.
        output: the production of the dataset that the subtasks write to, the i-th of them its
            partition i. None where that isn't known yet, or they are called otherwise there.
        coordinator_snapshot: the state of the vertex's coordinator, from which the next start goes
            on; None where there is no coordinator, or its state is known already.

    Raises:
        ValueError: when the parallelism is below one or beyond what Spark can count, the output is
            of another dataset, or the snapshot has `SNAPSHOT_LIMIT` bytes or more.

    Source: FLIP-383, "Initialize all ExecutionJobVertex whose parallelism has been decided".

    >>> ExecutionJobVertexInitialized(JobVertexID("00ff"), parallelism=8).split
    ''
    """

    vertex_id: JobVertexID
    parallelism: int
    dataset_id: IntermediateDataSetID | None = None
    split: str = ""
    output: OutputID | None = None
    coordinator_snapshot: bytes | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.parallelism <= PARTITIONS_LIMIT:
            raise ValueError(f"expected a parallelism from 1 to 2^31, got {self.parallelism}")
        if self.output is not None and self.output.dataset_id != self.dataset_id:
            raise ValueError(f"expected an output of {self.dataset_id}, got {self.output}")
        _check_snapshot(self.coordinator_snapshot)


@dataclass(frozen=True, slots=True)
class ExecutionVertexFinished:
    """A subtask has finished, and its partition is there.

    Attributes:
        vertex_id: the vertex.
        subtask: which subtask of it, from zero.
        attempt: which attempt of the subtask it was, from zero.
        output: the production that its partition belongs to; None where nothing is left behind.
        metrics: how large the partition is; given if the output is.
        coordinator_snapshot: the state of the vertex's coordinator when this was recorded; None
            where the minimal pause since the last one isn't over, or there is no coordinator.

    Raises:
        ValueError: when a number is negative or beyond what Spark can count, when one of `output`
            and `metrics` is given alone, or when the snapshot has `SNAPSHOT_LIMIT` bytes or more.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".

    >>> output = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")
    >>> event = ExecutionVertexFinished(
    ...     JobVertexID("00ff"), 3, 0, output, PartitionMetrics(bytes=4096, rows=7)
    ... )
    >>> event.partition_id.index
    3
    """

    vertex_id: JobVertexID
    subtask: int
    attempt: int
    output: OutputID | None = None
    metrics: PartitionMetrics | None = None
    coordinator_snapshot: bytes | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.subtask < PARTITIONS_LIMIT and 0 <= self.attempt < PARTITIONS_LIMIT):
            raise ValueError(
                "expected a subtask and an attempt from 0 to 2^31 - 1, "
                f"got {self.subtask} and {self.attempt}"
            )
        if (self.output is None) is not (self.metrics is None):
            raise ValueError(
                f"expected an output and its metrics, got {self.output} with {self.metrics}"
            )
        _check_snapshot(self.coordinator_snapshot)

    @property
    def partition_id(self) -> ResultPartitionID | None:
        """The partition that the subtask left behind; None where it left nothing."""
        return None if self.output is None else ResultPartitionID(self.output, self.subtask)


@dataclass(frozen=True, slots=True)
class ExecutionVertexReset:
    """Subtasks are to run again: what was recorded of their end does not count any more.

    Attributes:
        vertex_id: the vertex.
        subtasks: which subtasks of it, each from zero; at least one.

    Raises:
        ValueError: when there is none, or one is negative or beyond what Spark can count.

    Source: Flink's ExecutionVertexResetEvent.

    >>> ExecutionVertexReset(JobVertexID("00ff"), (1, 4)).subtasks
    (1, 4)
    """

    vertex_id: JobVertexID
    subtasks: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.subtasks or not all(0 <= each < PARTITIONS_LIMIT for each in self.subtasks):
            raise ValueError(f"expected subtasks from 0 to 2^31 - 1, got {self.subtasks!r:.100}")


@dataclass(frozen=True, slots=True)
class JobFinished:
    """The job has ended: nothing of it is to be recovered.

    Attributes:
        status: how it ended.

    >>> JobFinished(JobStatus.FINISHED).status.value
    'FINISHED'
    """

    status: JobStatus


JobEvent: TypeAlias = (
    ExecutionJobVertexInitialized | ExecutionVertexFinished | ExecutionVertexReset | JobFinished
)
"""Any of them."""


def _check_snapshot(snapshot: bytes | None) -> None:
    if snapshot is not None and len(snapshot) >= SNAPSHOT_LIMIT:
        raise ValueError(
            f"expected a coordinator snapshot below {SNAPSHOT_LIMIT} bytes, got {len(snapshot)}"
        )
