"""Programs that read each other's results; here each is an Environment on one directory.

What is promised of them first is in `tests/promises/test_shared.py`.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table, VertexOutcome
from holdfast.cli.main import main
from holdfast.errors import ConfigurationError
from holdfast.testing import assert_computes, assert_reads, outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
Start = Callable[..., Environment]


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    spark.range(0, 500, 1, 3).selectExpr("id % 50 AS k", "id AS v").write.parquet(path)
    return path


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make(**config: Any) -> Environment:
        settings = {"intermediate-result-storage.directory": str(tmp_path / "kept")} | config
        started.append(Environment(spark, config=settings))
        return started[-1]

    yield make
    for each in started:
        each.close()


def by_key(env: Environment, orders: str) -> Table:
    table = env.read.parquet(orders)
    return table.groupBy("k").agg(F.sum("v").alias("total"), F.count("*").alias("n"))


def asked(table: Table) -> list[Row]:
    return sorted(table.where("k < 7").collect())


@pytest.fixture
def kept(start: Start, orders: str) -> list[Row]:
    """What an earlier program has kept for an hour."""
    with start() as first:
        return asked(by_key(first, orders).cache(lifetime="1 h"))


def test_who_has_kept_it_is_shown(
    start: Start, orders: str, kept: list[Row], capsys: pytest.CaptureFixture[str]
) -> None:
    later = start()
    by_key(later, orders).explain()
    shown = capsys.readouterr().out
    assert "read: Aggregate [k], [k, sum(v) AS total" in shown and "kept by " in shown
    assert asked(by_key(later, orders)) == kept
    assert later.last_job_result is not None
    read = later.last_job_result.vertices[0]
    assert read.kept_by is not None and f"kept by {read.kept_by}" in repr(later.last_job_result)
    # Cached here as well, it is this program's own, too.
    assert asked(by_key(later, orders).cache()) == kept and outcomes(later) == READ
    assert [each.partitions for each in later.list_cached()] == [read.partitions]


WAYS: dict[str, Callable[[Table], Any]] = {
    "rdd": lambda t: t.rdd.collect(),
    "to_dataframe": lambda t: t.to_dataframe().collect(),
    "toLocalIterator": lambda t: list(t.toLocalIterator()),
    "toPandas": lambda t: [[*map(int, row)] for row in t.toPandas().itertuples(index=False)],
}


def test_every_way_of_reading_reads_it(start: Start, orders: str, kept: list[Row]) -> None:
    later = start()
    for way, read in WAYS.items():
        found = read(by_key(later, orders).where("k < 7"))
        assert sorted(map(tuple, found)) == [*map(tuple, kept)], way


@pytest.mark.parametrize(
    ("value", "seen"),
    [("CAST(X'FFFE' AS STRING)", "hex(v)"), ("date_add(DATE'9999-12-31', 400)", "year(v)")],
)
def test_values_that_python_has_not_are_shared(
    start: Start, spark: SparkSession, value: str, seen: str
) -> None:
    with start() as first:
        assert first.range(3).selectExpr("id", f"{value} AS v").cache(lifetime="1 h").count() == 3
        assert outcomes(first) == PRODUCED
    later = start()
    found = later.range(3).selectExpr("id", f"{value} AS v").selectExpr(seen)
    assert_reads(found)
    assert found.collect() == spark.range(3).selectExpr(f"{value} AS v").selectExpr(seen).collect()


@pytest.mark.parametrize("lifetime", ["soon", "0 s", -1])
def test_what_is_no_lifetime_is_refused(start: Start, orders: str, lifetime: Any) -> None:
    env = start()
    with pytest.raises(ConfigurationError, match=r"storage\.lifetime.*such as 7 d"):
        by_key(env, orders).cache(lifetime=lifetime)
    assert env.list_cached() == []


def test_it_is_found_no_more_when_its_lifetime_is_over(start: Start, orders: str) -> None:
    with start() as first:
        # A number alone is of milliseconds, as everywhere.
        asked(by_key(first, orders).cache(lifetime="300"))
    time.sleep(0.4)
    assert_computes(by_key(start(), orders))


def test_what_a_command_releases_is_computed_again_by_a_program_that_runs(
    start: Start, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        assert main([*words, "--json", "--directory", str(tmp_path / "kept")]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    env = start()
    hot = by_key(env, orders).cache()
    for outcome in (PRODUCED, READ):
        asked(hot)
        assert outcomes(env) == outcome
    (listed,) = command("ls")
    assert (listed["rows"], listed["hits"], listed["state"]) == (50, 2, "complete")
    (shown,) = command("show", listed["id"])
    assert sum(each["rows"] for each in shown["partitions"]) == 50
    command("rm", listed["dataset"])
    assert not any(Path(each["location"]).exists() for each in shown["partitions"])
    asked(hot)
    assert outcomes(env) == PRODUCED
    (again,) = command("ls")
    assert again["dataset"] == listed["dataset"] and again["id"] != listed["id"]
    env.close()
    assert command("ls") == []


# -- why it isn't read -----------------------------------------------------------------------------


def test_what_is_over_other_files_is_stale(
    start: Start, orders: str, kept: list[Row], spark: SparkSession, capsys: Any
) -> None:
    spark.range(10).selectExpr("id AS k", "id AS v").write.mode("overwrite").parquet(orders)
    later = start()
    by_key(later, orders).explain()
    shown = capsys.readouterr().out
    assert "similar, and not read: Aggregate over orders\n  kept by " in shown
    # What is like nothing that was kept, is like nothing.
    later.read.parquet(orders).groupBy("k").agg(F.max("v")).explain()
    assert "similar" not in capsys.readouterr().out
    assert asked(by_key(later, orders).cache()) == [(k, k, 1) for k in range(7)]
    assert outcomes(later) == PRODUCED
    shown = repr(later.last_job_result)
    assert "not read: kept by " in shown and ", stale: " in shown


def test_other_settings_are_another_result(
    start: Start, orders: str, kept: list[Row], settings: Any
) -> None:
    later = start()
    with settings({"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}):
        asked(by_key(later, orders).cache())
        assert outcomes(later) == PRODUCED
        setting = "under other settings: spark.sql.mapKeyDedupPolicy is 'LAST_WIN' and was not set"
        assert setting in repr(later.last_job_result)
        later.invalidate_all()
    assert_reads(by_key(later, orders))


def test_programs_with_another_java_or_other_classes_share_nothing(
    start: Start, orders: str, kept: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        # There is one Java, and what is added to the classes stays.
        changed.setattr("holdfast.api.environment.program_environment", lambda spark: "f" * 64)
        assert_computes(by_key(start(), orders))
    assert_reads(by_key(start(), orders))


def test_what_was_invalidated_is_said_to_be_gone(
    start: Start, orders: str, kept: list[Row], tmp_path: Path
) -> None:
    later = start()
    by_key(later, orders).invalidate_cache()
    assert not list((tmp_path / "kept" / "shared" / "datasets").iterdir())
    asked(by_key(later, orders).cache())
    assert outcomes(later) == PRODUCED
    assert "gone since: it was invalidated" in repr(later.last_job_result)


@pytest.mark.parametrize("state", ["none", "damaged", "locked"])
def test_without_a_catalog_every_program_answers_for_itself(
    start: Start,
    orders: str,
    state: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("holdfast.catalog.catalog_database._PATIENCE_SECONDS", 0.3)
    database = tmp_path / "kept" / "catalog" / "catalog.db"
    database.parent.mkdir(mode=0o700, parents=True)
    if state == "damaged":
        database.write_bytes(b"no database" * 1000)
    locked = sqlite3.connect(":memory:" if state != "locked" else database, isolation_level=None)
    locked.execute("BEGIN EXCLUSIVE")
    config = {"catalog.url": "none"} if state == "none" else {}
    one, other = start(**config), start(**config)
    hot = by_key(one, orders).cache(lifetime="1 h")
    rows = asked(hot)
    assert outcomes(one) == PRODUCED
    assert asked(hot) == rows and outcomes(one) == READ
    assert asked(by_key(other, orders)) == rows and outcomes(other) == [VertexOutcome.RUN]
    locked.close()
    warned = [each for each in caplog.messages if "not shared with other programs" in each]
    assert bool(warned) == (state != "none")
