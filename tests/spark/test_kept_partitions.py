"""What depends on partitions gives over kept rows what it gives over computed ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.runtime.vertex_outcome import VertexOutcome

PARTITIONS = 12


def source(spark: SparkSession) -> DataFrame:
    """Numbers whose distribution differs from partition to partition; one has no rows."""
    value = "pmod(hash(id), 1000003) * (1 + id DIV 1000) AS v"
    numbers = spark.range(0, 1000 * PARTITIONS, 1, PARTITIONS)
    return numbers.where("id NOT BETWEEN 5000 AND 5999").selectExpr("id", value, "id % 97 AS k")


def _sizes(batches: Any) -> Any:
    for batch in batches:
        yield pandas.DataFrame({"n": [len(batch)], "first": [batch["id"].iloc[0]]})


def _quantiles(df: DataFrame, error: float) -> object:
    return df.approxQuantile("v", [0.1, 0.25, 0.5, 0.9], error)


ASKED: dict[str, Callable[[DataFrame], object]] = {
    "approxQuantile": partial(_quantiles, error=0.01),
    "percentile_approx": lambda df: df.selectExpr("percentile_approx(v, 0.5, 20)").collect(),
    "percentile_approx of groups": lambda df: sorted(
        df.groupBy("k").agg(F.expr("percentile_approx(v, 0.3, 5)")).collect()
    ),
    "approx_count_distinct": lambda df: df.selectExpr("approx_count_distinct(v)").collect(),
    "first and last": lambda df: df.selectExpr("first(id)", "last(id)").collect(),
    "collect_list": lambda df: df.selectExpr("collect_list(id)").collect(),
    "max_by": lambda df: df.selectExpr("max_by(id, k)").collect(),
    "monotonically_increasing_id": lambda df: df.select(
        F.monotonically_increasing_id(), "id"
    ).collect(),
    "spark_partition_id": lambda df: sorted(
        df.groupBy(F.spark_partition_id().alias("p")).count().collect()
    ),
    "rand of a seed": lambda df: df.where(F.rand(7) < 0.02).collect(),
    "sample": lambda df: df.sample(fraction=0.01, seed=3).collect(),
    "randomSplit": lambda df: [part.count() for part in df.randomSplit([1.0, 3.0], seed=5)],
    "dropDuplicates": lambda df: sorted(df.dropDuplicates(["k"]).collect()),
    "limit": lambda df: df.limit(1500).agg(F.sum("id")).collect(),
    "ties in a window": lambda df: sorted(
        df.selectExpr("id", "row_number() OVER (PARTITION BY k ORDER BY k) AS r")
        .where("r = 3")
        .collect()
    ),
    "coalesce": lambda df: df.coalesce(3).rdd.glom().map(len).collect(),
    "zipWithIndex": lambda df: df.rdd.zipWithIndex().map(lambda each: each[1] + each[0].id).sum(),
    "the number of partitions": lambda df: df.rdd.getNumPartitions(),
    "mapInPandas": lambda df: df.mapInPandas(_sizes, "n LONG, first LONG").collect(),
    "rows as they come": lambda df: df.where("k < 3").select("id").collect(),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED.keys())
def test_a_table_answers_as_what_it_was_computed_from(
    spark: SparkSession, env: Environment, ask: Callable[[DataFrame], object]
) -> None:
    expected = ask(source(spark))
    hot = env.from_dataframe(source(spark)).cache()
    hot.count()
    assert ask(hot) == expected
    assert env.last_job_result is not None
    assert env.last_job_result.vertices[0].outcome is VertexOutcome.READ


def test_files_are_written_as_without_the_cache(
    spark: SparkSession, env: Environment, tmp_path: Any
) -> None:
    hot = env.from_dataframe(source(spark)).cache()
    hot.count()
    for name, df in {"plain": source(spark), "ours": hot}.items():
        df.write.parquet(str(tmp_path / name))
    written = [len(list((tmp_path / name).glob("*.parquet"))) for name in ("plain", "ours")]
    assert written == [PARTITIONS - 1] * 2


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_shuffled_rows_have_the_partitions_that_they_had(
    spark: SparkSession, env: Environment, settings: Any, adaptive: str
) -> None:
    with settings(
        {
            "spark.sql.adaptive.enabled": adaptive,
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
            "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
            "spark.sql.shuffle.partitions": "11",
        }
    ):
        df = source(spark).groupBy((F.col("id") % 4001).alias("g")).agg(F.max("v").alias("v"))
        expected = [_quantiles(df, 0.02), df.rdd.glom().map(len).collect()]
        hot = env.from_dataframe(df).cache()
        hot.count()
        assert [_quantiles(hot, 0.02), hot.rdd.glom().map(len).collect()] == expected
        assert len(expected[1]) > 4


def test_small_partitions_that_are_not_merged_stay_as_they_are(
    spark: SparkSession, tmp_path: Any
) -> None:
    df = spark.range(0, 4000, 1, 60).where("id > 300").selectExpr("id", "hash(id) AS v")
    expected = df.select(F.monotonically_increasing_id(), "id").collect()
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.merge-small-partitions": "false",
    }
    with Environment(spark, config=config) as env:
        hot = env.from_dataframe(df).cache()
        hot.count()
        assert hot.select(F.monotonically_increasing_id(), "id").collect() == expected
        assert hot.rdd.getNumPartitions() == env.list_cached()[-1].partitions == 60
