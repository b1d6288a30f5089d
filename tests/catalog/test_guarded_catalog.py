"""A catalog that fails costs a warning and the sharing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL, text

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.errors import ClaimFencedError

Programs = Callable[..., Catalog]


def answer(guarded: GuardedCatalog) -> str:
    return guarded.ask(lambda catalog: "empty" if catalog.search.is_empty() else "full", "away")


def test_a_failure_is_warned_of_once_and_tried_again_later(
    programs: Programs, url: URL, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = programs()
    guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)
    looked_after = threading.Event()
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
    guarded.close()
    assert answer(guarded) == "away"


def test_a_later_version_is_not_asked_again(
    programs: Programs, url: URL, caplog: pytest.LogCaptureFixture
) -> None:
    other = programs()
    with other.database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    catalog = Catalog(
        CatalogDatabase(url), lambda: "5" * 32, lambda: "e" * 64, other.scope.program, 600.0
    )
    guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)
    assert [answer(guarded) for _ in range(3)] == ["away"] * 3
    assert len(caplog.messages) == 1 and "Upgrade Holdfast" in caplog.text
    guarded._paused_until = 0.0
    assert answer(guarded) == "away" and len(caplog.messages) == 1
    guarded.close()


def test_that_a_claim_is_fenced_is_no_failure(programs: Programs) -> None:
    catalog = programs()
    guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)

    def fenced(catalog: Catalog) -> str:
        raise ClaimFencedError(catalog.database.name, "1" * 64, 7)

    with pytest.raises(ClaimFencedError, match="epoch 7"):
        guarded.ask(fenced, "away")
    assert answer(guarded) == "empty"
    guarded.close()


def test_a_program_that_ends_leaves(programs: Programs) -> None:
    catalog, other = programs(), programs()
    guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)
    assert answer(guarded) == "empty"
    guarded.close()
    guarded.close()
    with other.database.reading() as connection:
        left = connection.execute(text("SELECT application FROM programs")).all()
    assert [row.application for row in left] == [other.scope.program.application.hex]


def test_the_lease_is_renewed(programs: Programs, caplog: pytest.LogCaptureFixture) -> None:
    renewals: list[Catalog] = []
    catalog = programs()
    guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 0.4)
    guarded.on_renewal(renewals.append)
    with caplog.at_level(logging.WARNING):
        assert answer(guarded) == "empty"
        assert guarded._thread is not None
        guarded._thread.join(2.0)
    assert len(renewals) > 2 and caplog.messages == []
    guarded.close()


def test_a_catalog_that_is_not_there_is_not_made_for_a_question(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    database = CatalogDatabase(URL.create("sqlite", database=str(file)))
    assert not database.is_there()
    with database.reading():
        assert database.is_there()
    database.close()
