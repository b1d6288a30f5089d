"""Programs that read each other's results; here each is an Environment on one directory."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from holdfast import Environment, Table
from holdfast.api import environment
from holdfast.errors import ConfigurationError
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.program_environment import program_environment
from tests.catalog.results import pass_time

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
RUN = [VertexOutcome.RUN]
Start = Callable[..., Environment]


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    spark.range(0, 5_000, 1, 3).selectExpr("id % 50 AS k", "id AS v").write.parquet(str(path))
    return path


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make(**config: Any) -> Environment:
        keys = {key.replace("_", "-"): value for key, value in config.items()}
        settings = {
            f"intermediate-result-storage.{key}": value
            for key, value in {"directory": str(tmp_path / "kept"), **keys}.items()
            if key != "catalog"
        }
        if "catalog" in config:
            settings["catalog.url"] = config["catalog"]
        started.append(Environment(spark, config=settings))
        return started[-1]

    yield make
    for each in started:
        each.close()


def by_key(env: Environment, orders: Path) -> Table:
    table = env.read.parquet(str(orders))
    return table.groupBy("k").agg(F.sum("v").alias("total"), F.count("*").alias("n"))


def asked(table: Table) -> list[Row]:
    return sorted(table.where("k < 7").collect())


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def shown(env: Environment) -> str:
    return repr(env.last_job_result)


def test_a_result_with_a_lifetime_is_read_by_a_later_program(
    start: Start, orders: Path, spark: SparkSession
) -> None:
    plain = sorted(
        spark.read.parquet(str(orders))
        .groupBy("k")
        .agg(F.sum("v"), F.count("*"))
        .where("k < 7")
        .collect()
    )
    first = start()
    rows = asked(by_key(first, orders).cache(lifetime="1 h"))
    assert outcomes(first) == PRODUCED
    first.close()
    later = start()
    assert asked(by_key(later, orders)) == rows == plain
    assert outcomes(later) == READ
    (read, _) = later.last_job_result.vertices  # type: ignore[union-attr]
    assert read.kept_by is not None and f"kept by {read.kept_by}" in repr(later.last_job_result)
    # Cached here as well, it is this program's own, too.
    hot = by_key(later, orders).cache()
    assert asked(hot) == rows and outcomes(later) == READ
    assert [each.partitions for each in later.list_cached()] == [read.partitions]


@pytest.mark.parametrize(
    ("value", "seen"),
    [("CAST(X'FFFE' AS STRING)", "hex(v)"), ("date_add(DATE'9999-12-31', 400)", "year(v)")],
)
def test_values_that_python_has_not_are_shared(
    start: Start, spark: SparkSession, value: str, seen: str
) -> None:
    first = start()
    assert first.range(3).selectExpr("id", f"{value} AS v").cache(lifetime="1 h").count() == 3
    assert outcomes(first) == PRODUCED
    first.close()
    plain = spark.range(3).selectExpr(f"{value} AS v").selectExpr(seen).collect()
    later = start()
    found = later.range(3).selectExpr("id", f"{value} AS v").selectExpr(seen)
    assert found.collect() == plain
    assert outcomes(later) == READ


def test_a_result_of_a_program_that_runs_is_read_beside_it(start: Start, orders: Path) -> None:
    one, other = start(), start()
    rows = asked(by_key(one, orders).cache())
    assert asked(by_key(other, orders)) == rows and outcomes(other) == READ
    one.close()
    assert asked(by_key(other, orders)) == rows and outcomes(other) == RUN


def test_the_lifetime_can_be_configured(start: Start, orders: Path) -> None:
    first = start(lifetime="2 h")
    asked(by_key(first, orders).cache())
    asked(first.read.parquet(str(orders)).where("k = 3").cache(lifetime="application"))
    first.close()
    later = start()
    asked(by_key(later, orders))
    assert outcomes(later) == READ
    later.read.parquet(str(orders)).where("k = 3").count()
    assert outcomes(later) == RUN


@pytest.mark.parametrize("lifetime", ["soon", "0 s", -1, "7"])
def test_what_is_no_lifetime_is_refused(start: Start, orders: Path, lifetime: Any) -> None:
    env = start()
    table = by_key(env, orders)
    if lifetime == "7":
        # A number alone is of milliseconds, as everywhere.
        table.cache(lifetime=lifetime)
        return
    with pytest.raises(ConfigurationError, match=r"storage\.lifetime.*such as 7 d"):
        table.cache(lifetime=lifetime)
    assert env.list_cached() == []


def test_it_is_found_no_more_when_its_lifetime_is_over(start: Start, orders: Path) -> None:
    first, later = start(), start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    pass_time(later._manager.results._catalog._catalog(), 4000.0)  # type: ignore[attr-defined]
    asked(by_key(later, orders))
    assert outcomes(later) == RUN


def test_a_source_that_has_changed_is_another_computation(
    start: Start, orders: Path, spark: SparkSession
) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    time.sleep(0.01)
    spark.range(10).selectExpr("id AS k", "id AS v").write.mode("overwrite").parquet(str(orders))
    later = start()
    assert asked(by_key(later, orders)) == [(k, k, 1) for k in range(7)]
    assert outcomes(later) == RUN
    hot = by_key(later, orders).cache()
    assert asked(hot) == [(k, k, 1) for k in range(7)]
    assert outcomes(later) == PRODUCED
    assert re.search(r"not read: kept by .*, stale: .*parquet.* came since", shown(later))


def test_other_settings_are_another_result(start: Start, orders: Path, spark: SparkSession) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    later = start()
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "LAST_WIN")
    try:
        asked(by_key(later, orders).cache())
        assert outcomes(later) == PRODUCED
        setting = "under other settings: spark.sql.mapKeyDedupPolicy is 'LAST_WIN' and was not set"
        assert setting in shown(later)
        later.invalidate_all()
    finally:
        spark.conf.unset("spark.sql.mapKeyDedupPolicy")
    asked(by_key(later, orders))
    assert outcomes(later) == READ


def random_rows(table: Table) -> Table:
    return table.withColumn("r", F.rand())


def function_rows(table: Table) -> Table:
    @F.udf(LongType(), useArrow=False)
    def drawn(value: int) -> int:
        return value

    return table.withColumn("r", drawn.asNondeterministic()("k"))


@pytest.mark.parametrize("doubtful", [random_rows, function_rows])
def test_what_means_nothing_elsewhere_is_not_offered(
    start: Start, orders: Path, doubtful: Callable[[Table], Table]
) -> None:
    one, other = start(), start()
    one_table = doubtful(by_key(one, orders)).cache(lifetime="1 h")
    one_table.count()
    assert outcomes(one) == PRODUCED
    doubtful(by_key(other, orders)).count()
    assert outcomes(other) == RUN


def test_programs_with_another_java_or_other_classes_share_nothing(
    start: Start, orders: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = program_environment(spark)
    assert re.fullmatch("[0-9a-f]{64}", known) and program_environment(spark) == known
    first = start()
    rows = asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    with monkeypatch.context() as changed:
        changed.setattr(environment, "program_environment", lambda spark: "f" * 64)
        other = start()
        assert asked(by_key(other, orders)) == rows
        assert outcomes(other) == RUN
    later = start()
    assert asked(by_key(later, orders)) == rows
    assert outcomes(later) == READ


def test_an_rdd_is_its_session_s_alone(start: Start, spark: SparkSession) -> None:
    frame = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2)]), "a INT, b INT")
    one, other = start(), start()
    assert one.from_dataframe(frame).cache(lifetime="1 h").count() == 1
    assert outcomes(one) == PRODUCED
    other.from_dataframe(frame).count()
    assert outcomes(other) == RUN


def test_invalidation_counts_for_all(start: Start, orders: Path) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    other = start()
    by_key(other, orders).invalidate_cache()
    asked(by_key(other, orders))
    assert outcomes(other) == RUN
    assert not list((Path(orders).parent / "kept" / "shared" / "datasets").iterdir())


def test_a_result_there_is_no_room_for_is_not_kept(start: Start, orders: Path) -> None:
    env = start(max_size="100 b")
    hot = by_key(env, orders).cache(lifetime="1 h")
    rows = asked(hot)
    assert len(rows) == 7
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert "there is no room for its" in repr(env.last_job_result)
    assert not list((Path(orders).parent / "kept" / "shared").glob("*/*"))
    assert asked(hot) == rows


def test_explain_says_why_what_is_similar_is_not_read(
    start: Start, orders: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    later = start()
    spark.range(3).selectExpr("id AS k", "id AS v").write.mode("append").parquet(str(orders))
    by_key(later, orders).where("k < 7").explain()
    said = capsys.readouterr().out
    assert re.search(r"similar, and not read: Aggregate over orders\n  kept by .*came since", said)
    # What is like nothing that was kept, is like nothing.
    later.read.parquet(str(orders)).groupBy("k").agg(F.max("v")).explain()
    assert "similar" not in capsys.readouterr().out
    by_key(later, orders).invalidate_cache()


def test_what_was_evicted_or_invalidated_is_said_to_be_gone(start: Start, orders: Path) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    later = start()
    by_key(later, orders).invalidate_cache()
    asked(by_key(later, orders).cache())
    assert outcomes(later) == PRODUCED
    assert "gone since: it was invalidated" in shown(later)


def test_explain_shows_who_has_kept_what_would_be_read(
    start: Start, orders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start()
    asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    by_key(start(), orders).explain()
    said = capsys.readouterr().out
    assert "read: Aggregate [k], [k, sum(v) AS total" in said and "kept by " in said


@pytest.mark.parametrize("form", ["rdd", "to_dataframe", "toLocalIterator", "toPandas"])
def test_every_way_of_reading_reads_it(start: Start, orders: Path, form: str) -> None:
    first = start()
    rows = asked(by_key(first, orders).cache(lifetime="1 h"))
    first.close()
    later = start()
    table = by_key(later, orders).where("k < 7")
    match form:
        case "rdd":
            found = table.rdd.collect()
        case "to_dataframe":
            found = table.to_dataframe().collect()
        case "toLocalIterator":
            found = list(table.toLocalIterator())
        case _:
            found = [Row(*map(int, row)) for row in table.toPandas().itertuples(index=False)]
    assert sorted(tuple(row) for row in found) == [tuple(row) for row in rows]


@pytest.mark.parametrize("state", ["none", "damaged", "locked"])
def test_without_a_catalog_every_program_answers_for_itself(
    start: Start, orders: Path, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = orders.parent / "kept"
    (directory / "catalog").mkdir(mode=0o700, parents=True)
    locked = None
    if state == "damaged":
        (directory / "catalog" / "catalog.db").write_bytes(b"no database" * 1000)
    elif state == "locked":
        locked = sqlite3.connect(directory / "catalog" / "catalog.db", isolation_level=None)
        locked.execute("BEGIN EXCLUSIVE")
    config = {"catalog": "none"} if state == "none" else {}
    one, other = start(**config), start(**config)
    hot = by_key(one, orders).cache(lifetime="1 h")
    rows = asked(hot)
    assert outcomes(one) == PRODUCED
    assert asked(hot) == rows and outcomes(one) == READ
    assert asked(by_key(other, orders)) == rows and outcomes(other) == RUN
    if locked is not None:
        locked.execute("ROLLBACK")
        locked.close()
    warned = [each for each in caplog.messages if "not shared with other programs" in each]
    assert bool(warned) == (state != "none")
