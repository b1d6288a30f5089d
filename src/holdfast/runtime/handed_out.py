"""What plans read that have been handed out to where their jobs aren't seen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack

_LATER_S = 0.3


class HandedOutReads:
    """Holds what each handed-out plan reads, until nobody has that plan. Safe for several threads.

    Args:
        collected: the names of the plans that nobody has any more; each one once. Asked to be
            thorough, it finds also those that nobody has looked for yet.
    """

    def __init__(self, collected: Callable[[bool], Iterable[str]]) -> None:
        self._collected = collected
        self._lock = threading.RLock()
        self._held: dict[str, ExitStack] = {}

    def hold(self, name: str, held: ExitStack) -> None:
        """Holds leases and pins until the plan of this name is gone."""
        with self._lock:
            self._held[name] = held

    def release_collected(self, *, thorough: bool = False) -> None:
        """Releases what was held for plans that nobody has any more.

        Args:
            thorough: takes time to look for them.
        """
        if self._held:
            self._release(self._collected(thorough))
        if thorough and self._held:
            # On a busy machine the engine may have been told of what was dropped a little later.
            time.sleep(_LATER_S)
            self._release(self._collected(True))

    def close(self) -> None:
        """Releases everything, whoever still has its plan."""
        self._release(list(self._held))

    def _release(self, names: Iterable[str]) -> None:
        with self._lock:
            released = [self._held.pop(name) for name in names if name in self._held]
        for each in released:
            each.close()
