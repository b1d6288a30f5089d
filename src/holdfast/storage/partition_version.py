"""What tells a partition's file from the same one after somebody has written to it."""

from __future__ import annotations

import os
import re

_OF_A_FILE = re.compile(r"([0-9]{1,20})-(-?[0-9]{1,20})")


def version_of(status: os.stat_result) -> str:
    """The version of a file: its length in bytes, and when it was modified, in ns since 1970.

    Others only compare it: what keeps partitions elsewhere has versions of its own.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     os.truncate(file.name, 7)
    ...     os.utime(file.name, ns=(0, 1_000_000_000))
    ...     version_of(os.stat(file.name))
    '7-1000000000'
    """
    return f"{status.st_size}-{status.st_mtime_ns}"


def modified_ns(version: str) -> int | None:
    """When a file of this version was modified, in ns since 1970; None where it isn't a file's."""
    found = _OF_A_FILE.fullmatch(version)
    return None if found is None else int(found[2])
