"""Files that are there as a whole or not at all, and stay when the machine stops."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path

_BEING_MADE = ".new-"


def write_atomically(path: Path, content: bytes, aside: Path | None = None) -> None:
    """Writes a file, readable by its owner alone, in place of the one that was there.

    When the machine stops, one of the two is there, and whole.

    Args:
        path: the file.
        content: all of it.
        aside: a directory of the same file system where it is written before it is there; None:
            beside the file.

    Raises:
        OSError: when the disk doesn't take it. What was there before still is.
    """
    with_content = _written_aside(aside or path.parent, content)
    try:
        with_content.rename(path)
    except OSError:
        with_content.unlink(missing_ok=True)
        raise


def write_durably(path: Path, content: bytes, aside: Path | None = None) -> None:
    """Like `write_atomically`, and it is the new one that is there when the machine stops.

    Raises:
        OSError: when the disk doesn't take it.
    """
    write_atomically(path, content, aside)
    sync_directory(path.parent)


def write_once(path: Path, content: bytes, aside: Path | None = None, *, mode: int = 0o600) -> bool:
    """Writes a file, unless there is one.

    Args:
        path: the file.
        content: all of it.
        aside: as for `write_atomically`.
        mode: who may read it, whatever the umask is.

    Returns:
        whether it is this content that is there now.

    Raises:
        OSError: when the disk doesn't take it.
    """
    with_content = _written_aside(aside or path.parent, content, mode)
    try:
        # A link, unlike a rename, fails where there is something.
        os.link(with_content, path)
    except FileExistsError:
        return False
    finally:
        with_content.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def create_once(path: Path) -> bool:
    """Makes an empty file, unless there is one: of several who do, one alone has made it.

    Returns:
        whether it was this call.

    Raises:
        FileNotFoundError: when the directory isn't there.
        OSError: when the disk doesn't take it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return False
    sync_directory(path.parent)
    return True


def remove_once(path: Path) -> bool:
    """Removes a file, if it is there: of several who do, one alone has removed it.

    Returns:
        whether it was this call.

    Raises:
        OSError: when it can't be removed.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def sync_directory(directory: Path) -> None:
    """What has been made or renamed in a directory stays so, as long as the directory does.

    Raises:
        OSError: when the disk doesn't take it.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        # Somebody has removed it by now, with all that was to stay.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget_unfinished(directory: Path, before: float) -> None:
    """Removes what somebody was killed over while writing it.

    Args:
        directory: where it was written aside.
        before: what was begun before this time, in seconds since 1970.

    Raises:
        OSError: when it can't be listed or removed.
    """
    for path in directory.glob(f"{_BEING_MADE}*"):
        with suppress(FileNotFoundError):
            if path.lstat().st_mtime < before:
                path.unlink()


def _written_aside(directory: Path, content: bytes, mode: int = 0o600) -> Path:
    aside = directory / f"{_BEING_MADE}{uuid.uuid4().hex}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with open(os.open(aside, flags, 0o600), "wb") as file:
            # Not even its owner could read what is made under some umasks.
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise
    return aside
