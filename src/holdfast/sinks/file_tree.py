"""What a directory holds, at any depth."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

__all__ = ["FileIdentity", "FileTree", "identity_of"]


class FileIdentity(NamedTuple):
    """Tells one file, as it is now, from any other and from itself once it has changed.

    Hard links of a file have the same.
    """

    inode: int
    size: int
    mtime_ns: int

    def is_copy_of(self, other: FileIdentity) -> bool:
        """Whether it may be the other file, or a copy where there are no hard links."""
        return (self.size, self.mtime_ns) == (other.size, other.mtime_ns)

    @classmethod
    def of(cls, status: os.stat_result) -> FileIdentity:
        """The identity of what a status was taken of."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class FileTree:
    """What a directory holds, by paths relative to it. Symbolic links count as files.

    Attributes:
        files: each file, and which it is.
        directories: the directories, each after the one it lies in; without the root.
    """

    files: dict[str, FileIdentity] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, root: Path) -> FileTree:
        """Lists a directory; what vanishes meanwhile may be in it or not.

        Args:
            root: the directory; one that doesn't exist holds nothing.

        Raises:
            OSError: it can't be listed.
        """
        tree = cls()
        waiting = [""]
        while waiting:
            relative = waiting.pop()
            try:
                entries = list(os.scandir(root / relative))
            except FileNotFoundError:
                continue
            for entry in entries:
                path = os.path.join(relative, entry.name)
                if entry.is_dir(follow_symlinks=False):
                    tree.directories.append(path)
                    waiting.append(path)
                    continue
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    tree.files[path] = FileIdentity.of(status)
        return tree

    def directories_with_files(self) -> frozenset[str]:
        """The directories that files lie in directly; without the root.

        >>> FileTree({"_SUCCESS": FileIdentity(1, 0, 0)}).directories_with_files()
        frozenset()
        """
        return frozenset(filter(None, map(os.path.dirname, self.files)))


def identity_of(path: Path) -> FileIdentity | None:
    """Which file lies at a path; None where there is none.

    Args:
        path: the path.

    Raises:
        OSError: it can't be looked at.
    """
    try:
        return FileIdentity.of(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
