"""The catalog of a storage directory, or of task executors, as commands use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    identity = partial(directory_identity, root)
    with _opened(CatalogDatabase(in_directory(root)), identity, make=make) as catalog:
        yield catalog


@contextmanager
def catalog_at(
    url: str, storage: str | None = None, *, make: bool = False
) -> Iterator[Catalog | None]:
    """The catalog at a URL; None where there is none.

    Args:
        url: of the catalog.
        storage: the identity of where results are; None for wherever they are.
        make: whether to make one where there is none.
    """
    with _opened(CatalogDatabase(url), lambda: storage or "", make=make) as catalog:
        yield catalog


@contextmanager
def _opened(
    database: CatalogDatabase, identity: Callable[[], str], *, make: bool
) -> Iterator[Catalog | None]:
    if not make and not database.is_there():
        yield None
        return
    program = this_program(ApplicationID.random())
    try:
        yield Catalog(database, identity, _nothing, program, _LEASE_SECONDS)
    finally:
        database.close()


def _nothing() -> str:
    return ""
