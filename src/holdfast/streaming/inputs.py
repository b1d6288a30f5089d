"""Where the records of a pass come from."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from holdfast.errors import StreamTaskError
from holdfast.streaming.batches import MAIN_CHANNEL, batches_in, first_value, rows_of
from holdfast.streaming.record_pickling import unpickled
from holdfast.streaming.sealing import Seal
from holdfast.streaming.spill_files import KeyedParts
from holdfast.streaming.user_functions import failing_as

__all__ = [
    "BatchInput",
    "InputFormat",
    "InputLostError",
    "KeyedInput",
    "SealedInput",
    "SourceInput",
    "SplitReader",
]


class InputLostError(StreamTaskError):
    """What a pass gets can't be read, which is no operator's fault. Its cause is what counts."""


class InputFormat(ABC):
    """What a pass makes records of."""

    @abstractmethod
    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        """The records, taken one by one.

        Args:
            frames: record batches of the DataFrame below, none of them empty.
        """

    def subtask_index(self, first: pa.RecordBatch) -> int | None:
        """Which subtask gets a record batch; None if that can't be told from it.

        Args:
            first: the first that the subtask gets.
        """
        return None


class SplitReader(Protocol):
    """What reads the splits of a source. `holdfast` sources are such, and a person's own."""

    def read(self, split: Any) -> Iterable[Any]:
        """The records of a split.

        Args:
            split: one of those that the source was divided into.
        """


@dataclass(frozen=True)
class SourceInput(InputFormat):
    """Splits of a source: each row of the DataFrame below is the number of one.

    Args:
        name: the source's name.
        source: reads splits.
        splits: all of them.
        column: the column that has their numbers.
    """

    name: str
    source: SplitReader
    splits: tuple[Any, ...]
    column: str = "id"

    def subtask_index(self, first: pa.RecordBatch) -> int | None:
        return first_value(first, self.column)

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        with failing_as(self.name):
            for number in numbers_in(frames, self.column):
                yield from self.source.read(self.splits[number])


@dataclass(frozen=True)
class BatchInput(InputFormat):
    """Batches of one output of another pass.

    Args:
        channel: which output.
        same_subtask: each subtask gets just what the subtask of the same number has made.
    """

    channel: int = MAIN_CHANNEL
    same_subtask: bool = True

    def subtask_index(self, first: pa.RecordBatch) -> int | None:
        return first_value(first, "target") if self.same_subtask else None

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        return decoded(batches_in(frames, self.channel))


@dataclass(frozen=True)
class SealedInput(InputFormat):
    """Kept batches, each of which is read only if its seal is whole.

    Args:
        seal: what they were sealed with.
    """

    seal: Seal

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        return decoded(self.seal.opened(frames))


@dataclass(frozen=True)
class KeyedInput(InputFormat):
    """Batches that were split by key, after the shuffle: keys, and a value for each."""

    def subtask_index(self, first: pa.RecordBatch) -> int | None:
        return first_value(first, "target")

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[KeyedParts]:
        return keyed_parts(batches_in(frames, MAIN_CHANNEL))


def numbers_in(frames: Iterator[pa.RecordBatch], column: str) -> Iterator[int]:
    """The values of an integer column.

    Args:
        frames: record batches that have the column, taken one by one.
        column: the column's name.

    Raises:
        InputLostError: when they can't be had.
    """
    try:
        for frame in frames:
            for (number,) in rows_of(frame, column):
                yield number
    except Exception as error:
        raise InputLostError(str(error)) from error


def decoded(payloads: Iterator[Any]) -> Iterator[Any]:
    """The records of payloads.

    Args:
        payloads: what this application has pickled, taken one by one.

    Raises:
        InputLostError: when they can't be had.
    """
    # No generator of its own for each record, which would cost a tenth of a pass.
    return itertools.chain.from_iterable(unpickled_each(payloads))


def keyed_parts(payloads: Iterator[Any]) -> Iterator[KeyedParts]:
    """The keys and values of payloads.

    Args:
        payloads: what this application has pickled, taken one by one.

    Raises:
        InputLostError: when they can't be had.
    """
    return ((keys, values) for keys, values in unpickled_each(payloads))


def unpickled_each(payloads: Iterator[Any]) -> Iterator[list[Any]]:
    """What was pickled, payload by payload.

    Args:
        payloads: what this application has pickled, taken one by one.

    Raises:
        InputLostError: when it can't be had.
    """
    try:
        for payload in payloads:
            yield unpickled(payload)
    except StreamTaskError:
        raise
    except Exception as error:
        raise InputLostError(str(error)) from error
