"""PickledCollection: the records of a program's own collection, and what they are made of."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

from pyspark import cloudpickle

from holdfast.errors import RecordNotSerializableError
from holdfast.streaming.batch_size import BatchSize
from holdfast.streaming.record_pickling import unpickled

__all__ = ["PickledCollection", "pickled_collection"]

_PROTOCOL = 5


@dataclass(frozen=True)
class PickledCollection:
    """Reads splits that are pickles of records.

    Args:
        reached: the classes and functions that the pickles refer to by name. Their code counts for
            a digest, since the bytes of a pickle say only what they are called.
    """

    reached: tuple[Any, ...] = ()

    def read(self, split: tuple[bytes, ...]) -> Iterator[Any]:
        """The records of a split.

        Args:
            split: payloads.
        """
        for payload in split:
            yield from unpickled(payload)


def pickled_collection(
    items: Iterable[Any], splits: int, name: str
) -> tuple[PickledCollection, tuple[tuple[bytes, ...], ...]]:
    """Pickles records for the subtasks of a source.

    Args:
        items: the records; taken once.
        splits: how many splits to make, each of which gets its run of the records.
        name: the source's name.

    Returns:
        what reads the splits, and the splits. Pickled again, the very same records give the
        same bytes.

    Raises:
        RecordNotSerializableError: when a record can't be pickled.

    >>> reader, splits = pickled_collection([1, None, "a"], 2, "Collection")
    >>> [list(reader.read(split)) for split in splits]
    [[1], [None, 'a']]
    """
    records = list(items)
    reached: dict[int, Any] = {}
    bounds = [len(records) * number // splits for number in range(splits + 1)]
    made = tuple(
        tuple(_payloads(records[start:end], name, reached))
        for start, end in itertools.pairwise(bounds)
    )
    return PickledCollection(tuple(reached.values())), made


def _payloads(records: list[Any], name: str, reached: dict[int, Any]) -> Iterator[bytes]:
    size = BatchSize()
    remaining = iter(records)
    # Not by the time that it takes, or the bytes would not be the same again.
    while taken := list(itertools.islice(remaining, size.records)):
        try:
            payload = _dumps(taken, reached)
        except Exception:
            payload = _dumps_each(taken, name, reached)
        size.learn(len(taken), len(payload))
        yield payload


def _dumps(records: list[Any], reached: dict[int, Any]) -> bytes:
    buffer = io.BytesIO()
    _ReachingPickler(buffer, reached).dump(records)
    return buffer.getvalue()


def _dumps_each(records: list[Any], name: str, reached: dict[int, Any]) -> bytes:
    for record in records:
        try:
            _dumps([record], reached)
        except Exception as error:
            kind = type(record)
            raise RecordNotSerializableError(
                name,
                f"{kind.__module__}.{kind.__qualname__}",
                f"{type(error).__name__}: {error}",
            ) from error
    return _dumps(records, reached)


class _ReachingPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what workers can't import, and notes what it refers to by name."""

    def __init__(self, file: io.BytesIO, reached: dict[int, Any]) -> None:
        super().__init__(file, _PROTOCOL)
        self._reached = reached

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            self._reached.setdefault(id(value), value)
        return super().reducer_override(value)
