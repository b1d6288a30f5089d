"""The locations of kept result partitions, as reported to the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.ids import IntermediateDataSetID


@dataclass(frozen=True, slots=True, order=True)
class ResultPartitionDescriptor:
    """The location of one BLOCKING_PERSISTENT result partition.

    Source: FLINK-12406, "Brief change log".

    Attributes:
        dataset_id: the dataset that it is a part of.
        index: which subtask wrote it, from 0.
        location: its path or URL, readable by Spark and any Parquet reader.
        bytes: its size.
        rows: how many rows it holds.
    """

    dataset_id: IntermediateDataSetID
    index: int
    location: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class BlockingPersistentResultPartitionMeta:
    """The kept result partitions that a job produced or read.

    Source: FLINK-12406, "Brief change log" and "Failure Handling".

    Attributes:
        descriptors: for each dataset the locations of its partitions, by index. A dataset
            without rows may have no partition.
        incomplete: datasets with unknown locations; not to be read.
    """

    descriptors: Mapping[IntermediateDataSetID, tuple[ResultPartitionDescriptor, ...]] = field(
        default_factory=dict
    )
    incomplete: frozenset[IntermediateDataSetID] = frozenset()
