"""What tells one storage directory from all others, also from one that was there before it."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from holdfast.files.durable_files import write_once

_NAME = "identity"
_IDENTITY = re.compile(r"[0-9a-f]{32}")


def directory_identity(root: Path) -> str:
    """The identity of a storage directory, which is given when it is first asked for.

    What was noted in two directories, such as epochs, can be compared if they are the same one.

    Args:
        root: the directory, which is there.

    Returns:
        32 hexadecimal digits.

    Raises:
        OSError: when it can't be read or written, or is something else.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> directory_identity(root) == directory_identity(root)
    True
    """
    file = root / _NAME
    if not file.exists():
        # It is no secret from whoever is let into the directory.
        write_once(file, uuid.uuid4().hex.encode(), mode=0o644)
    identity = file.read_bytes().decode("ascii", errors="replace")
    if not _IDENTITY.fullmatch(identity):
        raise OSError(f"{file} is corrupt: remove the directory to start from scratch")
    return identity
