"""What is to be done to bring a job's graph to where the job stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from holdfast.ids import IntermediateDataSetID, JobVertexID


@dataclass(frozen=True, slots=True)
class InitializeVertex:
    """The vertex has this parallelism, which was decided before.

    Attributes:
        vertex_id: the vertex, as the log calls it.
        dataset_id: the dataset that it produces, by which this start finds it.
        parallelism: how many subtasks it has.
        split: how they split the data; empty where that is not fixed.
    """

    vertex_id: JobVertexID
    dataset_id: IntermediateDataSetID | None
    parallelism: int
    split: str


@dataclass(frozen=True, slots=True)
class MarkFinished:
    """The subtasks have finished: their partitions are there.

    Attributes:
        vertex_id: the vertex.
        subtasks: which of its subtasks, in their order.
    """

    vertex_id: JobVertexID
    subtasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RestoreCoordinator:
    """The vertex's coordinator goes on from a snapshot.

    Attributes:
        vertex_id: the vertex.
        snapshot: what the coordinator gave.
    """

    vertex_id: JobVertexID
    snapshot: bytes


@dataclass(frozen=True, slots=True)
class ResetSubtasks:
    """The vertex's coordinator is told that subtasks start again.

    Attributes:
        vertex_id: the vertex.
        subtasks: which of its subtasks, in their order.
    """

    vertex_id: JobVertexID
    subtasks: tuple[int, ...]


RecoveryInstruction: TypeAlias = (
    InitializeVertex | MarkFinished | RestoreCoordinator | ResetSubtasks
)
"""Any of them, in the order in which they are to be followed."""
