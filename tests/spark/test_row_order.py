"""Where a cached plan fixes the order of its rows, what is read has that order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.runtime.vertex_outcome import VertexOutcome

pytestmark = pytest.mark.usefixtures("many_small_files")

READ = [VertexOutcome.READ, VertexOutcome.RUN]

# Without it Spark merges small partitions, so that there is but one file.
MANY_FILES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "20",
}
FEW_FILES = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "5"}
TINY_SPLITS = {
    "spark.sql.files.maxPartitionBytes": "4k",
    "spark.sql.files.openCostInBytes": "0",
}


def assert_read(env: Environment) -> None:
    assert env.last_job_result is not None
    assert [vertex.outcome for vertex in env.last_job_result.vertices] == READ


def keep(env: Environment, df: DataFrame) -> Table:
    """Caches a query and has a job keep its rows."""
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert env.list_cached()[-1].location is not None
    return hot


def files(env: Environment) -> int:
    return env.list_cached()[-1].partitions


def shuffled(spark: SparkSession, rows: int = 400) -> DataFrame:
    """Rows `k` in a wild order, with a wide column that makes the files larger."""
    return (
        spark.range(0, rows, 1, 3)
        .select(
            ((F.col("id") * 7919) % rows).alias("k"),
            F.sha2(F.col("id").cast("string"), 512).alias("w"),
        )
        .repartition(4)
    )


LAYOUTS = {"one file": {}, "a few files": FEW_FILES, "many files": MANY_FILES}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.sampled(2)
def test_every_way_to_get_rows_keeps_the_order(
    spark: SparkSession, env: Environment, settings: Any, layout: dict[str, str]
) -> None:
    with settings({**layout, **TINY_SPLITS}):
        hot = keep(env, shuffled(spark).orderBy(F.desc("k")))
        expected = list(range(399, -1, -1))
        if layout is MANY_FILES:
            assert files(env) > 16
        if layout is FEW_FILES:
            assert 1 < files(env) <= 16
        assert [row.k for row in hot.collect()] == expected
        assert_read(env)
        assert hot.toPandas()["k"].tolist() == expected
        assert_read(env)
        assert [row.k for row in hot.take(25)] == expected[:25]
        assert [row.k for row in hot.limit(30).collect()] == expected[:30]
        assert [row.k for row in hot.tail(12)] == expected[-12:]
        assert [row.k for row in hot.offset(390).collect()] == expected[390:]
        assert [row.k for row in hot.toLocalIterator()] == expected
        assert hot.first() == hot.head() == hot.collect()[0]
        assert hot.toArrow()["k"].to_pylist() == expected
        assert_read(env)


@pytest.mark.parametrize("union", ["true", "false"])
def test_an_order_survives_a_partitioning_aware_union(
    spark: SparkSession, env: Environment, settings: Any, union: str
) -> None:
    with settings({**FEW_FILES, **TINY_SPLITS, "spark.sql.unionOutputPartitioning": union}):
        hot = keep(env, shuffled(spark).orderBy("k"))
        assert 1 < files(env) <= 16
        assert [row.k for row in hot.collect()] == list(range(400))
        assert [row.k for row in hot.limit(150).collect()] == list(range(150))
        assert [row.k for row in hot.where("k % 2 = 0").collect()] == list(range(0, 400, 2))
        assert_read(env)


Step = Callable[[DataFrame], DataFrame]
# What Spark does to rows one by one leaves their order alone.
ABOVE: dict[str, Step] = {
    "filter": lambda t: t.where("k % 3 = 0"),
    "withColumn": lambda t: t.withColumn("d", F.col("k") * 2),
    "select without the key": lambda t: t.select("w"),
    "explode": lambda t: t.select("k", F.explode(F.array(F.lit(1), F.lit(2))).alias("e")),
    "rename": lambda t: t.withColumnRenamed("w", "k2"),
    "sample": lambda t: t.sample(0.5, seed=1),
    "nothing": lambda t: t,
}


@pytest.mark.parametrize("layout", [FEW_FILES, MANY_FILES], ids=["a few files", "many files"])
def test_an_order_survives_what_stands_above(
    spark: SparkSession, env: Environment, settings: Any, layout: dict[str, str]
) -> None:
    with settings(layout):
        df = shuffled(spark).orderBy("k")
        hot = keep(env, df)
        for name, step in ABOVE.items():
            if name == "sample":
                # Which rows it picks depends on how they are dealt, with plain Spark as well.
                keys = [row.k for row in step(hot).collect()]
                assert keys == sorted(keys)
                continue
            assert step(hot).collect() == step(df).collect(), name
            assert_read(env)


BELOW: dict[str, Step] = {
    "orderBy and limit": lambda d: d.orderBy("k").limit(37),
    "orderBy, dropping the key": lambda d: d.orderBy("k").select("w"),
    "orderBy and filter": lambda d: d.orderBy(F.desc("k")).where("k % 2 = 0"),
    "orderBy and explode": lambda d: d.orderBy("k").select(F.explode(F.array("k", F.col("k") * 2))),
    "orderBy and withColumn": lambda d: d.orderBy("k").withColumn("n", F.lit(1)),
    "orderBy of ties broken": lambda d: d.orderBy(F.col("k") % 10, F.desc("k")),
    "orderBy with offset": lambda d: d.orderBy("k").offset(11),
    "orderBy and an alias": lambda d: d.orderBy("k").alias("x").select("x.k"),
    "coalesced": lambda d: d.orderBy("k").coalesce(1),
}


@pytest.mark.parametrize("layout", [FEW_FILES, MANY_FILES], ids=["a few files", "many files"])
def test_an_order_below_the_root_is_kept(
    spark: SparkSession, env: Environment, settings: Any, layout: dict[str, str]
) -> None:
    with settings(layout):
        for name, step in BELOW.items():
            df = step(shuffled(spark, 200))
            hot = keep(env, df)
            assert hot.collect() == df.collect(), name
            assert_read(env)
            hot.invalidate_cache()
            env.invalidate_all()


def test_an_order_survives_a_view(spark: SparkSession, env: Environment, settings: Any) -> None:
    with settings(MANY_FILES):
        shuffled(spark).orderBy("k").createOrReplaceTempView("in_order")
        try:
            keep(env, spark.table("in_order"))
            assert files(env) > 16
            rows = env.sql("SELECT k FROM in_order WHERE k >= 100").collect()
            assert [row.k for row in rows] == list(range(100, 400))
            assert_read(env)
        finally:
            spark.catalog.dropTempView("in_order")


@pytest.mark.parametrize("key", ["none", "duplicate", "renamed"])
def test_an_order_survives_odd_columns(
    spark: SparkSession, env: Environment, settings: Any, key: str
) -> None:
    shapes: dict[str, Step] = {
        "none": lambda d: d.select(),
        "duplicate": lambda d: d.select("k", "k", F.col("w").alias("K")),
        "renamed": lambda d: d.select(
            F.col("k").alias("holdfast_position"), F.col("w").alias("a b")
        ),
    }
    with settings(MANY_FILES):
        df = shapes[key](shuffled(spark).orderBy("k"))
        hot = keep(env, df)
        assert files(env) > 16
        assert hot.collect() == df.collect()
        assert_read(env)


@pytest.mark.parametrize("layout", [FEW_FILES, MANY_FILES], ids=["a few files", "many files"])
def test_files_of_very_different_sizes_stay_in_order(
    spark: SparkSession, env: Environment, settings: Any, layout: dict[str, str]
) -> None:
    """Spark starts with the largest piece of a file listing, whichever place it has."""
    skewed = spark.range(0, 1500, 1, 3).select(((F.col("id") * 7919) % 1500).alias("i"))
    texts = [F.sha2(F.concat_ws("-", "i", F.lit(place)), 512) for place in range(4)]
    skewed = skewed.withColumn("w", F.when(F.col("i") > 1200, F.concat(*texts)))
    with settings({**layout, **TINY_SPLITS, "parquet.block.size": "20000"}):
        hot = keep(env, skewed.orderBy("i"))
        sizes = [path.stat().st_size for path in _parts(env)]
        assert max(sizes) > 3 * min(sizes)
        assert sizes[0] < sizes[-1]
        assert [row.i for row in hot.collect()] == list(range(1500))
        assert_read(env)
        assert [row.i for row in hot.where("w IS NOT NULL").collect()] == list(range(1201, 1500))
        assert_read(env)


def _parts(env: Environment) -> list[Path]:
    location = env.list_cached()[-1].location
    assert location is not None
    return sorted(location.glob("part-*.parquet"))


def test_an_order_that_was_read_is_kept_by_the_next_cache(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings(MANY_FILES):
        inner = keep(env, shuffled(spark).orderBy("k"))
        outer = inner.where("k >= 50").cache()
        assert [row.k for row in outer.collect()] == list(range(50, 400))
        assert [row.k for row in outer.collect()] == list(range(50, 400))
        assert_read(env)


# What has no order by its plan still looks as it does without Holdfast, while it is small.
UNORDERED: dict[str, Callable[[SparkSession], DataFrame]] = {
    "a range": lambda spark: spark.range(100),
    "a range in five partitions": lambda spark: spark.range(0, 100, 1, 5).withColumn(
        "x", F.col("id") * 2
    ),
    "dealt to three": lambda spark: spark.range(0, 100, 1, 2).repartition(3),
    "dealt by a key": lambda spark: spark.range(100).repartition(4, "id"),
    "a local relation": lambda spark: spark.createDataFrame([(3,), (1,), (2,)], "a int"),
    "partitions of different sizes": lambda spark: spark.range(0, 100, 1, 4).where(
        "id < 2 OR id BETWEEN 30 AND 49 OR id > 60"
    ),
}


@pytest.mark.parametrize("make", UNORDERED.values(), ids=UNORDERED.keys())
def test_a_small_unordered_result_is_shown_as_spark_shows_it(
    spark: SparkSession,
    env: Environment,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[SparkSession], DataFrame],
) -> None:
    df = make(spark)
    hot = keep(env, df)
    df.show(15)
    expected = capsys.readouterr().out
    hot.show(15)
    assert capsys.readouterr().out == expected
    assert_read(env)
    assert hot.collect() == df.collect()
    assert hot.tail(3) == df.tail(3)


SHARES = {
    "upwards": lambda share: share,
    "downwards": lambda share: 19 - share,
    "up and down": lambda share: (share * 7) % 20,
}


@pytest.mark.parametrize("share", SHARES.values(), ids=SHARES.keys())
@pytest.mark.parametrize("split", [{}, TINY_SPLITS], ids=["packed", "split"])
@pytest.mark.sampled(2)
def test_files_of_any_sizes_are_read_in_their_order_by_one_scan(
    spark: SparkSession, env: Environment, settings: Any, share: Any, split: dict[str, str]
) -> None:
    df = spark.range(0, 4000, 1, 20)
    grows = share(F.floor(F.col("id") / 200))
    df = df.select("id", F.sha2(F.col("id").cast("string"), 256).alias("w"))
    hot = keep(env, df.where((F.col("id") % 200 <= 10 + 9 * grows) & (F.col("id") >= 0)))
    sizes = [path.stat().st_size for path in _parts(env)]
    assert len(sizes) == 20 and len(set(sizes)) > 10
    with settings(split):
        rows = hot.collect()
        assert_read(env)
        assert rows == env.plain(hot).collect()
        assert hot.where("id % 3 = 0").tail(5) == env.plain(hot).where("id % 3 = 0").tail(5)
        read: list[DataFrame] = []
        env.run_action(hot, "looks", read.append)
    assert str(read[0]._jdf.queryExecution().optimizedPlan()).count("Relation [") == 1


def test_small_files_are_read_by_as_many_tasks_as_their_bytes_ask_for(
    spark: SparkSession, env: Environment
) -> None:
    hot = keep(env, spark.range(0, 1000, 1, 60))
    assert files(env) == 60
    # What is above it isn't known.
    assert tasks_of_scan(hot.selectExpr("max(id)").to_dataframe()) == 60
    read: list[int] = []
    counts = hot.selectExpr("max(id)")
    env.run_action(counts, "counts", lambda df: read.append(tasks_of_scan(df)))
    assert 0 < read[0] <= spark.sparkContext.defaultParallelism + 1
    assert_read(env)


def tasks_of_scan(df: Any) -> int:
    scan = df._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
    return int(scan.inputRDDs().apply(0).getNumPartitions())


def test_an_rdd_has_the_partitions_that_were_kept_in_their_order(
    spark: SparkSession, env: Environment
) -> None:
    df = spark.range(0, 100, 1, 4).where("id < 2 OR id BETWEEN 30 AND 49 OR id > 60")
    hot = keep(env, df)
    assert files(env) == 4
    assert hot.rdd.glom().collect() == df.rdd.glom().collect()
    assert_read(env)


ODD = """
SELECT CASE WHEN id % 4 = 0 THEN NULL ELSE named_struct('a', id, 'A b', array(-0.0D, NULL)) END s,
       map(id, CASE WHEN id % 3 = 0 THEN DOUBLE('NaN') ELSE -0.0D END) AS m,
       CASE WHEN id % 2 = 0 THEN -0.0F ELSE 0.0F END AS `x`, id AS x,
       unhex('00ff') AS b, CAST(id AS DECIMAL(38, 7)) AS d, repeat('é', CAST(id AS INT)) AS t
FROM range(0, 60, 1, 7)
"""


@pytest.mark.parametrize(
    "narrow",
    [
        lambda t: t,
        lambda t: t.select("m", "s.a"),
        lambda t: t.select(),
        lambda t: t.where("s IS NULL OR t > 'é'"),
        lambda t: t.where("false"),
    ],
    ids=["all", "some", "no columns", "filtered", "nothing"],
)
def test_odd_values_are_read_in_the_order_of_their_files(
    spark: SparkSession, env: Environment, narrow: Step
) -> None:
    hot = keep(env, spark.sql(ODD))
    assert files(env) == 7
    rows = list(map(repr, narrow(hot).collect()))
    assert_read(env)
    assert rows == list(map(repr, narrow(spark.sql(ODD)).collect()))


@pytest.mark.parametrize("damage", ["gone", "cut", "noise"])
def test_a_file_that_is_lost_is_noticed_by_the_task_that_reads_it_with_others(
    spark: SparkSession, env: Environment, damage: str
) -> None:
    df = spark.range(0, 600, 1, 6)
    hot = keep(env, df)
    paths = _parts(env)

    def lose(table: DataFrame) -> list[Row]:
        status = paths[4].stat()
        if damage == "gone":
            paths[4].unlink()
        else:
            noise = status.st_size if damage == "noise" else 100
            paths[4].write_bytes(b"x" * noise)
            paths[4].with_name(f".{paths[4].name}.crc").unlink(missing_ok=True)
        return table.collect()

    again: list[Any] = [lose, DataFrame.collect]
    rows = env.run_action(hot, "loses", lambda table: again.pop(0)(table))
    assert rows == df.collect()
    assert env.last_job_result is not None
    assert len(env.last_job_result.losses) == 1


def test_rows_are_equal_where_order_is_not_defined(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    with settings(MANY_FILES):
        df = shuffled(spark).groupBy((F.col("k") % 50).alias("g")).count()
        hot = keep(env, df)
        assert files(env) > 16
        expected = sorted(df.collect())
        assert sorted(hot.collect()) == expected
        assert hot.orderBy("g").take(2) == [Row(g=0, count=8), Row(g=1, count=8)]
        assert_read(env)
