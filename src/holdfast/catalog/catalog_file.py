"""Where the catalog of a storage directory lies, unless another one is configured."""

from __future__ import annotations

from pathlib import Path

_DIRECTORY = "catalog"
_FILE = "catalog.db"


def catalog_file(root: Path) -> Path:
    """The file of the catalog in a storage directory, whether it is there or not.

    >>> str(catalog_file(Path("/tmp/kept")))
    '/tmp/kept/catalog/catalog.db'
    """
    # A database makes files beside itself, which users of one directory take over from each other.
    return root / _DIRECTORY / _FILE


def is_catalog_file(file: Path) -> bool:
    """Whether a database is one that `catalog_file` gives."""
    return file.name == _FILE and file.parent.name == _DIRECTORY


def may_be_there(file: Path) -> bool:
    """Whether there may be a database: what can't be looked at, is told of when it is opened.

    >>> may_be_there(Path("/nowhere/catalog.db"))
    False
    """
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
