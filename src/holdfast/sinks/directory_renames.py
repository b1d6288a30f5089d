"""Puts one directory in the place of another."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

__all__ = ["DirectoryRenames", "KernelRenames", "TwoRenames"]

_AT_FDCWD = -100
_NOREPLACE = 1
_EXCHANGE = 2
_UNSUPPORTED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
_IN_THE_WAY = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


class DirectoryRenames(ABC):
    """How a directory is put in its place. All paths have the same parent."""

    @abstractmethod
    def put(self, new: Path, target: Path) -> None:
        """Makes a directory the target, which doesn't exist.

        Args:
            new: the directory.
            target: its new path.

        Raises:
            FileExistsError: the target exists.
            FileNotFoundError: there is no such directory.
            OSError: it can't be renamed.
        """

    @abstractmethod
    def exchange(self, new: Path, target: Path, aside: Path) -> None:
        """Makes a directory the target, which exists.

        What the target was lies at one of the other two paths afterwards.

        Args:
            new: the directory.
            target: its new path.
            aside: a path for what the target was, where nothing lies.

        Raises:
            FileNotFoundError: one of the two doesn't exist.
            OSError: they can't be renamed.
        """


class TwoRenames(DirectoryRenames):
    """By a rename each, as every file system can.

    In an exchange the target doesn't exist for a moment between the two.
    """

    def put(self, new: Path, target: Path) -> None:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        try:
            os.rename(new, target)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                raise FileExistsError(*error.args) from error
            raise

    def exchange(self, new: Path, target: Path, aside: Path) -> None:
        os.stat(new)
        os.rename(target, aside)
        try:
            os.rename(new, target)
        except OSError:
            with suppress(OSError):
                self.put(aside, target)
            raise


class KernelRenames(DirectoryRenames):
    """In one step that the kernel takes, or by two renames where it or the file system can't."""

    def __init__(self) -> None:
        self._without = TwoRenames()
        self._renameat2 = None
        if sys.platform == "linux":
            self._renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)

    def put(self, new: Path, target: Path) -> None:
        if not self._rename(new, target, _NOREPLACE):
            self._without.put(new, target)

    def exchange(self, new: Path, target: Path, aside: Path) -> None:
        if not self._rename(new, target, _EXCHANGE):
            self._without.exchange(new, target, aside)

    def _rename(self, new: Path, target: Path, flag: int) -> bool:
        """Whether it could be asked of the kernel."""
        if self._renameat2 is None:
            return False
        # As os.rename tells it, for whoever watches what this process does to files.
        sys.audit("os.rename", str(new), str(target), -1, -1)
        paths = os.fsencode(new), os.fsencode(target)
        if self._renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], ctypes.c_uint(flag)) == 0:
            return True
        code = ctypes.get_errno()
        if code in _UNSUPPORTED:
            return False
        raise OSError(code, os.strerror(code), str(new), None, str(target))
