"""What a directory holds is carried over into the one that takes its place."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from holdfast.errors import SinkError
from holdfast.sinks.commit_marker import CarriedFile
from holdfast.sinks.file_tree import FileIdentity, FileTree, identity_of

__all__ = ["CarriedFiles", "settle", "take_attributes"]

_NO_LINKS = frozenset({errno.EPERM, errno.EMLINK, errno.EXDEV, errno.ENOTSUP, errno.ENOSYS})


class CarriedFiles:
    """Hard links, inside a directory that is to be published, to what its target holds.

    Where the file system has no hard links, or forbids them, the files are copied.

    Args:
        target: what holds the files.
        into: the directory that is to be published; it holds what has been written.
        replaces_partitions: what a directory of the target holds is left out where files have been
            written to the same directory, as in a dynamic partition overwrite.
        without: the name of a file of the target that is never carried.
        taking_back: what is not carried either, if it is still the same file.
    """

    def __init__(
        self,
        target: Path,
        into: Path,
        *,
        replaces_partitions: bool,
        without: str = "",
        taking_back: Mapping[str, FileIdentity] = MappingProxyType({}),
    ) -> None:
        self._target = target
        self._into = into
        self._without = without
        self._taking_back = taking_back
        written = FileTree.of(into)
        self.written = written.files
        self._replaced: frozenset[str] = frozenset()
        if replaces_partitions:
            self._replaced = written.directories_with_files()
        self.files: dict[str, CarriedFile] = {}
        self.directories: list[str] = []

    def update(self) -> bool:
        """Carries what has come to the target since the last time, and drops what has gone.

        Returns:
            Whether anything had changed.

        Raises:
            SinkError: a file of the target has the name of one that was written.
            OSError: something can't be read or written.
        """
        found = FileTree.of(self._target)
        found.files.pop(self._without, None)
        changed = found.directories != self.directories
        for path, carried in list(self.files.items()):
            if found.files.get(path) != carried.before:
                changed = True
                del self.files[path]
                if carried.now is not None:
                    os.unlink(self._into / path)
        left = set(found.directories)
        for path in reversed(self.directories):
            if path not in left and not self._is_replaced(path):
                with suppress(OSError):  # What has been written keeps its directories.
                    os.rmdir(self._into / path)
        self.directories = found.directories
        for path in found.directories:
            if not self._is_replaced(path):
                (self._into / path).mkdir(exist_ok=True)
        for path, identity in found.files.items():
            if path not in self.files:
                changed = True
                with suppress(FileNotFoundError):
                    self.files[path] = CarriedFile(before=identity, now=self._carry(path, identity))
        return changed

    def takes_all_back(self) -> bool:
        """Whether all that is to be taken back was there as it was published."""
        return all(
            (carried := self.files.get(path)) is not None and carried.before.is_copy_of(published)
            for path, published in self._taking_back.items()
        )

    def take_attributes(self) -> None:
        """Gives the carried directories the owners and permissions that they have."""
        for path in reversed(self.directories):
            if not self._is_replaced(path):
                take_attributes(self._target / path, self._into / path)

    def _carry(self, path: str, identity: FileIdentity) -> FileIdentity | None:
        if self._is_replaced(path):
            return None
        published = self._taking_back.get(path)
        if published is not None and identity.is_copy_of(published):
            return None
        if path in self.written:
            # Spark writes files such as _SUCCESS anew; its files of rows have unique names.
            if os.path.basename(path).startswith(("_", ".")):
                return None
            raise SinkError(
                str(self._target),
                f"it already contains a file {path!r}, and the write has one of the same name. "
                "Nothing was changed: rename one of them, or use another path.",
            )
        source, link = self._target / path, self._into / path
        try:
            os.link(source, link, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            shutil.copy2(source, link, follow_symlinks=False)
        return identity_of(link)

    def _is_replaced(self, path: str) -> bool:
        while path and self._replaced:
            if path in self._replaced:
                return True
            path = os.path.dirname(path)
        return False


def settle(
    old: Path,
    target: Path,
    files: dict[str, CarriedFile],
    directories: list[str],
    *,
    is_alone: bool,
) -> None:
    """Does to a published directory what others have done to the one before, at the last moment.

    Does nothing where the old directory is gone, and changes nothing the second time.

    Args:
        old: what the target was.
        target: the directory.
        files: what the old one held when its files were carried over.
        directories: its directories at that time.
        is_alone: no other sink publishes to the target at this moment. Otherwise what is missing
            from the old directory may only be on its way, and is not taken for removed.

    Raises:
        OSError: something can't be read or renamed.
    """
    before = identity_of(old)
    found = FileTree.of(old)
    after = identity_of(old)
    # A listing of what somebody else was removing would pass for one of what others have kept.
    if before is None or after is None or before.inode != after.inode:
        return
    known, left = set(directories), set(found.directories)
    for path in found.directories:
        if path not in known:
            (target / path).mkdir(parents=True, exist_ok=True)
    for path, identity in found.files.items():
        carried = files.get(path)
        if carried is None or carried.before != identity:
            _move(old / path, target / path, None if carried is None else carried.now)
    for path, carried in files.items() if is_alone else ():
        if path in found.files or carried.now is None:
            continue
        if identity_of(target / path) == carried.now:
            os.unlink(target / path)
    for path in reversed(directories):
        if path not in left:
            with suppress(OSError):  # It holds what was written, or is gone already.
                os.rmdir(target / path)


def _move(source: Path, to: Path, replacing: FileIdentity | None) -> None:
    """Moves a file, unless there is one already that isn't the one to be replaced."""
    found = identity_of(to)
    if found is None:
        to.parent.mkdir(parents=True, exist_ok=True)
    elif found != replacing:
        return
    with suppress(FileNotFoundError):  # A later start is taking over, and does the same.
        os.rename(source, to)


def take_attributes(source: Path, to: Path) -> None:
    """Gives a directory another's permissions and, where that is allowed, its owner and group.

    Args:
        source: the directory that has them.
        to: the directory that gets them.

    Raises:
        OSError: they can't be set.
    """
    try:
        status = os.stat(source)
    except FileNotFoundError:
        return
    for owner, group in ((-1, status.st_gid), (status.st_uid, -1)):
        with suppress(PermissionError):
            os.chown(to, owner, group)
    times = os.stat(to)
    shutil.copystat(source, to)
    os.utime(to, ns=(times.st_atime_ns, times.st_mtime_ns))
