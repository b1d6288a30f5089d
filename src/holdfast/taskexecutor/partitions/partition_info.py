"""What the partitions on a task executor are called, and what is known of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from pydantic_core import CoreSchema

from holdfast.ids import IntermediateDataSetID, text_schema

_NAME = re.compile(r"([0-9a-f]{64})-([0-9a-f]{8})")
_ATTEMPT = re.compile(r"[0-9a-f]{8}")

# Whatever counts partitions, bytes or rows in Spark is a signed number of Java's.
PARTITIONS_LIMIT = 1 << 31
METRIC_LIMIT = 1 << 63

Index = Annotated[int, Field(ge=0, lt=PARTITIONS_LIMIT)]
"""A partition's place in its output, from zero."""
Count = Annotated[int, Field(ge=1, le=PARTITIONS_LIMIT)]
"""A number of partitions."""
Metric = Annotated[int, Field(ge=0, lt=METRIC_LIMIT)]
"""A number of bytes, rows or reads."""


@dataclass(frozen=True, slots=True, order=True)
class OutputID:
    """One production of a dataset by one vertex, on all executors.

    Attributes:
        dataset_id: the dataset.
        attempt: eight hexadecimal digits that tell it from other productions of the same dataset.

    Raises:
        ValueError: when the dataset's id has not 64 digits, or the attempt not eight.

    >>> output = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")
    >>> OutputID.parse(str(output)) == output
    True
    """

    dataset_id: IntermediateDataSetID
    attempt: str

    def __post_init__(self) -> None:
        if len(self.dataset_id.hex) != 64 or not _ATTEMPT.fullmatch(self.attempt):
            raise ValueError(
                "OutputID expects a dataset's id of 64 hexadecimal digits and an attempt of "
                f"eight, got {self.dataset_id.hex!r} and {self.attempt!r}"
            )

    @property
    def name(self) -> str:
        """Both parts in full: also the name of the output's directory."""
        return f"{self.dataset_id.hex}-{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> OutputID:
        """The output of this name.

        Args:
            name: what `name` gave.

        Raises:
            ValueError: when it is no output's name.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            raise ValueError(
                "the name of an output is 64 hexadecimal digits, a dash and eight hexadecimal "
                f"digits in lower case, got {name!r}"
            )
        return cls(IntermediateDataSetID(match[1]), match[2])

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return text_schema(cls, cls.parse, lambda value: value.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, order=True)
class ResultPartitionID:
    """One partition of an output.

    Attributes:
        output: the output.
        index: the partition's place in it, from zero.

    Raises:
        ValueError: when the index is negative or beyond what Spark can count.
    """

    output: OutputID
    index: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < PARTITIONS_LIMIT:
            raise ValueError(f"a partition's index is from 0 below 2^31, got {self.index}")

    @property
    def dataset_id(self) -> IntermediateDataSetID:
        """The dataset that the partition is a part of."""
        return self.output.dataset_id

    def __str__(self) -> str:
        return f"{self.output.name}/{self.index}"


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """How large a partition is.

    Attributes:
        bytes: on disk.
        rows: in it.

    Raises:
        ValueError: when one of them is negative or beyond what Spark can count.
    """

    bytes: int
    rows: int

    def __post_init__(self) -> None:
        if not (0 <= self.bytes < METRIC_LIMIT and 0 <= self.rows < METRIC_LIMIT):
            raise ValueError(
                "a partition's bytes and rows are from 0 below 2^63, "
                f"got {self.bytes} and {self.rows}"
            )


@dataclass(frozen=True, slots=True)
class TaskExecutorPartitionInfo:
    """A partition that a task executor has.

    Attributes:
        partition_id: which one.
        metrics: how large it is.
        number_of_partitions: of the whole output, wherever they are.

    Raises:
        ValueError: when the partition's index is not below the number of partitions.

    Source: FLINK-12612; Flink's class of the same name.
    """

    partition_id: ResultPartitionID
    metrics: PartitionMetrics
    number_of_partitions: int

    def __post_init__(self) -> None:
        if not self.partition_id.index < self.number_of_partitions <= PARTITIONS_LIMIT:
            raise ValueError(
                f"partition {self.partition_id} can't be one of {self.number_of_partitions}"
            )
