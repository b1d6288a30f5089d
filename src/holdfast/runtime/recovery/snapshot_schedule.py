"""When a coordinator's snapshot is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

MIN_PAUSE = timedelta(minutes=3)
"""`execution.batch.job-recovery.operator-coordinator-snapshot.min-pause`."""


class SnapshotSchedule:
    """When a coordinator's snapshot is due: the first at once, others after a pause.

    Args:
        min_pause: how long at least between two.
        clock: the time in seconds, which never goes back.

    Source: FLIP-383, `execution.batch.job-recovery.operator-coordinator-snapshot.min-pause`.

    >>> now = 0.0
    >>> schedule = SnapshotSchedule(timedelta(minutes=3), lambda: now)
    >>> schedule.is_due()
    True
    >>> schedule.taken()
    >>> schedule.is_due()
    False
    >>> now = 180.0
    >>> schedule.is_due()
    True
    """

    def __init__(self, min_pause: timedelta, clock: Callable[[], float]) -> None:
        self._pause = min_pause.total_seconds()
        self._clock = clock
        self._next: float | None = None

    def is_due(self) -> bool:
        """Whether the pause is over."""
        return self._next is None or self._clock() >= self._next

    def taken(self) -> None:
        """A snapshot has been taken now: the pause begins."""
        self._next = self._clock() + self._pause
