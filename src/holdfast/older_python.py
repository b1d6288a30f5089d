"""What Python 3.10 lacks: the one place that knows how Pythons differ, but for their bytecode."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections import defaultdict
from io import BufferedReader

_CHUNK = 1 << 20


def add_note(error: BaseException, note: str) -> None:
    """Adds a note to an error, as `BaseException.add_note` does.

    Args:
        error: what is going to be raised.
        note: what else is known of it. Python 3.10 holds it without showing it.

    Example:
        >>> error = ValueError("no")
        >>> add_note(error, "nor later")
        >>> error.__notes__
        ['nor later']

    Source: PEP 678.
    """
    if sys.version_info >= (3, 11):
        error.add_note(note)
    else:
        error.__dict__.setdefault("__notes__", []).append(note)


def sha256_of(file: BufferedReader) -> str:
    """SHA-256 of what is left to read of a file, in hexadecimal digits.

    Args:
        file: the file, open for reading.

    Raises:
        OSError: when it can't be read.
    """
    if sys.version_info >= (3, 11):
        return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def packages_distributions() -> dict[str, list[str]]:
    """The names of the distributions that have installed something of each top-level name.

    Python 3.10 knows those alone that say so in a `top_level.txt`.

    Example:
        >>> packages_distributions()["pyarrow"]
        ['pyarrow']
    """
    if sys.version_info >= (3, 11):
        return {top: [*of] for top, of in importlib.metadata.packages_distributions().items()}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for each in importlib.metadata.distributions():
        declared = (each.read_text("top_level.txt") or "").split()
        inferred = {
            file.parts[0] if len(file.parts) > 1 else file.stem
            for file in each.files or ()
            if file.suffix == ".py"
        }
        for top in declared or inferred:
            found[top].append(each.metadata["Name"])
    return dict(found)
