"""Expressions that tell which file a row was read from, over tables that are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment

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
