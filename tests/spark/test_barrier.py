"""Stages whose tasks run all at once, over kept tables and kept themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from tests.spark.conftest import Tally

_HOW_FILES_ARE_PACKED = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
INPUTS: dict[str, Callable[[SparkSession], DataFrame]] = {
    "partitions": lambda spark: spark.range(0, 1000, 1, 2).toDF("k"),
    "projected": lambda spark: spark.range(0, 1000, 1, 2).selectExpr("id % 7 AS k"),
    "repartitioned": lambda spark: spark.range(0, 1000, 1, 4).repartition(2).toDF("k"),
    "aggregated": lambda spark: spark.range(1000).groupBy((F.col("id") % 7).alias("k")).count(),
    "sorted": lambda spark: spark.range(0, 1000, 1, 2).toDF("k").orderBy("k"),
    "limited": lambda spark: spark.range(0, 1000, 1, 2).toDF("k").limit(10),
}


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from pa.Table.from_batches([batch, batch]).select(["k"]).to_batches()


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.sampled(3)
def test_the_stage_runs_over_what_is_kept(env: Environment, spark: SparkSession, name: str) -> None:
    df = INPUTS[name](spark)
    hot = env.from_dataframe(df).cache()
    hot.collect()
    expected = sorted(df.mapInArrow(doubled, "k long", barrier=True).collect())
    assert sorted(hot.mapInArrow(doubled, "k long", barrier=True).collect()) == expected
    assert hot.mapInPandas(unchanged, df.schema, barrier=True).count() == df.count()
    assert hot.filter("k > 3").mapInPandas(unchanged, df.schema, barrier=True).count() > 0


@pytest.mark.parametrize("name", ["partitions", "sorted"])
def test_an_rdd_of_what_is_kept_has_barrier_stages(
    env: Environment, spark: SparkSession, name: str
) -> None:
    df = INPUTS[name](spark)
    hot = env.from_dataframe(df).cache()
    assert hot.rdd.barrier().mapPartitions(list).collect() == df.collect()
    assert sorted(hot.rdd.map(list).barrier().mapPartitions(list).collect()) == sorted(
        map(list, df.collect())
    )


def test_a_table_of_a_barrier_stage_is_kept_over_one_that_is(
    env: Environment, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    df = INPUTS["partitions"](spark)
    env.from_dataframe(df).cache().collect()
    hot = env.from_dataframe(df.mapInArrow(doubled, "k long", barrier=True)).cache()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert sorted(hot.collect()) == sorted([*df.collect(), *df.collect()])
    assert not caplog.records
    assert "read:" in env.explain_kept(hot)


def test_partitions_are_read_one_by_one(
    env: Environment, spark: SparkSession, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    counted = F.udf(tally.counting(lambda value: value), "long")
    df = spark.range(0, 1000, 1, 2).select(counted("id").alias("k"))
    hot = env.from_dataframe(df).cache()
    hot.collect()
    calls = tally.count()
    tasks = hot.mapInPandas(_one_row, "rows long", barrier=True)
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert [row.rows for row in tasks.collect()] == [500, 500]
    assert tally.count() == calls
    assert not caplog.records


def _one_row(batches: Iterable[Any]) -> Iterator[Any]:
    frames = list(batches)
    yield frames[0].head(1).assign(rows=sum(map(len, frames)))[["rows"]]


def test_more_kept_partitions_than_slots_are_computed_again(
    env: Environment, spark: SparkSession, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    files = str(tmp_path / "files")
    spark.range(0, 300, 1, 3).toDF("k").write.parquet(files)
    one_for_each = {key: str(1 << 40) for key in _HOW_FILES_ARE_PACKED}
    for key, value in one_for_each.items():
        spark.conf.set(key, value)
    try:
        hot = env.read.parquet(files).cache()
        assert len(hot.collect()) == 300
    finally:
        for key in one_for_each:
            spark.conf.unset(key)
    assert env.list_cached()[0].partitions == 3
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert hot.mapInPandas(unchanged, "k long", barrier=True).count() == 300
    assert "3 kept partitions has only 2 slots" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        dealt_out = hot.repartition(2).mapInPandas(unchanged, "k long", barrier=True)
        assert dealt_out.count() == 300
    assert not caplog.records
