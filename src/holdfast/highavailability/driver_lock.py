"""How a living driver is told from a dead one.

A lock of the operating system, which goes with the process, however it ends; a process that is
merely stopped holds it. It is a hint: nothing that keeps an old driver from doing harm relies on
it.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.files.file_lock import try_lock

_LOOKED_AT_SECONDS = 1.0

logger = logging.getLogger(__name__)


class DriverLock:
    """Holds a file for as long as this process lives, or until it is let go of.

    Args:
        path: the file; where it can't be locked, that is noted and nothing else.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor: int | None = None
        _held.add(self)
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            logger.debug("can't lock %s: %s", path, error)
            return
        # Whoever looks whether it is held holds it for the moment of looking.
        _lock(self._descriptor, _LOOKED_AT_SECONDS)

    def release(self) -> None:
        """Lets go of the file. Does nothing the second time."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


_held: weakref.WeakSet[DriverLock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    # A child that was forked off may outlive the driver. Closed, its parent still holds the file.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go_in_child)


def is_held(path: Path) -> bool:
    """Whether somebody holds a file, in this process or another; also where that can't be told."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Shared, and let go of at once.
        return not try_lock(descriptor, shared=True)
    except OSError:
        return True
    finally:
        os.close(descriptor)


@contextmanager
def one_at_a_time(path: Path, patience_seconds: float) -> Iterator[None]:
    """Keeps several processes from getting into each other's way, as far as they are awake.

    Args:
        path: the file that each of them holds meanwhile; it is made when it isn't there.
        patience_seconds: after that somebody who is stopped is waited for no longer.

    Raises:
        OSError: when the file can't be made.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _lock(descriptor, patience_seconds)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience_seconds: float) -> None:
    try:
        try_lock(descriptor, patience_seconds=patience_seconds)
    except OSError as error:
        logger.debug("this file system does not support locks: %s", error)
