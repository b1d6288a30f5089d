"""Which databases can be a catalog."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from holdfast.catalog.catalog_file import catalog_file

SQLITE = "sqlite"
POSTGRESQL = "postgresql"
CATALOG_URLS = "sqlite:////path/of/a/file or postgresql+psycopg://user@host/database"
"""What can be a catalog's URL, for people."""


def in_directory(root: Path) -> URL:
    """The catalog in a storage directory, where no other one is configured.

    >>> str(in_directory(Path("/tmp/kept")))
    'sqlite:////tmp/kept/catalog/catalog.db'
    """
    return URL.create(SQLITE, database=str(catalog_file(root)))


def checked_url(url: str) -> str:
    """A catalog's URL, where it is one.

    Args:
        url: as configured.

    Raises:
        ValueError: when no database of that kind can be a catalog.

    >>> checked_url("sqlite:////tmp/catalog.db")
    'sqlite:////tmp/catalog.db'
    """
    try:
        made = make_url(url)
    except ArgumentError as error:
        raise ValueError(str(error)) from error
    if made.drivername not in (SQLITE, f"{POSTGRESQL}+psycopg"):
        raise ValueError(url)
    if made.drivername == SQLITE and not (made.database or "").startswith("/"):
        raise ValueError(url)
    return url
