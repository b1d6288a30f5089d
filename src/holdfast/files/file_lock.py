"""Locks of the operating system on files, which go with the process, however it ends."""

from __future__ import annotations

import fcntl
import time

_POLL_SECONDS = 0.01


def try_lock(descriptor: int, *, shared: bool = False, patience_seconds: float = 0.0) -> bool:
    """Locks an open file, unless somebody else holds it.

    Args:
        descriptor: of the file; it is let go of when that is closed.
        shared: several may hold it so at once.
        patience_seconds: how long to wait for whoever holds it, who may be stopped for ever.

    Returns:
        whether it is locked.

    Raises:
        OSError: when the file system has no locks.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as first, open(first.name) as second:
    ...     try_lock(first.fileno()), try_lock(second.fileno(), shared=True)
    (True, False)
    """
    end = time.monotonic() + patience_seconds
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
        time.sleep(_POLL_SECONDS)
