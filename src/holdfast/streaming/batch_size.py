"""How many records make a batch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["BatchSize", "take"]

_TARGET_BYTES = 256 << 10
_MOST_RECORDS = 1 << 14
_LONGEST_STEP = 16
_PATIENCE_S = 0.1


class BatchSize:
    """Learns from each batch how many records the next one should have.

    The first has one record, and no batch has more than twice as many as the one before: an endless
    source isn't asked for more than about twice of what is taken, and few huge records come
    together.

    Args:
        target_bytes: about how large a batch's pickle should be.
    """

    def __init__(self, target_bytes: int = _TARGET_BYTES) -> None:
        self._target = target_bytes
        self.records = 1

    def learn(self, records: int, size: int) -> None:
        """Takes a batch into account.

        Args:
            records: how many it had.
            size: the bytes of its pickle.
        """
        fitting = records * self._target // max(size, 1)
        self.records = max(1, min(fitting, 2 * self.records, _MOST_RECORDS))


def take(records: Iterator[Any], count: int) -> list[Any]:
    """Takes some records, fewer than asked for if they come slowly.

    What takes long to make may be large, and somebody may be waiting for it.

    Args:
        records: what to take from.
        count: at most how many.

    Returns:
        no records only at the end.
    """
    taken = list(itertools.islice(records, 1))
    step = 2
    until = time.perf_counter() + _PATIENCE_S
    while (before := len(taken)) < count and time.perf_counter() < until:
        taken.extend(itertools.islice(records, min(step, count - before)))
        if len(taken) == before:
            break
        step = min(2 * step, _LONGEST_STEP)
    return taken
