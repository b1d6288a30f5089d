"""A directory that belongs to one running application, and goes with it.

The owner holds a lock on a file in it, which the operating system drops when the process ends,
however it ends. A directory whose lock nobody holds is garbage that the next start removes.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from holdfast.errors import StorageError
from holdfast.files.access_modes import PRIVATE, AccessModes, make_root
from holdfast.files.file_lock import try_lock
from holdfast.files.regular_file import open_regular
from holdfast.files.removal import remove_at_once
from holdfast.ids import ApplicationID

LOCK = "lock"
EXECUTOR_RECORD = "taskexecutor.json"
"""Lies in a directory that a task executor of its own serves, whether it runs just now or not."""
_APPLICATION = "application-"
_BEING_MADE = ".new-"
_REMOVED = ".removed-"
# Nothing else under the root is ours, whatever it is called.
_OURS = re.compile(r"(application-|\.new-|\.removed-)[0-9a-f]{32}")
# A directory that is still being made belongs to somebody who has not yet taken its lock.
_GRACE_SECONDS = 60.0
_ATTEMPTS = 5

logger = logging.getLogger(__name__)


class ApplicationDirectory:
    """The directory of one application under `root`; made by `create` or taken over by `adopt`.

    Args:
        root: the directory that applications share.
        path: the application's own.
        lock: its lock file, locked.
        modes: whose applications share `root`.
    """

    def __init__(
        self, root: Path, path: Path, lock: IO[bytes], modes: AccessModes = PRIVATE
    ) -> None:
        self.root = root
        self._modes = modes
        self._made = [(path, lock)]
        self._making = threading.RLock()
        self._closed = False
        self._release = weakref.finalize(self, _release, self._made, os.getpid())

    @classmethod
    def create(
        cls,
        root: Path,
        application: ApplicationID | None = None,
        modes: AccessModes = PRIVATE,
    ) -> ApplicationDirectory:
        """Makes the directory of an application that starts, and removes those of dead ones.

        Args:
            root: the directory that applications share; it is created.
            application: names the directory; a random name when None.
            modes: whose applications share `root`; the application's own is its user's alone.

        Raises:
            StorageError: when the directory can't be made or isn't safe to use.
        """
        try:
            make_root(root, modes)
            # What a task executor that is down has kept is its own to adopt or to remove.
            if not (root / EXECUTOR_RECORD).exists():
                remove_garbage(root)
            return cls(root, *_create(root, application or ApplicationID.random()), modes)
        except OSError as error:
            raise StorageError(str(root), f"can't be used to keep results: {error}") from error

    @classmethod
    def adopt(cls, path: Path) -> ApplicationDirectory | None:
        """Takes over a directory whose keeper has ended, with everything in it.

        Args:
            path: `ROOT/application-<id>`.

        Returns:
            None when it is no such directory, or somebody holds it.
        """
        if application_of(path) is None:
            return None
        try:
            lock = open_regular(path / LOCK)
        except OSError:
            return None
        try:
            if try_lock(lock.fileno()):
                return cls(path.parent, path, lock)
        except OSError as error:
            logger.debug("%s does not support locks: %s", path, error)
        lock.close()
        return None

    def path(self) -> Path:
        """The application's own directory; another one when somebody has removed the last.

        Raises:
            OSError: when a new one is needed and can't be made, or this one has been closed.
        """
        with self._making:
            if self._closed:
                raise FileNotFoundError(f"{self._made[-1][0]} has been closed")
            path, _ = self._made[-1]
            if not (path / LOCK).exists():
                make_root(self.root, self._modes)
                # Its own name again, unless something is in the way.
                name = None if path.exists() else application_of(path)
                self._made.append(_create(self.root, name or ApplicationID.random()))
            return self._made[-1][0]

    def close(self) -> None:
        """Removes the directory and everything in it. Does nothing the second time."""
        with self._making:
            self._closed = True
        self._release()

    def leave(self) -> None:
        """Lets go of the directory as it is, for whoever adopts it."""
        with self._making:
            self._closed = True
            self._release.detach()
            for _, lock in self._made:
                lock.close()


def application_of(path: Path) -> ApplicationID | None:
    """Whose directory this is, told from its name."""
    name = path.name.removeprefix(_APPLICATION)
    if name == path.name or not _OURS.fullmatch(path.name):
        return None
    return ApplicationID(name)


def _create(root: Path, application: ApplicationID) -> tuple[Path, IO[bytes]]:
    name = application.hex
    making = root / f"{_BEING_MADE}{name}"
    making.mkdir(mode=0o700, exist_ok=True)
    lock = (making / LOCK).open("wb")
    try:
        # Whoever looks for garbage may hold it for the moment of looking.
        if not try_lock(lock.fileno(), patience_seconds=_GRACE_SECONDS):
            raise BlockingIOError(errno.EAGAIN, "another process holds it", str(making / LOCK))
        path = root / f"{_APPLICATION}{name}"
        _rename(making, path)
    except OSError:
        lock.close()
        shutil.rmtree(making, ignore_errors=True)
        raise
    return path, lock


def _rename(making: Path, path: Path) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            making.rename(path)
            return
        except OSError as error:
            # Spark's tasks make it as well, when they write while nobody keeps what they write.
            of_tasks = error.errno in (errno.EEXIST, errno.ENOTEMPTY) and not (path / LOCK).exists()
            if not of_tasks or attempt == _ATTEMPTS - 1:
                raise
            _remove(path)


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
    for path in garbage_in(root):
        _remove(path)
        removed.append(path)
        logger.debug("removed %s of an application that has ended", path)
    return removed


def garbage_in(root: Path) -> Iterator[Path]:
    """The directories under `root` whose applications have ended.

    Raises:
        OSError: when it can't be listed.
    """
    for path in sorted(root.iterdir()):
        if _OURS.fullmatch(path.name) and _may_remove(path) and _is_abandoned(path):
            yield path


def _remove(path: Path) -> None:
    remove_at_once(path, path.with_name(_REMOVED + path.name[-32:]))


def _may_remove(path: Path) -> bool:
    # Other users' is theirs to remove, with their next start.
    try:
        return os.getuid() in (0, path.lstat().st_uid)
    except OSError:
        return False


def _is_abandoned(path: Path) -> bool:
    # Somebody wrote into it while it was removed, or who removed it was killed over it.
    if path.name.startswith(_REMOVED):
        return True
    if path.name.startswith(_BEING_MADE) and not path.is_dir():
        # A file that is written aside, as `holdfast.files.durable_files` does.
        return _is_old(path)
    try:
        with open_regular(path / LOCK) as lock:
            if not try_lock(lock.fileno()):
                return False
            return not path.name.startswith(_BEING_MADE) or _is_old(path)
    except FileNotFoundError:
        return _is_old(path)
    except OSError as error:
        logger.warning("can't determine whether %s is in use, keeping it: %s", path, error)
        return False


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _GRACE_SECONDS
    except OSError:
        return False
