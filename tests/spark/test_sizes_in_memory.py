"""What is small on disk and large in memory is as large to Spark's optimizer as its rows are."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment

ROWS = 40_000
# None of their files has a megabyte; in memory they have 16 MB or more.
LARGE = {
    "texts": "repeat(string(id % 3), 600) AS v",
    "binaries": "encode(repeat(string(id % 3), 600), 'utf-8') AS v",
    "arrays": "array_repeat(id % 3, 60) AS v",
    "texts in arrays": "array_repeat(repeat('x', 60), 10) AS v",
    "maps": "map('k', repeat('v', 500)) AS v",
    "structs": "named_struct('a', id % 3, 'b', repeat('b', 500)) AS v",
    "decimals": ", ".join(f"CAST(id % 3 AS DECIMAL(38, 9)) AS d{n}" for n in range(30)),
}


def source(spark: SparkSession, columns: str) -> DataFrame:
    return spark.sql(f"SELECT id, {columns} FROM range(0, {ROWS}, 1, 4)")


def keep(env: Environment, df: DataFrame) -> Any:
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert env.list_cached()[-1].bytes < 1 << 20
    return hot


def joins(df: Any) -> set[str]:
    plan = str(df.to_dataframe()._jdf.queryExecution().executedPlan())
    return {each for each in ("BroadcastHashJoin", "SortMergeJoin") if each in plan}


@pytest.mark.parametrize("columns", LARGE.values(), ids=LARGE)
@pytest.mark.sampled(4)
def test_what_is_large_in_memory_is_not_broadcast(
    spark: SparkSession, env: Environment, columns: str
) -> None:
    hot = keep(env, source(spark, columns))
    other = env.range(8_000_000)
    for joined in (other.join(hot, "id"), hot.join(other, "id"), other.join(hot, "id", "left")):
        assert joins(joined) == {"SortMergeJoin"}


def test_what_is_small_in_memory_is_broadcast(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    hot = keep(env, source(spark, "string(id % 7) AS v"))
    other = env.range(8_000_000)
    assert joins(other.join(hot, "id")) == joins(hot.join(other, "id")) == {"BroadcastHashJoin"}
    with settings({"spark.sql.sources.fileCompressionFactor": "1000.0"}):
        assert joins(other.join(hot, "id")) == {"BroadcastHashJoin"}


def test_kept_results_are_joined_as_large_as_they_are(
    spark: SparkSession, env: Environment
) -> None:
    texts = keep(env, source(spark, LARGE["texts"]).repartition(60, "id"))
    # Of many small ones few were made, which have the size of all of their rows.
    assert env.list_cached()[-1].partitions < 10
    numbers = keep(env, source(spark, "id * 2 AS w").where("id < 100"))
    assert joins(texts.join(numbers, "id")) == {"BroadcastHashJoin"}
    wide = keep(env, source(spark, LARGE["arrays"]).withColumnRenamed("v", "w"))
    assert joins(texts.join(wide, "id")) == {"SortMergeJoin"}


def test_a_result_of_an_earlier_version_is_not_broadcast(
    spark: SparkSession, env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # These measured nothing.
    measured = "holdfast.taskexecutor.outputs.staged_files.measured"
    monkeypatch.setattr(measured, lambda _, partitions: partitions)
    hot = keep(env, source(spark, "id % 7 AS v"))
    other = env.range(8_000_000)
    assert joins(other.join(hot, "id")) == {"SortMergeJoin"}
    assert joins(other.join(F.broadcast(hot), "id")) == {"BroadcastHashJoin"}
