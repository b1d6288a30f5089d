"""Sealed batches of one side output, and of several outputs together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.functions.output_tag import OutputTag
from holdfast.streaming.batch_encoding import split_by_tag
from holdfast.streaming.batches import MAIN_CHANNEL, Batch, grouped
from holdfast.streaming.inputs import InputFormat, SealedInput
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.outputs import OutputFormat
from holdfast.streaming.sealing import SEALED_SCHEMA, Seal
from holdfast.streaming.subtask import Subtask

__all__ = [
    "SHARED_SCHEMA",
    "SharedInput",
    "SharedOutput",
    "TaggedSealedOutput",
]

SHARED_SCHEMA = SEALED_SCHEMA.insert(0, pa.field("channel", pa.int32()))
"""The columns in which the outputs of one pass are kept for the length of a job."""


@dataclass(frozen=True)
class TaggedSealedOutput(OutputFormat):
    """Sealed batches of a side output.

    Args:
        seal: what seals them.
        tag: which side output.
    """

    schema: ClassVar[pa.Schema] = SEALED_SCHEMA
    takes_tags = True

    seal: Seal
    tag: OutputTag

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        channels: dict[OutputTag | None, int] = {self.tag: MAIN_CHANNEL}
        return self.seal.to_arrow(split_by_tag(records, operator, subtask.index, channels))


@dataclass(frozen=True)
class SharedOutput(OutputFormat):
    """Sealed batches of the main output and of side outputs; each output has a seal of its own.

    Args:
        seal: what seals them, together with the channel.
        tags: the side outputs that somebody takes; their channels are 1 and above, in this order.
    """

    schema: ClassVar[pa.Schema] = SHARED_SCHEMA
    takes_tags = True

    seal: Seal
    tags: tuple[OutputTag, ...]

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        channels: dict[OutputTag | None, int] = {
            tag: channel for channel, tag in enumerate(self.tags, MAIN_CHANNEL + 1)
        }
        channels[None] = MAIN_CHANNEL
        for group in grouped(split_by_tag(records, operator, subtask.index, channels)):
            yield from self._frames(group)

    def _frames(self, group: list[Batch]) -> Iterator[pa.RecordBatch]:
        for channel in sorted({batch.channel for batch in group}):
            own = [batch for batch in group if batch.channel == channel]
            for frame in of_channel(self.seal, channel).to_arrow(own):
                column = pa.array([channel] * frame.num_rows, pa.int32())
                yield pa.RecordBatch.from_arrays([column, *frame.columns], schema=SHARED_SCHEMA)


@dataclass(frozen=True)
class SharedInput(InputFormat):
    """Sealed batches of one of several outputs.

    Args:
        seal: what they were sealed with, together with the channel.
        channel: which output.
    """

    seal: Seal
    channel: int

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        of_this = (
            frame.filter(pc.equal(frame.column("channel"), self.channel)) for frame in frames
        )
        return SealedInput(of_channel(self.seal, self.channel)).read(of_this)


def of_channel(seal: Seal, channel: int) -> Seal:
    """The seal of one of several outputs.

    Args:
        seal: of all of them.
        channel: which output.
    """
    return replace(seal, label=f"{seal.label}/{channel}")
