"""All that it takes to read a cached intermediate result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.ids import IntermediateDataSetID


class PartitionDescriptor(Protocol):
    """The location of one kept result partition.

    The graph hands it on as it is; `runtime.partitions.ResultPartitionDescriptor` is one.
    """

    @property
    def dataset_id(self) -> IntermediateDataSetID:
        """The dataset that it is a part of."""

    @property
    def index(self) -> int:
        """Which subtask wrote it, from 0."""

    @property
    def location(self) -> str:
        """Where it lies, as a path or URL."""


@dataclass(frozen=True, slots=True)
class IntermediateDataSetDescriptor:
    """Contains the information to read a cached intermediate result.

    Source: FLIP-205, "DataStream -> Stream Graph".

    Attributes:
        dataset_id: the kept result.
        parallelism: how many subtasks the node has had that created it.
        partitions: where its partitions lie, by index; a subtask without records may have none.
    """

    dataset_id: IntermediateDataSetID
    parallelism: int
    partitions: tuple[PartitionDescriptor, ...] = ()
