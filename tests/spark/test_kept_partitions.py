"""Many small partitions are kept as few; what depends on partitions sees those of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pandas
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes
from tests.spark.running_jobs import SlowJob, spark_tasks

MANY, PARTITIONS = 24, 12
PRODUCED, READ = VertexOutcome.PRODUCED, VertexOutcome.READ


def keep(env: Environment, df: DataFrame) -> Any:
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert outcomes(env)[0] is PRODUCED
    return hot


def partitions(env: Environment) -> int | None:
    (listed,) = env.list_cached()
    return listed.partitions


@pytest.fixture
def unmerged(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    """Keeps small partitions as the tasks wrote them."""
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "unmerged"),
        "intermediate-result-storage.merge-small-partitions": "false",
    }
    with Environment(spark, config=config) as environment:
        yield environment


# -- small ones are merged -------------------------------------------------------------------------

_ODD = """
    SELECT id, IF(id % 3 = 0, NULL, id) AS n, double(IF(id % 5 = 0, 'NaN', -0.0)) AS d,
           float(-id) AS f, cast(id AS DECIMAL(38, 18)) AS dec, CAST(id % 2 AS BOOLEAN) AS b,
           concat('x', id) AS s, IF(id % 4 = 0, NULL, encode(string(id), 'utf-8')) AS bin,
           timestamp_seconds(id * 100000 - 1000000000) AS ts,
           TIMESTAMP_NTZ'0001-01-01 00:00:00' + make_dt_interval(CAST(id AS INT)) AS ntz,
           date_add(DATE'0001-01-01', CAST(id AS INT)) AS dt,
           array(id, NULL, 7L) AS a, map('k', id, 'l', NULL) AS m,
           named_struct('p', id, 'q', array(named_struct('r', id, 's', string(NULL)))) AS st,
           IF(id % 2 = 0, NULL, named_struct('p', id)) AS maybe,
           parse_json(concat('{"a": ', id, '}')) AS j, 'é' COLLATE UNICODE_CI AS c
    FROM range(0, 60, 1, 24)"""
MERGED: dict[str, Callable[[SparkSession], DataFrame]] = {
    "odd types": lambda spark: spark.sql(_ODD),
    "ranges": lambda spark: reduce(
        DataFrame.unionAll, (spark.range(i, i + 3, 1, 2) for i in range(20))
    ),
    "repartitioned": lambda spark: spark.range(100).repartition(MANY),
    "empty ones in between": lambda spark: spark.range(0, 400, 1, MANY).where(
        "id % 30 > 14 AND id > 30"
    ),
    "in order": lambda spark: spark.range(0, 100, 1, MANY).sortWithinPartitions(F.desc("id")),
}


@pytest.mark.parametrize("make", MERGED.values(), ids=MERGED.keys())
@pytest.mark.sampled(5)
def test_many_are_kept_as_one_with_their_rows_in_order(
    env: Environment, spark: SparkSession, make: Callable[[SparkSession], DataFrame]
) -> None:
    df = make(spark)
    hot = keep(env, df)
    assert list(map(repr, hot.collect())) == list(map(repr, df.collect()))
    assert outcomes(env)[0] is READ
    assert partitions(env) == 1


def test_large_ones_are_not_merged(env: Environment, spark: SparkSession) -> None:
    noise = "array_join(transform(sequence(1, 512), x -> sha2(id || '-' || x, 512)), '')"
    df = spark.range(0, 1000, 1, 100).selectExpr(
        "id", f"IF(id BETWEEN 400 AND 409, {noise}, NULL) AS v"
    )
    hot = keep(env, df)
    assert partitions(env) == 3
    assert hot.collect() == df.collect()


def test_they_stay_where_they_cannot_be_merged(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    with SlowJob(tmp_path) as slow:
        df = spark.range(0, MANY, 1, MANY).select(F.udf(slow.function, "long")("id").alias("id"))
        hot = env.from_dataframe(df).cache()

        def spoil() -> None:
            (staged,) = (tmp_path / "kept").glob("application-*/staging/*")
            (staged / "_merged").write_text("no directory")

        assert slow.run(hot.count, spoil) == MANY
        assert outcomes(env)[0] is PRODUCED
        assert partitions(env) == MANY
        assert [row.id for row in hot.collect()] == list(range(MANY))
        assert outcomes(env)[0] is READ


def test_they_stay_where_they_are_not_to_be_merged(
    unmerged: Environment, spark: SparkSession
) -> None:
    df = spark.range(0, 4000, 1, 60).where("id > 300").selectExpr("id", "hash(id) AS v")
    hot = keep(unmerged, df)
    numbered = [F.monotonically_increasing_id(), "id"]
    assert hot.select(*numbered).collect() == df.select(*numbered).collect()
    assert hot.rdd.getNumPartitions() == partitions(unmerged) == 60
    # Where none can see the partitions, a task reads many.
    most = spark.sparkContext.defaultParallelism + 1
    assert spark_tasks(spark, hot.selectExpr("max(id)").collect) <= most


def test_a_large_file_is_read_by_several_tasks(
    env: Environment, spark: SparkSession, settings: Any
) -> None:
    noise = F.sha2(F.col("id").cast("string"), 512)
    with settings({"parquet.block.size": "100000", "spark.sql.files.maxPartitionBytes": "200000"}):
        hot = keep(env, spark.range(0, 20_000, 1, 1).select("id", noise.alias("w")))
        assert partitions(env) == hot.rdd.getNumPartitions() == 1
        assert spark_tasks(spark, hot.selectExpr("max(id)", "max(w)").collect) > 2


# -- what depends on partitions --------------------------------------------------------------------


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
    "first and last": lambda df: df.selectExpr("first(id)", "last(id)").collect(),
    "collect_list": lambda df: df.selectExpr("collect_list(id)").collect(),
    "monotonically_increasing_id": lambda df: df.select(
        F.monotonically_increasing_id(), "id"
    ).collect(),
    "spark_partition_id": lambda df: sorted(
        df.groupBy(F.spark_partition_id().alias("p")).count().collect()
    ),
    "sample": lambda df: df.sample(fraction=0.01, seed=3).collect(),
    "dropDuplicates": lambda df: sorted(df.dropDuplicates(["k"]).collect()),
    "limit": lambda df: df.limit(1500).agg(F.sum("id")).collect(),
    "ties in a window": lambda df: sorted(
        df.selectExpr("id", "row_number() OVER (PARTITION BY k ORDER BY k) AS r")
        .where("r = 3")
        .collect()
    ),
    "coalesce": lambda df: df.coalesce(3).rdd.glom().map(len).collect(),
    "zipWithIndex": lambda df: df.rdd.zipWithIndex().map(lambda each: each[1] + each[0].id).sum(),
    "mapInPandas": lambda df: df.mapInPandas(_sizes, "n LONG, first LONG").collect(),
    "rows as they come": lambda df: df.where("k < 3").select("id").collect(),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.sampled(7, 6)
def test_a_table_answers_as_what_it_was_computed_from(
    spark: SparkSession, env: Environment, name: str
) -> None:
    hot = keep(env, source(spark))
    assert ASKED[name](hot) == ASKED[name](source(spark))
    assert outcomes(env)[0] is READ


def test_files_are_written_as_without_the_cache(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    for name, df in {"plain": source(spark), "ours": keep(env, source(spark))}.items():
        df.write.parquet(str(tmp_path / name))
        assert len(list((tmp_path / name).glob("*.parquet"))) == PARTITIONS - 1


def test_shuffled_rows_have_the_partitions_that_they_had(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    values = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "20k",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1k",
        "spark.sql.shuffle.partitions": "11",
    }
    with settings(values):
        df = source(spark).groupBy((F.col("id") % 4001).alias("g")).agg(F.max("v").alias("v"))
        hot = keep(env, df)
        lengths = df.rdd.glom().map(len).collect()
        assert hot.rdd.glom().map(len).collect() == lengths
        assert _quantiles(hot, 0.02) == _quantiles(df, 0.02)
        assert len(lengths) > 4
