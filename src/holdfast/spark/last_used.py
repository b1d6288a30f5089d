"""A memory of a few objects, each for as long as it exists."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K")
V = TypeVar("V")


class LastUsed(Generic[K, V]):
    """Values by objects, for those used last. Safe for use by several threads.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.RLock()
        self._values: WeakKeyDictionary[K, V] = WeakKeyDictionary()

    def get(self, key: K) -> V | None:
        """The value of an object, which is the last one used from now on."""
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
            return value

    def set(self, key: K, value: V) -> None:
        """Remembers a value, and forgets the one that was used longest ago."""
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            while len(self._values) > self._most:
                del self._values[next(iter(self._values.keys()))]

    def forget(self, key: K) -> None:
        """Forgets an object's value, if there is one."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forgets all."""
        with self._lock:
            self._values.clear()
