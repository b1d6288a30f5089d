"""Pinned datasets: what is being read where a removal leaves it, shared by all who read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from holdfast.storage.kept_dataset import KeptDataSet


@dataclass(slots=True)
class _Pin:
    dataset: KeptDataSet
    readers: int = 0
    retired: bool = False


class Pins:
    """Gives every reader of a dataset the same pinned one. Safe for use by several threads.

    It stays for the next reader until the dataset is removed: at the same path Spark needn't list
    and analyze the files again.

    Args:
        make: pins a dataset; None when that can't be done.
        whole: whether what is pinned is still as it was.
        remove: removes what is pinned.
    """

    def __init__(
        self,
        make: Callable[[KeptDataSet], KeptDataSet | None],
        whole: Callable[[KeptDataSet], bool],
        remove: Callable[[KeptDataSet], None],
    ) -> None:
        self._make = make
        self._whole = whole
        self._remove = remove
        self._lock = Lock()
        self._of_dataset: dict[str, _Pin] = {}
        self._by_place: dict[str, _Pin] = {}

    def pin(self, kept: KeptDataSet) -> KeptDataSet | None:
        """What to read instead of a dataset, until it is given to `unpin`."""
        if kept.name is None:
            return None
        with self._lock:
            pin = self._of_dataset.get(kept.name)
            if pin is not None and not self._whole(pin.dataset):
                self._retire(kept.name)
                pin = None
            if pin is None:
                pinned = self._make(kept)
                if pinned is None:
                    return None
                pin = _Pin(pinned)
                self._of_dataset[kept.name] = self._by_place[pinned.directories[0]] = pin
            pin.readers += 1
            return pin.dataset

    def unpin(self, pinned: KeptDataSet) -> None:
        """A reader has finished."""
        with self._lock:
            pin = self._by_place[pinned.directories[0]]
            pin.readers -= 1
            self._clear(pin)

    def retire(self, name: str) -> None:
        """A dataset has been removed: who reads it reads on, and nobody else begins to.

        Args:
            name: the dataset's.
        """
        with self._lock:
            self._retire(name)

    def _retire(self, name: str) -> None:
        pin = self._of_dataset.pop(name, None)
        if pin is not None:
            pin.retired = True
            self._clear(pin)

    def _clear(self, pin: _Pin) -> None:
        if pin.retired and pin.readers == 0:
            del self._by_place[pin.dataset.directories[0]]
            self._remove(pin.dataset)
