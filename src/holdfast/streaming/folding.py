"""Folds values by key in bounded memory: what is too much goes to disk and comes back by parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.record_pickling import RecordPickler
from holdfast.streaming.spill_files import KeyedParts, SpilledPartition, SpillFiles

__all__ = ["Fold", "Grouping", "Merging", "folded"]

_DEEPEST = 4
_VALUES_OF_A_PART = 16


class Fold(ABC):
    """What becomes of the values of a key."""

    @abstractmethod
    def add(self, held: dict[Any, Any], keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Adds values.

        Args:
            held: what became of values so far, by key.
            keys: the values' keys.
            values: a value for each.
        """

    @abstractmethod
    def add_spilled(self, held: dict[Any, Any], keys: Iterable[Any], parts: Iterable[Any]) -> None:
        """Adds what became of values elsewhere, later than what is held.

        Args:
            held: what became of values so far, by key.
            keys: the parts' keys.
            parts: what became of values, for each key.
        """

    @abstractmethod
    def parts(self, held: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """What is held, in parts that are small enough to be written one by one.

        Args:
            held: what became of values, by key.
        """

    @abstractmethod
    def whole(self, partition: SpilledPartition) -> Iterator[Any] | None:
        """The values of the only key of a spilled partition; None if they can just be added up.

        Args:
            partition: has a single key.
        """


class Merging(Fold):
    """Two by two.

    Args:
        combine: makes one value of two.
    """

    def __init__(self, combine: Callable[[Any, Any], Any]) -> None:
        self._combine = combine

    def add(self, held: dict[Any, Any], keys: Iterable[Any], values: Iterable[Any]) -> None:
        combine = self._combine
        for key, value in zip(keys, values, strict=True):
            held[key] = combine(held[key], value) if key in held else value

    def add_spilled(self, held: dict[Any, Any], keys: Iterable[Any], parts: Iterable[Any]) -> None:
        self.add(held, keys, parts)

    def parts(self, held: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        return iter(held.items())

    def whole(self, partition: SpilledPartition) -> None:
        return None


class Grouping(Fold):
    """All values in order: a list, or an iterator where they are too many."""

    def add(self, held: dict[Any, Any], keys: Iterable[Any], values: Iterable[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            if key in held:
                held[key].append(value)
            else:
                held[key] = [value]

    def add_spilled(self, held: dict[Any, Any], keys: Iterable[Any], parts: Iterable[Any]) -> None:
        for key, part in zip(keys, parts, strict=True):
            if key in held:
                held[key].extend(part)
            else:
                held[key] = part

    def parts(self, held: dict[Any, Any]) -> Iterator[tuple[Any, Any]]:
        for key, values in held.items():
            for start in range(0, len(values), _VALUES_OF_A_PART):
                yield key, values[start : start + _VALUES_OF_A_PART]

    def whole(self, partition: SpilledPartition) -> Iterator[Any]:
        return (value for _, parts in partition.parts() for part in parts for value in part)


def folded(
    batches: Iterable[KeyedParts], fold: Fold, gauge: MemoryGauge, pickler: RecordPickler
) -> Iterator[tuple[Any, Any]]:
    """Folds values by key.

    Args:
        batches: keys, and a value for each.
        fold: what becomes of the values of a key.
        gauge: tells when what is held has to go to disk.
        pickler: makes pickles for that.

    Yields:
        each key once, with what became of all its values.
    """
    return _folded(batches, fold, fold.add, gauge, pickler, 0)


def _folded(
    batches: Iterable[KeyedParts],
    fold: Fold,
    add: Callable[[dict[Any, Any], Iterable[Any], Iterable[Any]], None],
    gauge: MemoryGauge,
    pickler: RecordPickler,
    level: int,
) -> Iterator[tuple[Any, Any]]:
    held: dict[Any, Any] = {}
    spilled: SpillFiles | None = None
    try:
        for keys, values in batches:
            add(held, keys, values)
            if level < _DEEPEST and gauge.exceeded():
                spilled = spilled or SpillFiles(pickler, level)
                spilled.write(fold.parts(held))
                held.clear()
                gauge.relieved()
        if spilled is None:
            for key in list(held):
                yield key, held.pop(key)
            return
        spilled.write(fold.parts(held))
        held.clear()
        gauge.relieved()
        for partition in spilled.partitions():
            for key in partition.only_keys:
                values_of_key = fold.whole(partition)
                if values_of_key is not None:
                    yield key, values_of_key
                    break
            else:
                yield from _folded(
                    partition.parts(), fold, fold.add_spilled, gauge, pickler, level + 1
                )
    finally:
        if spilled is not None:
            spilled.close()
