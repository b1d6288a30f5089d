"""The catalog of a storage directory, as commands use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.this_program import this_program
from holdfast.files.directory_identity import directory_identity
from holdfast.ids import ApplicationID

# Commands claim nothing, and hold nothing.
_LEASE_SECONDS = 60.0


@contextmanager
def catalog_in(root: Path, *, make: bool = False) -> Iterator[Catalog | None]:
    """The catalog in a storage directory; None where there is none.

    Args:
        root: the directory.
        make: whether to make one where there is none.
    """
    database = CatalogDatabase(in_directory(root))
    if not make and not database.is_there():
        yield None
        return
    program = this_program(ApplicationID.random())
    try:
        identity = partial(directory_identity, root)
        yield Catalog(database, identity, _computes_nothing, program, _LEASE_SECONDS)
    finally:
        database.close()


def _computes_nothing() -> str:
    return ""
