"""Uses of results that a program has itself, until they are written to the catalog."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock

from holdfast.catalog.profit import REFERENCES


@dataclass
class NotedUse:
    """The uses of one result that are not written yet.

    Attributes:
        times: how many there are.
        moments: when the last few of them were, ascending, by the monotonic clock.
        saved_seconds: about how much time they have saved, and some that are written already.
    """

    times: int = 0
    moments: deque[float] = field(default_factory=lambda: deque(maxlen=REFERENCES))
    saved_seconds: float = 0.0

    def ages(self) -> list[float]:
        """How long ago the last few of them were, in seconds, the latest last."""
        now = time.monotonic()
        return [now - moment for moment in self.moments]


class NotedUses:
    """Notes uses, so that a job that reads what its program has need not write to a database.

    What is not written yet is lost when the program crashes. Safe for use by several threads.

    >>> uses = NotedUses()
    >>> uses.note(7); uses.note(7)
    >>> taken = uses.take()
    >>> taken[7].times, uses.take()
    (2, {})
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._noted: dict[int, NotedUse] = {}

    def __bool__(self) -> bool:
        return bool(self._noted)

    def note(self, number: int) -> None:
        """A job reads a result.

        Args:
            number: of its record in the catalog.
        """
        with self._lock:
            noted = self._noted.setdefault(number, NotedUse())
            noted.times += 1
            noted.moments.append(time.monotonic())

    def saved(self, number: int, seconds: float) -> None:
        """A job has saved time by reading a result.

        Args:
            number: of its record in the catalog.
            seconds: about how much.
        """
        with self._lock:
            self._noted.setdefault(number, NotedUse()).saved_seconds += seconds

    def take(self) -> dict[int, NotedUse]:
        """What has been noted since the last time, by the numbers of results."""
        with self._lock:
            taken, self._noted = self._noted, {}
            return taken

    def put_back(self, unwritten: Mapping[int, NotedUse]) -> None:
        """What was taken could not be written.

        Args:
            unwritten: what `take` gave, or a part of it.
        """
        with self._lock:
            for number, earlier in unwritten.items():
                later = self._noted.get(number, NotedUse())
                moments = deque((*earlier.moments, *later.moments), maxlen=REFERENCES)
                self._noted[number] = NotedUse(
                    earlier.times + later.times,
                    moments,
                    earlier.saved_seconds + later.saved_seconds,
                )
