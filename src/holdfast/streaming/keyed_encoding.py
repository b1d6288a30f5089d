"""Records become batches that go to where their keys are at home."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.errors import StreamTaskError
from holdfast.streaming.batch_size import BatchSize
from holdfast.streaming.batches import MAIN_CHANNEL, Batch
from holdfast.streaming.key_selection import check_key, targets_of
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.record_pickling import RecordPickler
from holdfast.streaming.user_functions import failure

__all__ = ["KeyedEncoder"]

_BATCH_BYTES = 256 << 10
_ALL_TARGETS_BYTES = 16 << 20
_TARGETS_KNOWN = 1 << 16


class KeyedEncoder:
    """Makes batches of keys and values, each for one target.

    Args:
        operator: the name of the operator that works by keys.
        targets: how many targets there are.
    """

    def __init__(self, operator: str, targets: int) -> None:
        self._operator = operator
        self._targets = targets
        self._pickler = RecordPickler(operator)
        self._size = BatchSize(min(_BATCH_BYTES, max(1, _ALL_TARGETS_BYTES // targets)))

    def combined(self, parts: Iterable[dict[Any, Any]]) -> Iterator[Batch]:
        """Batches of records that have been combined by key.

        Args:
            parts: records by their keys, taken one by one.

        Raises:
            InvalidKeyError: when a key has no hash that is the same in all processes.
        """
        for part in parts:
            keys: list[list[Any]] = [[] for _ in range(self._targets)]
            for key, target in zip(
                part, targets_of(part, self._targets, self._operator), strict=True
            ):
                keys[target].append(key)
            for target, own in enumerate(keys):
                start = 0
                while start < len(own):
                    some = own[start : start + self._size.records]
                    start += len(some)
                    yield from self._batches(target, some, [part.pop(key) for key in some])

    def one_by_one(
        self, records: Iterator[Any], key_of: Callable[[Any], Any], gauge: MemoryGauge
    ) -> Iterator[Batch]:
        """Batches of single records with their keys, in their order.

        Args:
            records: what comes in.
            key_of: tells the key of a record.
            gauge: tells when what waits is too much.

        Raises:
            InvalidKeyError: when a key can't be hashed, or not alike in all processes.
        """
        keys: list[list[Any]] = [[] for _ in range(self._targets)]
        values: list[list[Any]] = [[] for _ in range(self._targets)]
        known: dict[Any, int] = {}
        key = None
        waiting = 0
        try:
            for record in records:
                key = key_of(record)
                target = known.get(key)
                if target is None:
                    target = targets_of((key,), self._targets, self._operator)[0]
                    if len(known) >= _TARGETS_KNOWN:
                        known.clear()
                    known[key] = target
                own = values[target]
                own.append(record)
                keys[target].append(key)
                if len(own) >= self._size.records:
                    yield from self._batches(target, keys[target], own)
                    keys[target], values[target] = [], []
                waiting += 1
                if waiting > gauge.stride:
                    waiting = 0
                    if gauge.exceeded():
                        for target, own in enumerate(values):
                            yield from self._batches(target, keys[target], own)
                            keys[target], values[target] = [], []
                        gauge.relieved()
        except StreamTaskError:
            raise
        except Exception as error:
            check_key(key, self._operator)
            raise failure(self._operator, error) from error
        for target, own in enumerate(values):
            yield from self._batches(target, keys[target], own)

    def _batches(self, target: int, keys: list[Any], values: list[Any]) -> Iterator[Batch]:
        if not keys:
            return
        for count, payload in self._pickler.keyed_payloads(keys, values):
            self._size.learn(count, len(payload))
            yield Batch(MAIN_CHANNEL, target, count, payload)
