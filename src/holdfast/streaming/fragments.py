"""Huge batches travel and are kept in several rows, each small enough for the JVM to hold many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["FRAGMENT_BYTES", "fragmented", "whole"]

FRAGMENT_BYTES = 4 << 20

B = TypeVar("B", bound=Any)


def fragmented(batches: Iterable[B]) -> Iterator[B]:
    """Batches of which none is huge.

    Args:
        batches: taken one by one; named tuples with `records` and `payload`.

    Yields:
        the batches, huge ones in fragments that follow each other: `records` of each tells by a
        negative number how many are still to come, that of the last one is the batch's own.
    """
    for batch in batches:
        size = len(batch.payload)
        if size <= FRAGMENT_BYTES:
            yield batch
            continue
        payload = memoryview(batch.payload)
        left = -(-size // FRAGMENT_BYTES)
        for start in range(0, size, FRAGMENT_BYTES):
            left -= 1
            part = payload[start : start + FRAGMENT_BYTES]
            yield batch._replace(records=-left if left else batch.records, payload=part)


def whole(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Batches out of their fragments.

    Args:
        rows: `records` and payload of each row, and whatever follows them; taken one by one.

    Yields:
        the same of each batch, the rest of the row being that of its last fragment.

    Raises:
        ValueError: when a fragment is missing.

    >>> list(whole([(1, b"a"), (-1, b"b"), (3, b"c")]))
    [(1, b'a'), (3, b'bc')]
    >>> list(whole([(-2, b"b"), (3, b"c")]))
    Traceback (most recent call last):
    ...
    ValueError: 2 more fragments of a batch expected
    """
    parts: list[Any] = []
    left = 0
    for records, payload, *rest in rows:
        if left and not (records >= 0 if left == 1 else records == 1 - left):
            break
        if records < 0:
            parts.append(payload)
            left = -records
            continue
        if parts:
            payload = b"".join([*parts, payload])
            parts.clear()
            left = 0
        yield (records, payload, *rest)
    if left:
        raise ValueError(f"{left} more fragments of a batch expected")
