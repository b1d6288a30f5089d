"""Batches: many records as one binary value, in rows of Arrow record batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from holdfast.streaming.fragments import fragmented, whole

__all__ = ["BATCH_SCHEMA", "MAIN_CHANNEL", "Batch", "batches_in", "rows_of", "to_arrow"]

MAIN_CHANNEL = 0
"""The channel of an operator's main output; its side outputs have 1 and above."""

BATCH_SCHEMA = pa.schema(
    [
        ("channel", pa.int32()),
        ("target", pa.int32()),
        ("records", pa.int32()),
        ("batch", pa.binary()),
    ]
)
"""The columns in which records travel: a row is a batch.

`channel` is the output, `target` the subtask to go to (or that it comes from, where nothing moves),
`records` how many records the batch holds, `batch` their pickle. A huge batch has several rows, see
`holdfast.streaming.fragments`.
"""

_GROUP_BYTES = 4 << 20

B = TypeVar("B", bound=Any)


class Batch(NamedTuple):
    """Records as they travel: a row of `BATCH_SCHEMA`.

    Attributes:
        channel: the output that they are of.
        target: the subtask that they go to, or come from.
        records: how many there are.
        payload: their pickle.
    """

    channel: int
    target: int
    records: int
    payload: Any


def to_arrow(batches: Iterable[Batch], one_by_one: bool = False) -> Iterator[pa.RecordBatch]:
    """Makes Arrow record batches.

    Args:
        batches: taken one by one.
        one_by_one: a record batch for each, at once, instead of for some MiB of them.
    """
    for group in grouped(fragmented(batches), one_by_one):
        channels, targets, records, payloads = zip(*group, strict=True)
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(channels, pa.int32()),
                pa.array(targets, pa.int32()),
                pa.array(records, pa.int32()),
                binary_column(payloads),
            ],
            schema=BATCH_SCHEMA,
        )


def grouped(batches: Iterable[B], one_by_one: bool = False) -> Iterator[list[B]]:
    """Groups batches of some MiB together.

    Args:
        batches: taken one by one; each has a `payload`.
        one_by_one: a group for each, at once.
    """
    limit = 0 if one_by_one else _GROUP_BYTES
    group: list[B] = []
    size = 0
    for batch in batches:
        # A huge one goes alone, or there would be a second copy of it.
        if group and size + len(batch.payload) > 2 * limit:
            yield group
            group, size = [], 0
        group.append(batch)
        size += len(batch.payload)
        if size >= limit:
            yield group
            group, size = [], 0
    if group:
        yield group


def binary_column(payloads: tuple[Any, ...]) -> pa.Array:
    """A binary column; the only value of one is not copied.

    Args:
        payloads: bytes, each of less than 2 GiB.
    """
    if len(payloads) > 1:
        return pa.array(payloads, pa.binary())
    offsets = pa.array([0, len(payloads[0])], pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(payloads[0])])


def rows_of(frame: pa.RecordBatch, *names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of some columns, binary values as buffers that are no copies.

    Args:
        frame: has the columns.
        names: the columns' names.
    """
    columns = []
    for name in names:
        column = frame.column(name)
        if pa.types.is_integer(column.type):
            columns.append(column.to_pylist())
        else:
            columns.append([value.as_buffer() for value in column])
    return zip(*columns, strict=True)


def batches_in(frames: Iterable[pa.RecordBatch], channel: int | None) -> Iterator[Any]:
    """The payloads of the batches of a channel.

    Args:
        frames: record batches of `BATCH_SCHEMA`, taken one by one.
        channel: which channel; None for all of them.
    """
    rows = (
        (records, payload)
        for frame in frames
        for found, records, payload in rows_of(frame, "channel", "records", "batch")
        if channel is None or found == channel
    )
    for _, payload in whole(rows):
        yield payload


def first_value(frame: pa.RecordBatch, name: str) -> int:
    """The first row's value in an integer column.

    Args:
        frame: has at least one row.
        name: the column's name.
    """
    return int(frame.column(name)[0].as_py())


def peeked(
    frames: Iterator[pa.RecordBatch],
) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """The first record batch that has rows, and all of them.

    Args:
        frames: record batches, of which empty ones are left out.
    """
    filled = (frame for frame in frames if frame.num_rows)
    first = next(filled, None)
    return first, itertools.chain(() if first is None else (first,), filled)
