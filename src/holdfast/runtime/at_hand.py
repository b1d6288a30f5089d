"""Other programs' results that a job has just read, and the next one may want to."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import RLock

from holdfast.storage.kept_dataset import KeptDataSet

_SECONDS = 30.0


class AtHand:
    """Datasets that nobody reads at this moment. Safe for use by several threads.

    Args:
        seconds: how long each stays after it was read.
        clock: the time in seconds; it never goes back.

    >>> AtHand().take(1) is None
    True
    """

    def __init__(
        self, seconds: float = _SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = RLock()
        self._lying: dict[int, tuple[float, KeptDataSet]] = {}

    def put(self, number: int, kept: KeptDataSet) -> KeptDataSet | None:
        """Keeps a dataset at hand.

        Args:
            number: of the other program's result.
            kept: where it lies in this program.

        Returns:
            another one of that result, which is not needed any more.
        """
        with self._lock:
            before = self._lying.get(number)
            self._lying[number] = (self._clock() + self._seconds, kept)
        return None if before is None else before[1]

    def take(self, number: int) -> KeptDataSet | None:
        """The dataset of a result, for whoever reads it now."""
        with self._lock:
            found = self._lying.pop(number, None)
        return None if found is None else found[1]

    def expired(self, *, all_of_them: bool = False) -> dict[int, KeptDataSet]:
        """Takes out those that have not been read for so long.

        Args:
            all_of_them: also those that have.
        """
        with self._lock:
            now = self._clock()
            old = [
                number for number, (until, _) in self._lying.items() if all_of_them or until <= now
            ]
            return {number: self._lying.pop(number)[1] for number in old}
