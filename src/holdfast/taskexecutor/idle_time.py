"""For how long nothing has happened in a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path

_Trace = tuple[int, int, int]


class IdleTimes:
    """Tells for how long directories have looked the same, by a clock that never goes back.

    Modification times are compared with each other alone: whatever wall clock made them, a
    directory that doesn't change grows older.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[Path, tuple[_Trace, float]] = {}

    def of(self, directory: Path) -> float:
        """Seconds since something changed in a directory; 0 when it is seen the first time."""
        now = self._clock()
        trace = _trace(directory)
        known = self._seen.get(directory)
        if known is None or known[0] != trace:
            self._seen[directory] = (trace, now)
            return 0.0
        return now - known[1]

    def keep_only(self, directories: Collection[Path]) -> None:
        """Forgets all others."""
        kept = set(directories)
        self._seen = {path: seen for path, seen in self._seen.items() if path in kept}


def _trace(root: Path) -> _Trace:
    """What differs as soon as something is written, made or removed below."""
    newest = count = size = 0
    waiting = [os.fspath(root)]
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path)
            count += 1
            size += status.st_size
            newest = max(newest, status.st_mtime_ns)
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(path) as entries:
                    waiting.extend(entry.path for entry in entries)
        except OSError:
            # It went while it was looked at, which is a change as well.
            continue
    return newest, count, size
