"""A key that programs of one user have in common, in a file that nobody else can read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from holdfast.files.durable_files import write_durably, write_once

SECRET_KEY_BYTES = 32
SEAL_KEY = "seal-key"
"""The file of the key that the records of streams are sealed with, in directories that have one."""

_BY_OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


def secret_key(path: Path) -> bytes:
    """The key in a file, which is made when it isn't there.

    Whoever knows the key can have these programs run any code, so that one that others may know
    is none.

    Args:
        path: of the file, readable by its owner alone, in a directory in which nobody else can
            put another one in its place.

    Returns:
        32 bytes. Where the file holds anything else it is a new key, and what was sealed with the
        old one counts as lost.

    Raises:
        PermissionError: when the file or its directory belongs to another user, is a link, or is
            open to others.
        OSError: when it can't be read or made.
    """
    _check_directory(path.parent)
    try:
        key = _read(path)
    except FileNotFoundError:
        write_once(path, secrets.token_bytes(SECRET_KEY_BYTES))
        key = _read(path)
    if len(key) != SECRET_KEY_BYTES:
        write_durably(path, secrets.token_bytes(SECRET_KEY_BYTES))
        # Another program may have found it like that as well: the last one to write has made it.
        key = _read(path)
    return key


def _check_directory(directory: Path) -> None:
    found = directory.stat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"{directory} belongs to another user")
    # Where it is sticky, others can remove and rename only what is theirs.
    if found.st_mode & _WRITABLE_BY_OTHERS and not found.st_mode & stat.S_ISVTX:
        raise PermissionError(
            f"other users can replace files in {directory}: run `chmod go-w` or `chmod +t` on it"
        )


def _read(path: Path) -> bytes:
    # Not through a link, and not waiting for whoever would write to a FIFO.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if path.is_symlink():
        raise PermissionError(f"{path} is a link: remove it")
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(f"{path} is no regular file: remove it")
        if found.st_uid != os.getuid():
            raise PermissionError(f"{path} belongs to another user: remove it")
        if found.st_mode & _BY_OTHERS:
            raise PermissionError(
                f"other users may know the key in {path}: remove it, and what was sealed with it "
                "is computed again"
            )
        return os.read(descriptor, SECRET_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
