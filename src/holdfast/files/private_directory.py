"""Directories that nobody but their owner can write to."""

from __future__ import annotations

import os
from pathlib import Path

_WRITABLE_BY_OTHERS = 0o022


def make_own(path: Path) -> None:
    """Makes a directory, readable by its owner alone, or checks whose the one is that is there.

    Args:
        path: the directory. Under a shared temporary one anybody could have made it first.

    Raises:
        PermissionError: when it belongs to another user.
        OSError: when it can't be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")


def make_private(path: Path) -> None:
    """Makes a directory, readable by its owner alone, or checks the one that is there.

    Args:
        path: the directory.

    Raises:
        PermissionError: when it belongs to another user, or others can write to it.
        OSError: when it can't be made.
    """
    make_own(path)
    if path.stat().st_mode & _WRITABLE_BY_OTHERS:
        raise PermissionError("it is writable by other users: run `chmod go-w` on it")


def own_below(root: Path, name: str) -> Path:
    """Where this user has something of their own below a directory that users may share.

    Args:
        root: the directory; its owner's has the plain name.
        name: what it is called.

    Raises:
        OSError: when the directory can't be looked at.
    """
    try:
        is_own = root.stat().st_uid == os.getuid()
    except FileNotFoundError:
        is_own = True
    return root / (name if is_own else f"{name}-{os.getuid()}")
