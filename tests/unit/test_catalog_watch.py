"""A task executor holds what its catalog holds: it asks, and in doubt everything stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalog import catalog_database
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.this_program import this_program
from holdfast.errors import HoldingRefusedError, MalformedRequestError
from holdfast.ids import CATALOG_APPLICATION, ApplicationID, JobID
from holdfast.taskexecutor.catalog_watch import CatalogWatch
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__
from tests.catalog.results import STORAGE, kept, pass_time, produced
from tests.taskexecutor.callers import Caller, Clock, output_of, parts

ONE, TWO, THREE = map(output_of, "123")
LIFETIME = 600.0


class Site:
    """An executor, its watch, the catalog of a file, and a program that keeps results there."""

    def __init__(self, root: Path) -> None:
        self.root, self.file = root / "kept", root / "catalog.db"
        self.root.mkdir(mode=0o700)
        self.url = f"sqlite:///{self.file}"
        self.clock = Clock()
        self.start()
        self.app = Caller(self.executor).connect()

    def start(self) -> None:
        self.executor = TaskExecutor(
            self.root, executor_id=STORAGE, holds_for_catalog=True, clock=self.clock
        )
        self.executor.adopt(60)
        self.watch = CatalogWatch(self.executor, self.url)

    def catalog(self) -> Catalog:
        """As a program sees it that has just come."""
        program = this_program(ApplicationID.random())
        database = CatalogDatabase(self.url)
        catalog = Catalog(database, lambda: STORAGE, lambda: "e" * 64, program, 600.0)
        catalog.programs.renew()
        return catalog

    def keep(self, output: OutputID) -> int:
        """The program keeps a result, and leaves it to the catalog; its number there."""
        catalog = self.catalog()
        self.app.keep(output)
        named = kept(output.dataset_id).model_copy(update={"name": output.name})
        made = produced(output.dataset_id, kept=named, is_shared=True, lifetime=LIFETIME)
        number = catalog.publications.announce(made)
        self.executor.hold_output(self.app.application, output, catalog.database.identity(), "{}")
        catalog.publications.publish(made, None, lambda size: None, announced=number)
        catalog.programs.leave()
        catalog.database.close()
        return number

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(statement)

    def looks(self, times: int = 1) -> set[OutputID]:
        """What it holds after it has asked."""
        for _ in range(times):
            self.watch.look()
        return set(self.executor.held())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.executor.close()


def test_what_the_catalog_holds_is_held_without_any_program(site: Site) -> None:
    first, _ = site.keep(ONE), site.keep(TWO)
    site.executor.unregister_application(site.app.application)
    assert len(parts(site.root)) == 4
    # Nor has it a lease after a kill, as applications have that are found again.
    site.executor.leave()
    site.start()
    site.clock.now += 61
    site.executor.tick()
    assert site.looks(3) == {ONE, TWO}
    catalog = site.catalog()
    catalog.holders.withdraw("it was removed by hand", numbers=[first])
    assert site.looks() == {TWO}
    pass_time(catalog, LIFETIME + 1)
    assert site.looks() == set() and parts(site.root) == []
    assert "its lifetime was over" in [each.why_gone for each in catalog.holders.sweep()]
    assert catalog.holders.recorded([TWO.name]) == {TWO.name: False}


def spoiled(site: Site) -> None:
    site.file.write_bytes(b"this is no database" * 100)


def newer(site: Site) -> None:
    site.change("UPDATE alembic_version SET version_num = '9999'")


def away(site: Site) -> None:
    for file in site.file.parent.glob("catalog.db*"):
        file.unlink()


def locked(site: Site) -> sqlite3.Connection:
    lock = sqlite3.connect(site.file, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    return lock


@pytest.mark.parametrize("harm", [spoiled, newer, away, locked])
def test_while_the_catalog_is_away_everything_stays(
    site: Site, harm: Callable[[Site], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_database, "_PATIENCE_SECONDS", 0.2)
    site.keep(ONE)
    assert site.looks() == {ONE}
    before = site.file.read_bytes()
    lock = harm(site)
    assert site.looks(3) == {ONE}
    # None is made in its place.
    assert site.file.exists() == (harm is not away)
    if lock is not None:
        lock.close()
    away(site)
    site.file.write_bytes(before)
    # It is back, and doesn't record the result any more. It is asked twice, as what is being
    # announced is not recorded a moment before.
    site.change("DELETE FROM results")
    assert site.looks() == {ONE}
    assert site.looks() == set()


def test_another_catalog_in_its_place_releases_only_its_own(site: Site) -> None:
    site.keep(ONE)
    site.looks()
    away(site)
    # Until it has asked, a program of another catalog is refused.
    site.app.keep(TWO)
    identity = site.catalog().database.identity()
    with pytest.raises(HoldingRefusedError, match="another one"):
        site.executor.hold_output(site.app.application, TWO, identity, "{}")
    assert site.looks() == {ONE}
    number = site.keep(THREE)
    assert site.looks(2) == {ONE, THREE}
    site.catalog().holders.withdraw("by hand", numbers=[number])
    assert site.looks() == {ONE}


def test_a_program_can_not_act_as_the_catalog(site: Site) -> None:
    site.keep(ONE)
    executor = site.executor
    for call in (
        lambda: executor.register_application(CATALOG_APPLICATION, 1.0, __version__),
        lambda: executor.unregister_application(CATALOG_APPLICATION),
        lambda: executor.register_job(CATALOG_APPLICATION, JobID.random()),
    ):
        with pytest.raises(MalformedRequestError, match="is the catalog"):
            call()
    executor.heartbeat(CATALOG_APPLICATION, {})
    assert site.looks() == {ONE}
