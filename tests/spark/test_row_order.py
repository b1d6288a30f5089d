"""Where a cached plan fixes the order of its rows, what is read has that order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

# Without it Spark merges small partitions, so that there is but one file.
MANY_FILES = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "20"}
FEW_FILES = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "5"}
TINY_SPLITS = {
    "spark.sql.files.maxPartitionBytes": "4k",
    "spark.sql.files.openCostInBytes": "0",
}
LAYOUTS = {"many files": MANY_FILES, "one file": {}, "a few files": FEW_FILES}
SPLITS = {"packed": {}, "split": TINY_SPLITS}


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    """Keeps small partitions as the tasks wrote them."""
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.merge-small-partitions": False,
    }
    with Environment(spark, config=config) as environment:
        yield environment


def keep(env: Environment, df: DataFrame) -> Any:
    hot = env.from_dataframe(df).cache()
    hot.count()
    return hot


def assert_read(env: Environment) -> None:
    assert outcomes(env) == [VertexOutcome.READ, VertexOutcome.RUN]


def sizes(env: Environment) -> list[int]:
    """Of the files, in their order."""
    location = env.list_cached()[-1].location
    assert location is not None
    return [path.stat().st_size for path in sorted(location.glob("part-*.parquet"))]


def shuffled(spark: SparkSession, rows: int = 400) -> DataFrame:
    """Rows `k` in a wild order, with a wide column that makes the files larger."""
    wide = F.sha2(F.col("id").cast("string"), 512).alias("w")
    numbers = spark.range(0, rows, 1, 3).select(((F.col("id") * 7919) % rows).alias("k"), wide)
    return numbers.repartition(4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.sampled(4)
def test_every_way_to_get_rows_keeps_the_order(
    spark: SparkSession, env: Environment, settings: Any, layout: str, split: str
) -> None:
    with settings(LAYOUTS[layout] | SPLITS[split]):
        hot = keep(env, shuffled(spark).orderBy(F.desc("k")))
        expected = list(range(399, -1, -1))
        assert layout == "one file" or len(sizes(env)) > 4
        assert [row.k for row in hot.collect()] == expected
        assert_read(env)
        assert hot.toPandas()["k"].tolist() == expected
        assert [row.k for row in hot.take(25)] == expected[:25]
        assert [row.k for row in hot.limit(30).collect()] == expected[:30]
        assert [row.k for row in hot.tail(12)] == expected[-12:]
        assert [row.k for row in hot.offset(390).collect()] == expected[390:]
        assert [row.k for row in hot.toLocalIterator()] == expected
        assert hot.first() == hot.head() == hot.collect()[0]
        assert hot.toArrow()["k"].to_pylist() == expected
        assert_read(env)


Step = Callable[[DataFrame], DataFrame]
# What Spark does to rows one by one leaves their order alone.
ABOVE: dict[str, Step] = {
    "filter": lambda t: t.where("k % 3 = 0"),
    "withColumn": lambda t: t.withColumn("d", F.col("k") * 2),
    "select without the key": lambda t: t.select("w"),
    "explode": lambda t: t.select("k", F.explode(F.array(F.lit(1), F.lit(2))).alias("e")),
    "rename": lambda t: t.withColumnRenamed("w", "k2"),
    "limit": lambda t: t.limit(150),
}


def test_an_order_survives_what_stands_above(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings(FEW_FILES):
        df = shuffled(spark).orderBy("k")
        hot = keep(env, df)
        for name, step in ABOVE.items():
            assert step(hot).collect() == step(df).collect(), name
            assert_read(env)
        # Which rows it picks depends on how they are split, with plain Spark as well.
        keys = [row.k for row in hot.sample(0.5, seed=1).collect()]
        assert keys == sorted(keys)
        above = hot.where("k >= 50").cache()
        for _ in range(2):
            assert [row.k for row in above.collect()] == list(range(50, 400))
        assert_read(env)


BELOW: dict[str, Step] = {
    "limit": lambda d: d.orderBy("k").limit(37),
    "dropping the key": lambda d: d.orderBy("k").select("w"),
    "no columns": lambda d: d.orderBy("k").select(),
    "a name twice": lambda d: d.orderBy("k").select("k", "k", F.col("w").alias("K")),
    "odd names": lambda d: d.orderBy("k").select(
        F.col("k").alias("holdfast_position"), F.col("w").alias("a b")
    ),
    "filter": lambda d: d.orderBy(F.desc("k")).where("k % 2 = 0"),
    "explode": lambda d: d.orderBy("k").select(F.explode(F.array("k", F.col("k") * 2))),
    "ties broken": lambda d: d.orderBy(F.col("k") % 10, F.desc("k")),
    "offset": lambda d: d.orderBy("k").offset(11),
    "an alias": lambda d: d.orderBy("k").alias("x").select("x.k"),
    "coalesced": lambda d: d.orderBy("k").coalesce(1),
}


@pytest.mark.parametrize("name", BELOW)
@pytest.mark.sampled(4)
def test_an_order_below_the_root_is_kept(
    spark: SparkSession, env: Environment, settings: Any, name: str
) -> None:
    with settings(FEW_FILES):
        df = BELOW[name](shuffled(spark, 200))
        hot = keep(env, df)
        assert hot.collect() == df.collect()
        assert_read(env)


@pytest.mark.parametrize("union", ["true", "false"])
@pytest.mark.sampled(2)
def test_files_of_very_different_sizes_stay_in_order(
    spark: SparkSession, env: Environment, settings: Any, union: str
) -> None:
    """Spark starts with the largest piece of a file listing, wherever it stands."""
    skewed = spark.range(0, 1500, 1, 3).select(((F.col("id") * 7919) % 1500).alias("i"))
    texts = [F.sha2(F.concat_ws("-", "i", F.lit(place)), 512) for place in range(4)]
    skewed = skewed.withColumn("w", F.when(F.col("i") > 1200, F.concat(*texts)))
    more = {"parquet.block.size": "20000", "spark.sql.unionOutputPartitioning": union}
    with settings({**MANY_FILES, **TINY_SPLITS, **more}):
        hot = keep(env, skewed.orderBy("i"))
        assert 3 * min(sizes(env)) < max(sizes(env)) and sizes(env)[0] < sizes(env)[-1]
        assert [row.i for row in hot.collect()] == list(range(1500))
        assert [row.i for row in hot.where("w IS NOT NULL").collect()] == list(range(1201, 1500))
        assert [row.i for row in hot.limit(700).collect()] == list(range(700))
        assert_read(env)


def test_a_small_result_without_an_order_looks_as_in_spark(
    spark: SparkSession, env: Environment
) -> None:
    # The largest partition stands last.
    df = spark.range(0, 40_000, 1, 4).where("id % 10000 < 20 OR id > 31000")
    hot = keep(env, df)
    assert len({*sizes(env)}) > 1
    assert hot.collect() == df.collect()
    assert hot.take(15) == df.take(15)
    assert hot.tail(3) == df.tail(3)
    assert hot.rdd.glom().collect() == df.rdd.glom().collect()
    assert_read(env)
