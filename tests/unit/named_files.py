"""What tells files in a model of them: not numbers that a file system has drawn, but their names.

So a number that one start writes down for others is the same to all of them, and says who is meant:
where starts are called by other names, so are the files.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from dataclasses import dataclass

NAME = re.compile(r"812345[0-9]")
"""The names of starts, which are the first digits of all ids that they draw. In what is put before
one, to make a longer number of it, is no 8, so that each is found where it is."""
ROOT = "."
"""The directory that all starts share."""
DIRECTORY = "/"
"""What is told of a directory begins with it, and goes on with the path at which it was made."""


@dataclass(frozen=True)
class Status:
    """What may be asked of a file.

    Attributes:
        st_mode: what it is.
        st_ino: its number.
    """

    st_mode: int
    st_ino: int = 0
    st_dev: int = 0
    st_size: int = 1
    st_uid: int = os.getuid()
    st_gid: int = os.getgid()

    @property
    def st_mtime_ns(self) -> int:
        """Its time, which is as good as a number."""
        return self.st_ino

    @property
    def st_mtime(self) -> float:
        """Now, for whoever removes what is old."""
        return float("inf")


def status(path: str, told: str) -> Status:
    """The status of what lies at a path.

    Args:
        path: the path. The last part of it tells a file from others, as files are renamed and
            linked to from one directory to another alone.
        told: of its content.
    """
    if told.startswith(DIRECTORY):
        return Status(stat.S_IFDIR | 0o700, number(told))
    return Status(stat.S_IFREG | 0o600, number(f"{os.path.basename(path)}{os.sep}{told}"))


def number(text: str) -> int:
    """A number that stands for a text, and has the first name in it."""
    name = NAME.search(text)
    rest = zlib.crc32(NAME.sub("", text).encode())
    return int(f"1{rest:o}{name[0] if name else ''}")
