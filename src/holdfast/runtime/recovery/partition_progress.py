"""How far a vertex has got, for people."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import IntermediateDataSetID


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a vertex has got.

    Attributes:
        dataset_id: the dataset that it produces.
        partitions: how many it has in all.
        done: how many of them are there.
        recovered: how many of those an earlier start had finished.
    """

    dataset_id: IntermediateDataSetID
    partitions: int
    done: int
    recovered: int
