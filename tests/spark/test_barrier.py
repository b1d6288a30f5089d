"""Stages whose tasks run all at once, over kept tables and kept themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.testing import assert_reads
from tests.spark.conftest import Tally

INPUTS: dict[str, Callable[[Environment], DataFrame]] = {
    "partitions": lambda env: env.range(0, 1000, 1, 2).toDF("k"),
    "projected": lambda env: env.range(0, 1000, 1, 2).selectExpr("id % 7 AS k"),
    "repartitioned": lambda env: env.range(0, 1000, 1, 4).repartition(2).toDF("k"),
    "aggregated": lambda env: env.range(1000).groupBy((F.col("id") % 7).alias("k")).count(),
    "sorted": lambda env: env.range(0, 1000, 1, 2).toDF("k").orderBy("k"),
    "limited": lambda env: env.range(0, 1000, 1, 2).toDF("k").limit(10),
}


def unchanged(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from pa.Table.from_batches([batch, batch]).select(["k"]).to_batches()


def one_row(batches: Iterable[Any]) -> Iterator[Any]:
    frames = list(batches)
    yield frames[0].head(1).assign(rows=sum(map(len, frames)))[["rows"]]


def at_once(df: DataFrame, function: Any = unchanged, schema: Any = "k long") -> DataFrame:
    return df.mapInPandas(function, schema, barrier=True)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.sampled(6)
def test_the_stage_runs_over_what_is_kept(env: Environment, name: str) -> None:
    expected = INPUTS[name](env).collect()
    hot = INPUTS[name](env).cache()
    hot.collect()
    assert hot.mapInArrow(doubled, "k long", barrier=True).count() == 2 * len(expected)
    assert sorted(at_once(hot, schema=hot.schema).collect()) == sorted(expected)


@pytest.mark.parametrize("name", ["sorted", "partitions"])
@pytest.mark.sampled(2)
def test_an_rdd_of_what_is_kept_has_barrier_stages(env: Environment, name: str) -> None:
    expected = INPUTS[name](env).collect()
    hot = INPUTS[name](env).cache()
    assert hot.rdd.barrier().mapPartitions(list).collect() == expected
    mapped = hot.rdd.map(list).barrier().mapPartitions(list).collect()
    assert sorted(mapped) == sorted(map(list, expected))


def test_a_table_of_a_barrier_stage_is_kept_over_one_that_is(
    env: Environment, caplog: pytest.LogCaptureFixture, tally: Tally
) -> None:
    counted = F.udf(tally.counting(lambda value: value), "long")
    numbers = env.range(0, 1000, 1, 2).select(counted("id").alias("k")).cache()
    numbers.collect()
    calls = tally.count()
    hot = numbers.mapInArrow(doubled, "k long", barrier=True).cache()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert sorted(row.k for row in hot.collect()) == sorted([*range(1000)] * 2)
        # Partitions are read one by one.
        assert [row.rows for row in at_once(numbers, one_row, "rows long").collect()] == [500, 500]
    assert tally.count() == calls
    assert not caplog.records
    assert_reads(hot)


def test_more_kept_partitions_than_slots_are_computed_again(
    env: Environment, settings: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    files = str(tmp_path / "files")
    env.spark.range(0, 300, 1, 3).toDF("k").write.parquet(files)
    packed = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    with settings(dict.fromkeys(packed, str(1 << 40))):
        hot = env.read.parquet(files).cache()
        assert len(hot.collect()) == 300
    assert env.list_cached()[0].partitions == 3
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert at_once(hot).count() == 300
        assert "3 kept partitions has only 2 slots" in caplog.text
        caplog.clear()
        assert at_once(hot.repartition(2)).count() == 300
    assert not caplog.records
