"""Results that outlive their driver on two nodes: found by the next one, gone when released."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.ids import CATALOG_APPLICATION
from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for
from tests.taskexecutor.sharing_programs import held_files

SECONDS = 60
READ = ["read from cache", "run"]
PRODUCED = ["produced", "run"]
pytestmark = pytest.mark.soak


class Shared:
    """A cluster whose task executors have a catalog, and its drivers."""

    def __init__(
        self, cluster: LocalCluster, file: Path, path: str, start: Callable[..., Any]
    ) -> None:
        self.cluster, self.file, self.path = cluster, file, path
        self._start = start

    def driver(self) -> Any:
        return self._start(self.cluster, {"catalog.url": f"sqlite:///{self.file}"})

    def keep(self, driver: Any, lifetime: str) -> None:
        cached = f"env.from_dataframe(source({self.path!r})).cache(lifetime={lifetime!r})"
        assert driver(f"globals().__setitem__('hot', {cached})") is None
        assert driver(f"is_right(hot, {self.path!r})")

    def read(self, driver: Any, env: str = "env") -> bool:
        """Whether a query has the rows of plain Spark."""
        return bool(driver(f"is_right({env}.from_dataframe(source({self.path!r})), {self.path!r})"))

    def files(self, application: str = "*") -> list[int]:
        """How many partitions lie on each node."""
        return [len(held_files(node.directory, application)) for node in self.cluster.workers]

    def held(self) -> list[int]:
        return self.files(CATALOG_APPLICATION.hex)

    def version_becomes(self, version: str) -> str:
        """Has the catalog's tables be of another version; which one they were of."""
        with sqlite3.connect(self.file) as connection:
            (before,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            connection.execute("UPDATE alembic_version SET version_num = ?", (version,))
        connection.close()
        return str(before)

    def becomes(self, condition: Callable[[], bool]) -> bool:
        return wait_for(lambda: True if condition() else None, SECONDS) is True


@pytest.fixture
def shared(
    cluster: LocalCluster, catalog_file: Path, tmp_path: Path, start_driver: Callable[..., Any]
) -> Shared:
    return Shared(cluster, catalog_file, str(tmp_path / "source"), start_driver)


def test_it_goes_with_its_lifetime_but_not_while_the_catalog_is_of_a_later_version(
    shared: Shared,
) -> None:
    first = shared.driver()
    shared.keep(first, "4 s")
    first.end()
    assert shared.held() == [1, 1]
    version = shared.version_becomes("9999")
    later = shared.driver()
    assert shared.read(later) and later("outcomes()") == ["run"]
    shared.keep(later, "1 h")
    assert later("outcomes()") == PRODUCED
    later.end()
    # Its time is over by now, but no executor hears so.
    assert shared.held() == [1, 1]
    shared.version_becomes(version)
    assert shared.becomes(lambda: sum(shared.files()) == 0)


def test_programs_that_run_side_by_side_read_each_other_s(shared: Shared) -> None:
    driver = shared.driver()
    shared.keep(driver, "application")
    assert driver(f"share('sqlite:///{shared.file}')") is None
    assert shared.read(driver, "other") and driver("outcomes(other)") == READ
    assert sum(shared.held()) == 0
    assert driver("env.invalidate_all()") is None and driver("other.close()") is None
    driver.end()
    assert shared.becomes(lambda: sum(shared.files()) == 0)
