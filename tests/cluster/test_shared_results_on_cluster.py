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


def test_what_a_killed_driver_has_kept_is_read_by_the_next_one(shared: Shared) -> None:
    first = shared.driver()
    shared.keep(first, "1 h")
    assert first("outcomes()") == PRODUCED
    assert first("hosts()") == ["127.0.0.2", "127.0.0.3"]
    first.program.kill_all()
    held = shared.held()
    assert held == [1, 1]
    # The driver's own goes with its lease, and an executor is killed as well.
    assert shared.becomes(lambda: shared.files() == held)
    shared.cluster.kill_task_executor(0)
    shared.cluster.restart_task_executor(0)
    later = shared.driver()
    plan = f"env.substituted(env.from_dataframe(source({shared.path!r})))"
    assert "webhdfs://" in later(f"{plan}._jdf.queryExecution().toString()")
    said = later(f"env.explain_kept(env.from_dataframe(source({shared.path!r})))")
    assert "read: " in said and "kept by" in said
    assert shared.read(later) and later("outcomes()") == READ
    reading = f"lambda: env.from_dataframe(source({shared.path!r})).collect()"
    found = later(f"localities({reading})")
    assert sorted(set(found["NODE_LOCAL"])) == ["127.0.0.2", "127.0.0.3"]
    # Lost as a whole on one node, it is computed again.
    shared.cluster.restart_task_executor(0, empty=True)
    assert shared.read(later)
    assert later(f"env.from_dataframe(source({shared.path!r})).cache().invalidate_cache()") is None
    assert shared.becomes(lambda: sum(shared.held()) == 0)
    later.end()
    assert shared.becomes(lambda: sum(shared.files()) == 0)


@pytest.mark.soak
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


@pytest.mark.soak
def test_programs_that_run_side_by_side_read_each_other_s(shared: Shared) -> None:
    driver = shared.driver()
    shared.keep(driver, "application")
    assert driver("globals().__setitem__('other', Environment(spark, CONFIGURATION))") is None
    assert shared.read(driver, "other")
    assert driver("[each.outcome.value for each in other.last_job_result.vertices]") == READ
    assert sum(shared.held()) == 0
    assert driver("env.invalidate_all()") is None and driver("other.close()") is None
    driver.end()
    assert shared.becomes(lambda: sum(shared.files()) == 0)
