"""Where the records of a pass go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.operators import Aggregate, Reduce
from holdfast.streaming.aggregates import FieldAggregate
from holdfast.streaming.batch_encoding import dealt, encoded, split_by_tag
from holdfast.streaming.batches import BATCH_SCHEMA, MAIN_CHANNEL, to_arrow
from holdfast.streaming.combining import aggregated, reduced
from holdfast.streaming.contexts import TaskContext
from holdfast.streaming.keyed_encoding import KeyedEncoder
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.sealing import SEALED_SCHEMA, Seal
from holdfast.streaming.subtask import Subtask
from holdfast.streaming.user_functions import OpenedFunctions, call_of

__all__ = [
    "BatchOutput",
    "KeyedOutput",
    "OutputFormat",
    "RebalancedOutput",
    "SealedOutput",
]


class OutputFormat(ABC):
    """What becomes of a pass's records.

    Attributes:
        schema: of the record batches.
        takes_tags: records for side outputs reach it, with their tags.
    """

    schema: ClassVar[pa.Schema]
    takes_tags: bool = False

    @abstractmethod
    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        """Makes record batches of records, as they are asked for.

        Args:
            records: taken one by one.
            operator: the name of the operator that they come out of.
            subtask: where this runs.
            gauge: tells when what is held is too much.
        """

    def open(self, functions: OpenedFunctions, subtask: Subtask) -> None:
        """Opens a person's functions that are called here; there are none by default.

        Args:
            functions: what opens and closes them.
            subtask: where this runs.
        """
        return


@dataclass(frozen=True)
class BatchOutput(OutputFormat):
    """Batches that stay in their subtask.

    Args:
        tags: the side outputs that somebody takes; their channels are 1 and above, in this order.
        main: somebody takes the main output, which has channel 0.
        lazily: each batch goes on at once.
    """

    schema: ClassVar[pa.Schema] = BATCH_SCHEMA

    tags: tuple[OutputTag, ...] = ()
    main: bool = True
    lazily: bool = False

    @property
    def takes_tags(self) -> bool:  # type: ignore[override]
        return bool(self.tags) or not self.main

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        if not self.takes_tags:
            return to_arrow(encoded(records, operator, subtask.index), self.lazily)
        channels: dict[OutputTag | None, int] = {
            tag: channel for channel, tag in enumerate(self.tags, MAIN_CHANNEL + 1)
        }
        if self.main:
            channels[None] = MAIN_CHANNEL
        return to_arrow(split_by_tag(records, operator, subtask.index, channels), self.lazily)


@dataclass(frozen=True)
class SealedOutput(OutputFormat):
    """Sealed batches, to be kept or collected.

    Args:
        seal: what seals them.
        lazily: each batch goes on at once.
    """

    schema: ClassVar[pa.Schema] = SEALED_SCHEMA

    seal: Seal
    lazily: bool = False

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        return self.seal.to_arrow(encoded(records, operator, subtask.index), self.lazily)


@dataclass(frozen=True)
class RebalancedOutput(OutputFormat):
    """Batches that go to all partitions in turn, so that all get as many records.

    Args:
        partitions: how many there are; column `target` says which one is meant.
    """

    schema: ClassVar[pa.Schema] = BATCH_SCHEMA

    partitions: int

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        return to_arrow(dealt(records, operator, subtask.index, self.partitions))


@dataclass(frozen=True)
class KeyedOutput(OutputFormat):
    """Batches that go to where their keys are at home.

    Args:
        name: the name of the operator that works by keys.
        key_selector: a KeySelector, or anything that can be called with a record.
        partitions: how many there are; column `target` says which one is meant.
        combine: what combines the records of a key before they go, if anything does.
    """

    schema: ClassVar[pa.Schema] = BATCH_SCHEMA

    name: str
    key_selector: Any
    partitions: int
    combine: Reduce | Aggregate | None = None

    def open(self, functions: OpenedFunctions, subtask: Subtask) -> None:
        context = TaskContext(self.name, subtask)
        functions.open(self.name, self.key_selector, context)
        if isinstance(self.combine, Reduce):
            functions.open(self.name, self.combine.function, context)

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        key_of = call_of(self.key_selector, "get_key")
        encoder = KeyedEncoder(self.name, self.partitions)
        if self.combine is None:
            return to_arrow(encoder.one_by_one(records, key_of, gauge))
        if isinstance(self.combine, Reduce):
            two = call_of(self.combine.function, "reduce")
            return to_arrow(encoder.combined(reduced(records, key_of, two, self.name, gauge)))
        aggregate = FieldAggregate(self.combine)
        return to_arrow(encoder.combined(aggregated(records, key_of, aggregate, self.name, gauge)))
