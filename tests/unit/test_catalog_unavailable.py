"""A catalog that can't be asked is an error, which costs a program a warning and the sharing."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from holdfast.catalog import catalog_database
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.errors import CatalogError, ClaimFencedError
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import programs as programs
from tests.catalog.conftest import url as url

Programs = Callable[..., Catalog]


def test_a_database_that_is_none_or_locked_or_away_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_database, "_PATIENCE_SECONDS", 0.2)
    file, none = tmp_path / "catalog.db", tmp_path / "none.db"
    database = CatalogDatabase(URL.create("sqlite", database=str(file)))
    # It is not made for a question; an empty file is an empty database.
    assert not database.is_there()
    file.touch()
    with database.reading():
        assert database.is_there()
    none.write_bytes(b"this is no database" * 100)
    server = "postgresql+psycopg://ana:secret@127.0.0.1:9/catalog"
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        for url, why in (
            (URL.create("sqlite", database=str(file)), "locked"),
            (URL.create("sqlite", database=str(none)), "not a database"),
            (server, "127.0.0.1"),
        ):
            database = CatalogDatabase(url)
            with pytest.raises(CatalogError, match=why) as caught, database.writing():
                pass
            assert "secret" not in str(caught.value)
            database.close()


def answer(guarded: GuardedCatalog) -> str:
    return guarded.ask(lambda catalog: "empty" if catalog.search.is_empty() else "full", "away")


def guard(catalog: Catalog, lease_seconds: float = 600.0) -> GuardedCatalog:
    return GuardedCatalog(lambda: catalog, catalog.database.is_there, lease_seconds)


def test_a_failure_is_warned_of_once_and_tried_again_later(
    programs: Programs, url: URL, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = programs()
    guarded, looked_after = guard(catalog), threading.Event()
    guarded.on_renewal(lambda _: looked_after.set())
    assert answer(guarded) == "empty"
    # Else the thread that renews may be the one that notices, and says so at its own time.
    assert looked_after.wait(60)
    catalog.database._url = url.set(database="/no/such/directory/at/all", host="127.0.0.1", port=9)
    catalog.database.close()
    assert [answer(guarded) for _ in range(5)] == ["away"] * 5
    assert len(caplog.messages) == 1 and "not shared with other programs for now" in caplog.text
    catalog.database._url = url
    assert answer(guarded) == "away"
    monkeypatch.setattr(guarded, "_paused_until", 0.0)
    assert answer(guarded) == "empty"
    # A fenced claim is no failure.
    with pytest.raises(ClaimFencedError, match="epoch 7"):
        guarded.ask(_fenced, "away")
    assert answer(guarded) == "empty"
    guarded.close()
    assert answer(guarded) == "away"


def _fenced(catalog: Catalog) -> str:
    raise ClaimFencedError(catalog.database.name, "1" * 64, 7)


def test_a_later_version_is_not_asked_again(
    programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = programs()
    with catalog.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    catalog.database.close()
    guarded = guard(catalog)
    assert [answer(guarded) for _ in range(3)] == ["away"] * 3
    guarded._paused_until = 0.0
    assert answer(guarded) == "away"
    assert len(caplog.messages) == 1 and "Upgrade Holdfast" in caplog.text
    guarded.close()


def test_the_lease_is_renewed_and_ends_with_the_program(
    programs: Programs, caplog: pytest.LogCaptureFixture
) -> None:
    catalog, other, renewed = programs(), programs(), threading.Semaphore(0)
    guarded = guard(catalog, 0.2)
    guarded.on_renewal(lambda _: renewed.release())
    with caplog.at_level(logging.WARNING):
        assert answer(guarded) == "empty"
        assert all(renewed.acquire(timeout=30) for _ in range(3))
    guarded.close()
    guarded.close()
    assert caplog.messages == []
    with other.database.reading() as connection:
        left = connection.execute(text("SELECT application FROM programs")).all()
    assert [row.application for row in left] == [other.scope.program.application.hex]
