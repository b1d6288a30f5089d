"""Reads files of directories that others may have put anything into."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO


def open_regular(path: Path) -> IO[bytes]:
    """Opens a file for reading, and waits for nobody.

    A FIFO would have to be opened by somebody else as well.

    Raises:
        OSError: when it can't be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """What a regular file says.

    Raises:
        OSError: when it can't be read, or is no regular file.
        UnicodeDecodeError: when that is no text.
    """
    with open_regular(path) as file:
        return file.read().decode(encoding)
