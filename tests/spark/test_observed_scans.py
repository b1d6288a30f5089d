"""Expressions that show which file a row was read from, over tables that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_computes, assert_reads, outcomes

PLACE = ("input_file_name() f", "input_file_block_start() s", "input_file_block_length() l")

QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "selected": lambda df: df.selectExpr("id", *PLACE),
    "filtered": lambda df: df.filter("input_file_name() LIKE '%source%'"),
    "grouped": lambda df: df.groupBy(F.input_file_name()).count(),
    "above others": lambda df: df.filter("id > 3").select("id").limit(99).selectExpr("id", *PLACE),
    "beside itself": lambda df: df.selectExpr("id", *PLACE).union(
        df.selectExpr("id", "'' f", "0L s", "0L l")
    ),
    "in a common table expression": lambda df: df.sparkSession.sql(
        "WITH w AS (SELECT * FROM {t}) SELECT input_file_name() AS f, a.id FROM w a", t=df
    ),
    "shuffled": lambda df: df.repartition(2).selectExpr("id", *PLACE),
}


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "source")
    spark.range(0, 50, 1, 2).write.parquet(path)
    return path


def test_rows_are_those_of_the_source(env: Environment, spark: SparkSession, source: str) -> None:
    hot, plain = env.read.parquet(source).cache(), spark.read.parquet(source)
    hot.collect()
    for name, query in QUERIES.items():
        if name == "shuffled":
            assert_reads(query(hot))
        assert sorted(query(hot).collect()) == sorted(query(plain).collect()), name


@pytest.fixture
def programs(spark: SparkSession, tmp_path: Path) -> Callable[..., Environment]:
    """A program that keeps what it caches for others, each in a session with settings."""

    def program(**settings: str) -> Environment:
        session = spark.newSession()
        for key, value in settings.items():
            session.conf.set(f"spark.sql.files.{key}", value)
        keys = {"directory": str(tmp_path / "kept"), "lifetime": "1 h"}
        config = {f"intermediate-result-storage.{key}": value for key, value in keys.items()}
        return Environment(session, config=config)

    return program


# Whether other programs find it that read files in other parts.
METADATA = {
    "file_path": True,
    "file_name": True,
    "file_size": True,
    "file_modification_time": True,
    "row_index": True,
    "file_block_start": False,
    "file_block_length": False,
}


def test_another_program_finds_what_does_not_depend_on_how_it_splits_files(
    programs: Callable[..., Environment], spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "source")
    spark.range(0, 900, 1, 2).write.option("parquet.block.size", "512").parquet(path)

    def tables(env: Environment) -> dict[str, DataFrame]:
        read = env.read.parquet(path)
        return {name: read.selectExpr("id", f"_metadata.{name} AS m") for name in METADATA}

    with programs() as first:
        for table in tables(first).values():
            table.cache().count()
    with programs() as alike:
        for table in tables(alike).values():
            assert_reads(table)
    with programs(maxPartitionBytes="900", openCostInBytes="1") as other:
        for name, table in tables(other).items():
            (assert_reads if METADATA[name] else assert_computes)(table)
            if name in ("row_index", "file_block_start"):
                expected = other.plain(other.wrap(table)).collect()
                assert sorted(table.collect()) == sorted(expected)
                assert (VertexOutcome.READ in outcomes(other)) is METADATA[name]


def test_files_that_are_named_are_those_of_the_source(
    programs: Callable[..., Environment], spark: SparkSession, source: str
) -> None:
    expected = sorted(spark.read.parquet(source).inputFiles())
    for _ in range(2):
        with programs() as env:
            hot = env.read.parquet(source).where("id > 3").cache()
            for table in (hot, hot.groupBy("id").count()):
                assert sorted(table.inputFiles()) == expected
                table.collect()
                assert sorted(table.inputFiles()) == expected
                # Of what is read, none are named, as of what Spark itself has cached.
                assert table.to_dataframe().inputFiles() == []
