"""What is handed out goes on to read what is kept, whatever becomes of the cache."""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment, Table
from tests.spark.conftest import Tally

EVENTUALLY_SECONDS = 60.0

HAND_OUTS: dict[str, Callable[[Table], Callable[[], int]]] = {
    "rdd": lambda table: table.rdd.map(lambda row: row.id).sum,
    "rdd of a DataFrame": lambda table: table.to_dataframe().rdd.map(lambda row: row.id).sum,
    "toJSON": lambda table: table.toJSON().map(lambda text: int(text[6:-1])).sum,
    "to_dataframe": lambda table: _sum(table.to_dataframe()),
    "derived": lambda table: _sum(table.to_dataframe().filter("id >= 0").repartition(2)),
    "pandas_api": lambda table: _sum_of_pandas(table.pandas_api()),
}


def _sum(df: DataFrame) -> Callable[[], int]:
    return lambda: sum(row.id for row in df.collect())


def _sum_of_pandas(frame: Any) -> Callable[[], int]:
    return lambda: int(frame["id"].sum())


@pytest.fixture
def hot(env: Environment, spark: SparkSession) -> Table:
    table = env.from_dataframe(spark.range(0, 100, 1, 2)).cache()
    table.collect()
    return table


@pytest.mark.parametrize("name", HAND_OUTS)
@pytest.mark.sampled(6)
def test_it_outlives_the_cache(
    env: Environment, spark: SparkSession, hot: Table, name: str, tmp_path: Path
) -> None:
    total = HAND_OUTS[name](hot)
    hot.invalidate_cache()
    _collect_garbage(env, spark)
    assert total() == 4950
    del total
    _eventually_nothing_lies_in(env, spark, tmp_path / "kept")


@pytest.mark.parametrize("name", ["rdd", "to_dataframe", "pandas_api"])
def test_it_outlives_the_files(hot: Table, env: Environment, name: str) -> None:
    total = HAND_OUTS[name](hot)
    location = env.list_cached()[0].location
    assert location is not None
    shutil.rmtree(location)
    assert total() == 4950
    assert hot.count() == 100


def test_what_was_dropped_is_removed_with_the_cache(
    env: Environment, hot: Table, tmp_path: Path
) -> None:
    # Handles of the JVM's objects are dropped in cycles, which Python may not collect for long.
    gc.disable()
    try:
        hot.where("id >= 0").to_dataframe()._jdf.queryExecution().toString()
        hot.count()
        env.invalidate_all()
        deadline = time.monotonic() + EVENTUALLY_SECONDS
        while list((tmp_path / "kept").rglob("*.parquet")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        gc.enable()


def test_it_reads_rather_than_computes(env: Environment, spark: SparkSession, tally: Tally) -> None:
    counted = spark.udf.register("counted", tally.counting(lambda value: value), "long")
    hot = env.from_dataframe(spark.range(10).select(counted("id").alias("id"))).cache()
    hot.collect()
    calls = tally.count()
    for make in HAND_OUTS.values():
        assert make(hot)() == 45
    assert tally.count() == calls


def _collect_garbage(env: Environment, spark: SparkSession) -> None:
    gc.collect()
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    # What is no longer read goes with what is released next.
    env.invalidate_all()


def _eventually_nothing_lies_in(env: Environment, spark: SparkSession, kept: Path) -> None:
    deadline = time.monotonic() + EVENTUALLY_SECONDS
    while list(kept.rglob("*.parquet")):
        assert time.monotonic() < deadline, list(kept.rglob("*.parquet"))
        # Spark's driver itself remembers the last plan that a thread of it ran.
        spark.range(1).collect()
        _collect_garbage(env, spark)
        time.sleep(0.1)
