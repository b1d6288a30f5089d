"""What tells one storage directory from all others, also from one that was there before it."""

from __future__ import annotations

import hashlib
import re
import uuid
from pathlib import Path

from holdfast.files.durable_files import write_once
from holdfast.ids import JobID

_NAME = "identity"
_IDENTITY = re.compile(r"[0-9a-f]{32}")


def storage_identity(root: Path) -> str:
    """The identity of a storage directory, which is given when it is first asked for.

    Epochs can be compared if they were taken in the same directory, and otherwise not.

    Args:
        root: `high-availability.storageDir`, which is there.

    Returns:
        32 hexadecimal digits.

    Raises:
        OSError: when it can't be read or written, or is something else.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> storage_identity(root) == storage_identity(root)
    True
    """
    file = root / _NAME
    if not file.exists():
        write_once(file, uuid.uuid4().hex.encode())
    identity = file.read_bytes().decode("ascii", errors="replace")
    if not _IDENTITY.fullmatch(identity):
        raise OSError(f"{file} is corrupt: remove the directory to start from scratch")
    return identity


def job_in_storage(root: Path, job_id: JobID) -> JobID:
    """What a job is called where jobs of several storage directories meet.

    Args:
        root: the storage directory in which its epochs are taken.
        job_id: what it is called there.

    Raises:
        OSError: when the directory's identity can't be told.
    """
    text = f"{storage_identity(root)}:{job_id.hex}"
    return JobID(hashlib.sha256(text.encode()).hexdigest()[:32])
