"""The key that a program's kept records are sealed with, the same at each of its starts."""

from __future__ import annotations

import secrets
from pathlib import Path

from holdfast.files.durable_files import write_durably, write_once

SEAL_KEY_BYTES = 32


def seal_key(path: Path) -> bytes:
    """The key in a file, which is made when it isn't there.

    Args:
        path: of the file, readable by its owner alone.

    Returns:
        32 bytes. Where the file holds anything else it is a new key, and what was sealed with the
        old one counts as lost.

    Raises:
        OSError: when it can't be read or made.
    """
    if not path.exists():
        write_once(path, secrets.token_bytes(SEAL_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != SEAL_KEY_BYTES:
        key = secrets.token_bytes(SEAL_KEY_BYTES)
        write_durably(path, key)
    return key
