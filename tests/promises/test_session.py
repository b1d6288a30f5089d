"""What an attached session does that is otherwise a session of plain Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import StorageLevel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_computes, assert_reads, outcomes
from tests.promises.conftest import rows

COUNTS = "SELECT a, count(*) AS n FROM trips GROUP BY a"
PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


def counts(session: SparkSession) -> DataFrame:
    return session.sql(COUNTS)


# -- what keeps and releases -----------------------------------------------------------------------

KEEPS: dict[str, Callable[[SparkSession], object]] = {
    "cache()": lambda s: counts(s).cache(),
    "persist()": lambda s: counts(s).persist(),
    "persist(DISK_ONLY)": lambda s: counts(s).persist(StorageLevel.DISK_ONLY),
    "cacheTable": lambda s: (counts(s).createOrReplaceTempView("v"), s.catalog.cacheTable("v")),
    "CACHE TABLE": lambda s: (
        counts(s).createOrReplaceTempView("v"),
        s.sql("CACHE LAZY TABLE v"),
    ),
    "CACHE TABLE AS SELECT": lambda s: s.sql(f"CACHE LAZY TABLE v AS {COUNTS}"),
}
RELEASES: dict[str, Callable[[SparkSession], object]] = {
    "unpersist()": lambda s: counts(s).unpersist(),
    "clearCache()": lambda s: s.catalog.clearCache(),
    "CLEAR CACHE": lambda s: s.sql("CLEAR CACHE"),
    "invalidate_cache()": lambda s: counts(s).cache().invalidate_cache(),
}


@pytest.mark.parametrize("how", KEEPS)
def test_what_keeps(session: SparkSession, plain: SparkSession, how: str) -> None:
    KEEPS[how](session)
    assert rows(counts(session)) == rows(counts(plain))
    assert outcomes(session) in ([PRODUCED, RUN], [PRODUCED])
    assert_reads(counts(session))
    assert rows(counts(session).where("a > 1")) == rows(counts(plain).where("a > 1"))
    assert READ in outcomes(session)


@pytest.mark.parametrize("how", RELEASES)
def test_what_releases(session: SparkSession, how: str) -> None:
    counts(session).cache().count()
    assert_reads(counts(session))
    RELEASES[how](session)
    assert_computes(counts(session))


def test_memory_only_is_spark_s_own(session: SparkSession) -> None:
    kept = counts(session).persist(StorageLevel.MEMORY_ONLY)
    assert kept.count() == 5 and kept.storageLevel.useMemory and not kept.storageLevel.useDisk
    assert session.holdfast.list_cached() == []


# -- who reads it ----------------------------------------------------------------------------------

READERS: dict[str, Callable[[DataFrame], object]] = {
    "collect": lambda df: len(df.collect()),
    "count": lambda df: df.count(),
    "toPandas": lambda df: len(df.toPandas()),
    "toArrow": lambda df: df.toArrow().num_rows,
    "toLocalIterator": lambda df: len([*df.toLocalIterator()]),
    "foreach": lambda df: df.foreach(lambda row: None),
    "take": lambda df: len(df.take(3)),
    "tail": lambda df: len(df.tail(2)),
    "first": lambda df: df.orderBy("a").first(),
    "head": lambda df: len(df.head(9)),
    "isEmpty": lambda df: df.isEmpty(),
    "show": lambda df: df.show(),
    "describe": lambda df: df.describe("n").count(),
    "a join with itself": lambda df: df.join(df.withColumnRenamed("n", "m"), "a").count(),
    "a subquery": lambda df: df.where("n = (SELECT 8)").count(),
}


@pytest.mark.parametrize("how", READERS)
def test_who_reads(
    session: SparkSession, plain: SparkSession, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    counts(session).cache().count()
    expected = READERS[how](counts(plain)), capsys.readouterr().out
    assert (READERS[how](counts(session)), capsys.readouterr().out) == expected
    assert READ in outcomes(session)


def test_writes_and_commands_read(session: SparkSession, tmp_path: Path) -> None:
    counts(session).cache().count()
    path = str(tmp_path / "out")
    counts(session).write.parquet(path)
    assert READ in outcomes(session)
    session.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet {COUNTS}")
    assert session.read.parquet(path).count() == 5
    assert len(session.holdfast.list_cached()) == 1


def test_libraries_read(session: SparkSession) -> None:
    kept = counts(session).cache()
    vectors = VectorAssembler(inputCols=["n"], outputCol="v").transform(kept)
    assert vectors.count() == 5 and kept.rdd.count() == 5
    assert kept.to_dataframe().count() == 5
    (listed,) = session.holdfast.list_cached()
    assert listed.rows == 5 and listed.hits >= 2


def test_a_stream_reads(session: SparkSession, plain: SparkSession, tmp_path: Path) -> None:
    kept = counts(session).cache()
    plain.range(3).write.parquet(str(tmp_path / "in"))
    seen: list[int] = []
    query = (
        session.readStream.schema("id LONG")
        .parquet(str(tmp_path / "in"))
        .writeStream.option("checkpointLocation", str(tmp_path / "progress"))
        .foreachBatch(lambda batch, _: seen.append(batch.join(kept, batch.id == kept.a).count()))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert seen == [3]
    assert_reads(counts(session))


# -- what is shown ---------------------------------------------------------------------------------


def test_what_a_job_did_and_would_do_is_shown(
    session: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = counts(session).cache()
    kept.explain()
    assert "to be kept by the next job" in capsys.readouterr().out
    kept.count()
    kept.explain()
    shown = capsys.readouterr().out
    assert shown.startswith("== Holdfast ==\nread: ") and "== Physical Plan ==" in shown
    (listed,) = session.holdfast.list_cached()
    assert (listed.rows, listed.partitions > 0, listed.reasons) == (5, True, ())
    assert "produced" in repr(session.holdfast.last_job_result)


def test_why_nobody_else_finds_it_is_said(
    session: SparkSession, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, logger="holdfast"):
        table = session.sql("SELECT uuid() AS u FROM trips").cache(lifetime="1 h")
        table.count()
    said = "only this very table reads it: Uuid, which is not deterministic"
    (listed,) = session.holdfast.list_cached()
    table.explain()
    for shown in (repr(session.holdfast.list_cached()), capsys.readouterr().out, caplog.text):
        assert said in shown
    assert [each.sentence for each in listed.matches_only_itself] == [said]


# -- how it ends -----------------------------------------------------------------------------------


def test_a_detached_session_is_plain_spark_s(spark: SparkSession, tmp_path: Path) -> None:
    own = spark.newSession()
    home = tmp_path / "k"
    attached = holdfast.attach(own, {"intermediate-result-storage.directory": str(home)})
    assert attached is own and isinstance(attached.range(3), DataFrame)
    attached.range(3).cache().count()
    assert [*home.rglob("*.parquet")]
    holdfast.detach(attached)
    assert not [*home.rglob("*.parquet")]
    assert own.range(3).count() == 3 and not hasattr(own.range(3), "invalidate_cache")


def test_a_block_keeps_until_its_end(spark: SparkSession, tmp_path: Path) -> None:
    config = {"intermediate-result-storage.directory": str(tmp_path / "k")}
    with Environment(spark, config=config) as env:
        numbers = env.range(9).where("id > 4")
        with numbers.cache() as hot:
            assert hot.count() == 4
            assert_reads(env.range(9).where("4 < id"))
        assert_computes(env.range(9).where("4 < id"))
        assert numbers.count() == 4


# -- what can't be kept, and what goes wrong -------------------------------------------------------


def test_lost_files_are_made_again(
    session: SparkSession, plain: SparkSession, tmp_path: Path
) -> None:
    kept = counts(session).cache()
    kept.count()
    for file in (tmp_path / "k").rglob("part-*.parquet"):
        file.unlink()
    assert rows(kept) == rows(counts(plain))
    result = session.holdfast.last_job_result
    assert result is not None and result.losses
    assert rows(counts(session)) == rows(counts(plain))
    assert outcomes(session) == [READ, RUN]


def test_errors_are_the_program_s_own(session: SparkSession) -> None:
    session.conf.set("spark.sql.ansi.enabled", "true")
    failing = session.sql("SELECT a, 1 / (a - 3) AS x FROM trips").cache()
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        failing.agg(F.sum("x")).collect()
    assert failing.where("a < 3").select("a").count() == 24


def test_a_source_that_changes_is_not_kept(
    session: SparkSession, plain: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n")
    hot = session.read.csv(str(source)).cache()
    source.write_text("3\n4\n5\n")
    assert hot.count() == 3
    assert [each.rows for each in session.holdfast.list_cached()] == [0]
    assert session.read.csv(str(source)).count() == 3
