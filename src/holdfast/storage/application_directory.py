"""A directory that belongs to one running application, and goes with it.

The owner holds a lock on a file in it, which the operating system drops when the process ends,
however it ends. A directory whose lock nobody holds is garbage that the next start removes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import threading
import time
import uuid
import weakref
from pathlib import Path
from typing import IO

from holdfast.errors import StorageError

_LOCK = "lock"
_APPLICATION = "application-"
_BEING_MADE = ".new-"
_REMOVED = ".removed-"
# Nothing else under the root is ours, whatever it is called.
_OURS = re.compile(r"(application-|\.new-|\.removed-)[0-9a-f]{32}")
# A directory that is still being made belongs to somebody who has not yet taken its lock.
_GRACE_SECONDS = 60.0

logger = logging.getLogger(__name__)


class ApplicationDirectory:
    """Creates the application's directory under `root` and removes those of dead applications.

    Args:
        root: the directory that applications share; it is created, readable by its owner alone.

    Raises:
        StorageError: when the directory can't be made or isn't safe to use.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_a_strangers(root)
            remove_garbage(root)
            self._made = [_create(root)]
        except OSError as error:
            raise StorageError(str(root), f"can't be used to keep results: {error}") from error
        self._making = threading.Lock()
        self._closed = False
        self._release = weakref.finalize(self, _release, self._made, os.getpid())

    def path(self) -> Path:
        """The application's own directory; another one when somebody has removed the last.

        Raises:
            OSError: when a new one is needed and can't be made, or this one has been closed.
        """
        with self._making:
            if self._closed:
                raise FileNotFoundError(f"{self._made[-1][0]} has been closed")
            path, _ = self._made[-1]
            if not (path / _LOCK).exists():
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._made.append(_create(self.root))
            return self._made[-1][0]

    def close(self) -> None:
        """Removes the directory and everything in it. Does nothing the second time."""
        with self._making:
            self._closed = True
        self._release()


def _refuse_a_strangers(root: Path) -> None:
    # Under a shared temporary directory anybody could have made it first.
    if root.stat().st_uid != os.getuid():
        raise PermissionError(f"{root} belongs to another user")


def _create(root: Path) -> tuple[Path, IO[bytes]]:
    name = uuid.uuid4().hex
    making = root / f"{_BEING_MADE}{name}"
    making.mkdir(mode=0o700)
    lock = (making / _LOCK).open("wb")
    # Waits: whoever looks for garbage may hold it for the moment of looking.
    fcntl.flock(lock, fcntl.LOCK_EX)
    path = root / f"{_APPLICATION}{name}"
    making.rename(path)
    return path, lock


def _release(made: list[tuple[Path, IO[bytes]]], owner: int) -> None:
    # A child process that was forked off inherits this finalizer, but not the directory.
    if os.getpid() != owner:
        return
    for path, lock in made:
        _remove(path)
        lock.close()


def remove_garbage(root: Path) -> list[Path]:
    """Removes the directories under `root` whose applications have ended.

    Returns:
        what was removed.
    """
    removed = []
    for path in sorted(root.iterdir()):
        if _OURS.fullmatch(path.name) and _is_abandoned(path):
            _remove(path)
            removed.append(path)
            logger.info("removed %s, left behind by an application that has ended", path)
    return removed


def _remove(path: Path) -> None:
    # Renamed first: what is half removed must not look like an application's.
    going = path.with_name(_REMOVED + path.name[-32:])
    try:
        path.rename(going)
    except OSError:
        going = path
    shutil.rmtree(going, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    try:
        with (path / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return not path.name.startswith(_BEING_MADE) or _is_old(path)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        return _is_old(path)
    except OSError as error:
        logger.warning("can't tell whether %s is in use, so it stays: %s", path, error)
        return False


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _GRACE_SECONDS
    except OSError:
        return False
