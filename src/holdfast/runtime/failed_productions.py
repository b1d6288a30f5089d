"""Keeps a result that can't be computed, or kept, from being tried again by each job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdfast.ids import IntermediateDataSetID

_TIMES = 10


class FailedProductions:
    """Says when a production that failed may be tried again. Safe for several threads.

    A query may have an answer although a part of it, computed alone, has none, or can't be written,
    as the disk is full; so each of its jobs would compute that part in vain. It is tried again
    after ten times as long as that took, so that jobs take a tenth longer for it and not twice as
    long.

    Args:
        clock: gives seconds since any moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._waiting: dict[IntermediateDataSetID, float] = {}

    def add(self, dataset_id: IntermediateDataSetID, seconds: float) -> None:
        """Notes one that failed in a job that had an answer.

        Args:
            dataset_id: what was to be kept.
            seconds: how long it took to fail.
        """
        with self._lock:
            self._waiting[dataset_id] = self._clock() + _TIMES * seconds

    def may_be_tried(self, dataset_id: IntermediateDataSetID) -> bool:
        """Whether it didn't fail, or long ago."""
        with self._lock:
            if self._waiting.get(dataset_id, 0.0) > self._clock():
                return False
            self._waiting.pop(dataset_id, None)
            return True
