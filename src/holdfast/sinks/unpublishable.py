"""Which directories can't be published in one step."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["why_unpublishable"]

_MOUNTS = Path("/proc/self/mountinfo")


def why_unpublishable(target: Path) -> str | None:
    """Says why no other directory can take the place of this one in a single step.

    Args:
        target: an absolute path.

    Returns:
        The reason; None where it can.

    >>> why_unpublishable(Path("/"))
    'it is a mount point'
    """
    target = target.resolve()
    if os.path.lexists(target) and not target.is_dir():
        return "it is not a directory"
    if target.exists() and (os.path.ismount(target) or _is_bound(target)):
        return "it is a mount point"
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return f"its parent directory {parent} is not writable"
    return None


def _is_bound(target: Path) -> bool:
    """Whether a directory of the same file system is mounted here."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False  # Other systems than Linux have no such mounts.
    points = (line.split(" ")[4] for line in lines)
    return str(target) in {_unescaped(point) for point in points}


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
