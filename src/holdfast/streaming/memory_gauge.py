"""MemoryGauge: tells when a worker holds so much that some of it has to go elsewhere."""

from __future__ import annotations

import os
import resource
import sys

__all__ = ["DEFAULT_MEMORY_LIMIT", "MemoryGauge", "memory_in_use"]

DEFAULT_MEMORY_LIMIT = 512 << 20
"""Bytes; as `spark.python.worker.memory`."""

_STATM = "/proc/self/statm"
_HAS_STATM = os.path.exists(_STATM)
_PAGE_BYTES = resource.getpagesize()
# What macOS counts in bytes, others count in KiB.
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024
_GROWTH_ALLOWED = 1.05
_LONGEST_STRIDE = 1 << 16


def memory_in_use() -> int:
    """The resident memory of this process in bytes, or its peak where only that can be known."""
    if _HAS_STATM:
        with open(_STATM, "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


class MemoryGauge:
    """Tells whether this process has more memory than it should.

    Args:
        limit: how much it should have at most, in bytes; with 0, it always has more.
    """

    def __init__(self, limit: int = DEFAULT_MEMORY_LIMIT) -> None:
        self._configured = limit
        self._limit: float = limit
        self._last = memory_in_use()
        self.stride = 1
        """After how many more records to ask again."""

    def exceeded(self) -> bool:
        """Whether it is time to let go of something."""
        if self._configured == 0:
            return True
        used = memory_in_use()
        if used > self._limit:
            self.stride = 1
            return True
        grown, self._last = used - self._last, used
        longest = min(2 * self.stride, _LONGEST_STRIDE)
        if grown > 0:
            # Half of the way to the limit, if records go on as they did.
            longest = min(longest, int(self.stride * (self._limit - used) / (2 * grown)))
        self.stride = max(1, longest)
        return False

    def relieved(self) -> None:
        """To be called after something has been let go of.

        What Python doesn't give back to the system does not count again.
        """
        self._last = memory_in_use()
        self._limit = max(self._configured, self._last * _GROWTH_ALLOWED)
