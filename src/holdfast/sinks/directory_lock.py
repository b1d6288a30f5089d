"""One publisher at a time in a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.files.file_lock import try_lock

__all__ = ["locked"]


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
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            is_held = try_lock(descriptor, patience_seconds=patience_seconds)
        except OSError:
            is_held = False
        yield is_held
    finally:
        os.close(descriptor)
