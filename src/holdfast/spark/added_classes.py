"""Which classes a program has added to Spark's own."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.plan.hashing import hash_parts


def classes_digest(jars: str) -> str:
    """A digest of archives of classes; where they are is no matter.

    Args:
        jars: their paths and URLs, one a line.

    Returns:
        64 hexadecimal digits; nothing where there are none.
    """
    found: dict[str, str] = {}
    for path in filter(None, jars.splitlines()):
        name = os.path.basename(path)
        # The same one may be listed as it was given and as Spark serves it.
        found[name] = _content(path) or found.get(name, "")
    return hash_parts(tuple(sorted(found.items()))) if found else ""


def _content(path: str) -> str:
    """The digest of a file of this machine; of another one nothing is known but its name."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file", "local"):
        return ""
    file = Path(unquote(parts.path))
    try:
        status = file.stat()
        return _digest(file, status.st_size, status.st_mtime_ns)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _digest(file: Path, size: int, modified: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
