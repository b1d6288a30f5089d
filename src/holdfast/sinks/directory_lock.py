"""One publisher at a time in a directory."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["locked"]

_PAUSE_SECONDS = 0.01


@contextmanager
def locked(directory: Path, patience_seconds: float) -> Iterator[bool]:
    """Holds a lock on a directory, which goes with the process, and leaves no file behind.

    Args:
        directory: the directory.
        patience_seconds: how long to wait for whoever holds it, who may be stopped for ever.

    Returns:
        Whether the lock is held; not after that time, nor where the file system has no locks.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     with locked(Path(home), 0) as first, locked(Path(home), 0) as second:
    ...         first, second
    (True, False)
    """
    until = time.monotonic() + patience_seconds
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while not (is_held := _try(descriptor)) and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        yield is_held
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
