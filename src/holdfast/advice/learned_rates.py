"""How fast kept rows are written and read, as far as queries have told."""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque

from holdfast.advice.proposal import AS_IN_FILES, StorageRates
from holdfast.advice.storage_use import StorageUse
from holdfast.last_used import put

# The last ones that count.
_MOST = 9
# Fewer are chance.
_LEAST = 3
# What a query took is told apart by estimates: no rate is farther from the assumed one.
_FARTHEST = 4.0
_MOST_PARTS = 1_000


class LearnedRates:
    """Learns how fast kept rows are written and read. Not safe for use by several threads.

    Each is the median of the last times, and what is assumed until there are some. What certain
    rows have taken to be read counts for these more than any rate.

    Args:
        assumed: rates that nobody has measured.

    Source: FLIP-36, "Long Term Goal": a cached result is used only where that is cheaper.

    >>> rates = LearnedRates(StorageRates(written=10.0, read=30.0))
    >>> for _ in range(3):
    ...     rates.noted(StorageUse("join", False, bytes=100, seconds=5.0, computing=9.0))
    >>> rates.rates.read, rates.rates.written
    (20.0, 10.0)
    >>> rates.seconds_to_read("join", 200), rates.seconds_to_read("other", 200)
    (10.0, 10.0)
    """

    def __init__(self, assumed: StorageRates = AS_IN_FILES) -> None:
        self._assumed = assumed
        self._written: deque[float] = deque(maxlen=_MOST)
        self._read: deque[float] = deque(maxlen=_MOST)
        self._of_parts: OrderedDict[str, deque[float]] = OrderedDict()

    def noted(self, use: StorageUse) -> None:
        """Rows have been read, or written.

        Args:
            use: what that took.
        """
        if use.bytes <= 0:
            return
        assumed = self._assumed.written if use.is_write else self._assumed.read
        slowest, fastest = assumed / _FARTHEST, assumed * _FARTHEST
        rate = fastest if use.seconds <= 0 else use.bytes / use.seconds
        rate = min(max(rate, slowest), fastest)
        if use.is_write:
            self._written.append(rate)
            return
        self._read.append(rate)
        times = self._of_parts.get(use.key, deque(maxlen=_MOST))
        times.append(1 / rate)
        put(self._of_parts, use.key, times, _MOST_PARTS)

    @property
    def rates(self) -> StorageRates:
        """What rows of whatever part are written and read with."""
        return StorageRates(
            written=_median(self._written, self._assumed.written),
            read=_median(self._read, self._assumed.read),
        )

    def seconds_to_read(self, key: str, size: int) -> float:
        """What it takes to read a part's rows, in seconds of tasks.

        Args:
            key: of the part, see `PlanPart`.
            size: how many bytes of them.
        """
        times = self._of_parts.get(key, ())
        if len(times) >= _LEAST:
            return statistics.median(times) * size
        return size / self.rates.read


def _median(found: deque[float], assumed: float) -> float:
    return statistics.median(found) if len(found) >= _LEAST else assumed
