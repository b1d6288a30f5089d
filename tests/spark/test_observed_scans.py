"""Expressions that tell which file a row was read from, over tables that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome

PLACE = ("input_file_name() f", "input_file_block_start() s", "input_file_block_length() l")
QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "selected": lambda df: df.selectExpr("id", *PLACE),
    "filtered": lambda df: df.filter("input_file_name() LIKE '%source%'"),
    "grouped": lambda df: df.groupBy(F.input_file_name()).count(),
    "above others": lambda df: df.filter("id > 3").select("id").limit(100).selectExpr("id", *PLACE),
    "beside itself": lambda df: df.selectExpr("id", *PLACE).union(
        df.selectExpr("id", "'' f", "0L s", "0L l")
    ),
    "shuffled": lambda df: df.repartition(2).selectExpr("id", *PLACE),
}


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_those_of_the_source(
    env: Environment, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = str(tmp_path / "source")
    spark.range(0, 50, 1, 2).write.parquet(source)
    hot = env.read.parquet(source).cache()
    hot.collect()
    table = QUERIES[name](hot)
    expected = sorted(QUERIES[name](spark.read.parquet(source)).collect())
    assert sorted(table.collect()) == expected
    explained = env.explain_kept(env.wrap(table))
    assert ("read: " if name == "shuffled" else "input_file_name()") in explained


def test_a_common_table_expression_is_looked_into(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    spark.range(0, 50, 1, 2).write.parquet(source)
    hot = env.read.parquet(source).cache()
    hot.collect()
    query = "WITH w AS (SELECT * FROM {t}) SELECT input_file_name() AS f, a.id FROM w a"
    expected = sorted(spark.sql(query, t=spark.read.parquet(source)).collect())
    assert sorted(env.sql(query, t=hot).collect()) == expected


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


@pytest.mark.parametrize("name", METADATA)
def test_another_program_finds_what_does_not_depend_on_how_it_splits_files(
    programs: Callable[..., Environment], spark: SparkSession, tmp_path: Path, name: str
) -> None:
    source = str(tmp_path / "source")
    spark.range(0, 900, 1, 2).write.option("parquet.block.size", "512").parquet(source)
    found = []
    for settings in ({}, {}, {"maxPartitionBytes": "900", "openCostInBytes": "1"}):
        with programs(**settings) as env:
            query = env.read.parquet(source).selectExpr("id", f"_metadata.{name} AS m")
            rows = sorted(query.cache().collect())
            assert env.last_job_result is not None
            found.append(env.last_job_result.vertices[0].outcome is VertexOutcome.READ)
            assert rows == sorted(query.to_dataframe().collect())
            plain = env.read.parquet(source).to_dataframe()
            assert rows == sorted(plain.selectExpr("id", f"_metadata.{name} AS m").collect())
    assert found == [False, True, METADATA[name]]


def test_files_that_are_named_are_those_of_the_source(
    programs: Callable[..., Environment], spark: SparkSession, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    spark.range(0, 50, 1, 2).write.parquet(source)
    expected = sorted(spark.read.parquet(source).inputFiles())
    for _ in range(2):
        with programs() as env:
            hot = env.read.parquet(source).where("id > 3").cache()
            for table in (hot, hot.groupBy("id").count()):
                for _ in range(2):
                    assert sorted(table.inputFiles()) == expected
                    table.collect()
                # Of what is read, none are named, as of what Spark itself has cached.
                assert table.to_dataframe().inputFiles() == []
                assert table.to_dataframe().select("id").inputFiles() == []
