"""A reader that lists a directory all the time, and remembers all that it has seen there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.rows import is_visible

_SECONDS_BETWEEN_LOOKS = 0.002
_SHARE_OF_TIME = 4
"""A look that takes long is followed by a pause of so many times its length."""

Listing = frozenset[tuple[str, int, int]]
"""The path, inode and size of each file of data."""


@dataclass(frozen=True)
class Sighting:
    """What was seen at one time."""

    time: float
    files: Path


class WatchingReader:
    """Lists a directory until it is stopped, as a query does that starts at any moment.

    A listing counts where the path named the same directory before and after it: a query that
    lists a directory which is moved away meanwhile lists again.
    """

    def __init__(self, target: Path, home: Path) -> None:
        self._target = target
        self._home = home
        self._last: Listing | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watching-reader", daemon=True)
        self.sightings: list[Sighting] = []
        self.looks = 0

    def __enter__(self) -> WatchingReader:
        self._home.mkdir(parents=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        seconds = 0.0
        while not self._stopped.wait(max(_SECONDS_BETWEEN_LOOKS, _SHARE_OF_TIME * seconds)):
            started = time.monotonic()
            self._look()
            seconds = time.monotonic() - started

    def _look(self) -> None:
        self.looks += 1
        with _opened(self._target) as descriptor:
            try:
                listing = _listing(descriptor)
                if listing == self._last or not self._is_at_target(descriptor):
                    return
                files = self._home / f"look-{self.looks}"
                _link(descriptor, listing, files)
                if _listing(descriptor) != listing or not self._is_at_target(descriptor):
                    return
            except FileNotFoundError:
                # It was being removed, or changed: the next look shows it.
                return
        self._last = listing
        self.sightings.append(Sighting(time.time(), files))

    def _is_at_target(self, descriptor: int | None) -> bool:
        try:
            found = os.stat(self._target)
        except FileNotFoundError:
            return descriptor is None
        return descriptor is not None and os.path.samestat(found, os.fstat(descriptor))


@contextmanager
def _opened(directory: Path) -> Iterator[int | None]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _listing(descriptor: int | None) -> Listing:
    if descriptor is None:
        return frozenset()
    found = set()
    for folder, folders, names, within in os.fwalk(".", dir_fd=descriptor):
        folders[:] = [name for name in folders if is_visible(name)]
        for name in filter(is_visible, names):
            status = os.stat(name, dir_fd=within)
            found.add((os.path.join(folder, name), status.st_ino, status.st_size))
    return frozenset(found)


def _link(descriptor: int | None, listing: Listing, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for path, _, _ in listing:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target / path, src_dir_fd=descriptor)
