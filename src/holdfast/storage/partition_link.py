"""A partition's file under a second name, which lasts when the first one goes."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path


def link_partition(file: Path, link: Path) -> None:
    """Gives a partition's file, and the checksums that Hadoop lays beside it, a second name.

    A symbolic link is not followed: the second name is then one of that link.

    Args:
        file: the file that holds the partition.
        link: its second name, on the same file system.

    Raises:
        OSError: when the file is gone, there is something by the second name, or the file system
            takes no links.
    """
    os.link(file, link, follow_symlinks=False)
    # Without checksums Hadoop reads unchecked.
    with suppress(FileNotFoundError):
        os.link(
            file.with_name(f".{file.name}.crc"),
            link.with_name(f".{link.name}.crc"),
            follow_symlinks=False,
        )


def take_partition(file: Path, into: Path) -> None:
    """Gives a partition's file a second place: by a link, or by a copy where it is another user's.

    Who owns a file can write to it under any name.

    Args:
        file: the file that holds the partition.
        into: its second place; of the same time of modification.

    Raises:
        OSError: when the file is gone or can't be read, there is something in its second place, or
            the disk doesn't take it.
    """
    if file.lstat().st_uid == os.getuid():
        link_partition(file, into)
        return
    _copy(file, into)
    with suppress(FileNotFoundError):
        _copy(file.with_name(f".{file.name}.crc"), into.with_name(f".{into.name}.crc"))


def _copy(file: Path, into: Path) -> None:
    # Another user may have put anything there.
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as source:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{file} is not a regular file")
        with into.open("xb") as copy:
            shutil.copyfileobj(source, copy)
        os.utime(into, ns=(status.st_atime_ns, status.st_mtime_ns))
