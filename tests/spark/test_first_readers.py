"""Each way to have Spark run a plan computes what is cached once."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark import StorageLevel
from pyspark.accumulators import Accumulator
from pyspark.ml import Pipeline
from pyspark.ml.feature import (
    StandardScaler,
    StringIndexer,
    VectorAssembler,
)
from pyspark.ml.recommendation import ALS
from pyspark.ml.stat import Correlation
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import holdfast

ROWS = 40
Way = Callable[[DataFrame, Path], object]
"""Runs a plan with the cached table in it; gives what it has computed, None if there is no plain
Spark that would compute the same."""
_numbers = itertools.count()


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A new session, attached."""
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    attached = holdfast.attach(own, {"intermediate-result-storage.directory": str(tmp_path / "k")})
    yield attached
    if hasattr(attached, "holdfast"):
        holdfast.detach(attached)


def counted(session: SparkSession) -> tuple[DataFrame, Accumulator[int]]:
    """A table, and how many of its rows have been computed."""
    calls = session.sparkContext.accumulator(0)

    def is_there(number: int) -> bool:
        calls.add(1)
        return number >= 0

    rows = session.range(0, ROWS, 1, 2).where(F.udf(is_there, "boolean")("id"))
    columns = ["id", "cast(id % 7 AS double) AS x", "cast(id % 3 AS int) AS k", "id / 2 AS y"]
    return rows.selectExpr(*columns), calls


def points(df: DataFrame) -> DataFrame:
    return VectorAssembler(inputCols=["x", "k"], outputCol="v").transform(df)


def rows_of(df: DataFrame) -> list[Any]:
    return sorted(map(tuple, df.collect()))


def of_view(df: DataFrame, text: str, *args: Any) -> list[Any]:
    df.createOrReplaceTempView("hot")
    return rows_of(df.sparkSession.sql(text, *args))


def written(df: DataFrame, write: Callable[[str], object]) -> list[Any]:
    name = f"written_{next(_numbers)}"
    write(name)
    try:
        return rows_of(df.sparkSession.table(name))
    finally:
        df.sparkSession.sql(f"DROP TABLE {name}")


def in_files(df: DataFrame, home: Path) -> list[Any]:
    path = str(home / f"files {next(_numbers)}")
    df.write.parquet(path)
    return rows_of(df.sparkSession.read.parquet(path))


def observed(df: DataFrame) -> object:
    observation = Observation()
    df.observe(observation, F.count("*").alias("n")).collect()
    return observation.get


def in_rdd(df: DataFrame) -> list[Any]:
    xs = df.rdd.map(lambda row: row.x).persist(StorageLevel.MEMORY_ONLY)
    found = [xs.sum(), xs.max()]
    xs.unpersist()
    return found


def streamed(
    df: DataFrame,
    home: Path,
    made: Callable[[DataFrame], DataFrame],
    run: Callable[[Any], Any] | None = None,
) -> list[Any]:
    """The rows of a query of three micro-batches."""
    spark, name = df.sparkSession, f"query_{next(_numbers)}"
    source, checkpoint = str(home / name), str(home / f"{name} checkpoint")
    for first in range(0, 15, 5):
        spark.range(first, first + 5).coalesce(1).write.mode("append").json(source)
    found: list[Any] = []
    events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
    writer = made(events).writeStream.trigger(availableNow=True)
    if run is None:
        writer = writer.foreachBatch(lambda batch, number: found.extend(rows_of(batch)))
    else:
        writer = run(writer)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return sorted(found)


def batches(df: DataFrame, home: Path, each: Callable[[DataFrame], DataFrame]) -> list[Any]:
    found: list[Any] = []

    def run(writer: Any) -> Any:
        return writer.foreachBatch(lambda batch, number: found.extend(rows_of(each(batch))))

    streamed(df, home, lambda events: events, run)
    return sorted(found)


def cached_within(batch: DataFrame, df: DataFrame) -> DataFrame:
    joined = batch.join(df, "id").cache()
    joined.count()
    return joined


def parallel(*runs: Callable[[], object]) -> list[Any]:
    with ThreadPoolExecutor(len(runs)) as pool:
        return [each.result() for each in [pool.submit(run) for run in runs]]


ACTIONS: dict[str, Way] = {
    "take": lambda df, home: len(df.take(3)),
    "tail": lambda df, home: len(df.tail(3)),
    "toPandas": lambda df, home: df.toPandas().x.sum(),
    "observe": lambda df, home: observed(df),
    "randomSplit": lambda df, home: sum(part.count() for part in df.randomSplit([1.0, 1.0], 1)),
    "approxQuantile": lambda df, home: df.approxQuantile("y", [0.5], 0.0),
    "pivot": lambda df, home: rows_of(df.groupBy("x").pivot("k").count().na.fill(0)),
    "mapInPandas": lambda df, home: df.mapInPandas(lambda parts: parts, df.schema).count(),
    "a function": lambda df, home: rows_of(df.select(F.udf(lambda x: x + 1, "double")("x"))),
    "broadcast": lambda df, home: rows_of(df.sparkSession.range(5).join(F.broadcast(df), "id")),
    "a scalar subquery": lambda df, home: of_view(
        df, "SELECT * FROM range(9) WHERE id < (SELECT max(x) FROM hot)"
    ),
    "named in SQL": lambda df, home: rows_of(df.sparkSession.sql("SELECT k FROM {t}", t=df)),
}

WRITES: dict[str, Way] = {
    "write": in_files,
    "CREATE TABLE AS": lambda df, home: written(
        df, lambda name: of_view(df, f"CREATE TABLE {name} USING parquet AS SELECT * FROM hot")
    ),
    "checkpoint": lambda df, home: rows_of(df.checkpoint()),
    "a lazy localCheckpoint": lambda df, home: rows_of(df.localCheckpoint(eager=False)),
}

HAND_OUTS: dict[str, Way] = {
    "rdd": lambda df, home: df.rdd.map(lambda row: row.x).sum(),
    "a persisted RDD": lambda df, home: in_rdd(df),
    "createDataFrame": lambda df, home: rows_of(df.sparkSession.createDataFrame(df.rdd, df.schema)),
    "an action of the JVM's": lambda df, home: df._jdf.count(),
    "pandas on Spark": lambda df, home: df.pandas_api().x.mean(),
    "another session": lambda df, home: (
        df.createOrReplaceGlobalTempView("hot_everywhere"),
        rows_of(df.sparkSession.newSession().sql("SELECT x FROM global_temp.hot_everywhere")),
    ),
    "threads": lambda df, home: parallel(
        df._jdf.count, df.count, df.rdd.count, lambda: df._jdf.javaRDD().count()
    ),
}

LEARNED: dict[str, Way] = {
    "Pipeline": lambda df, home: rows_of(
        Pipeline(stages=[StringIndexer(inputCol="k", outputCol="i"), StandardScaler(inputCol="v")])
        .fit(points(df))
        .transform(points(df))
        .select("id", "i")
    ),
    "ALS": lambda df, home: (
        ALS(userCol="k", itemCol="k", ratingCol="x", maxIter=1, rank=1).fit(df).userFactors.count()
    ),
    "Correlation": lambda df, home: Correlation.corr(points(df), "v").count(),
}

STREAMS: dict[str, Way] = {
    "a static side": lambda df, home: streamed(df, home, lambda events: events.join(df, "id")),
    "a static side of what has a state": lambda df, home: streamed(
        df,
        home,
        lambda events: (
            events.withColumn("t", F.timestamp_seconds("id"))
            .withWatermark("t", "1 hour")
            .dropDuplicates(["id"])
            .join(df, "id")
            .drop("t")
        ),
    ),
    "foreachBatch, the other way round": lambda df, home: batches(
        df, home, lambda batch: df.join(batch, "id")
    ),
    "foreachBatch that caches": lambda df, home: batches(
        df, home, lambda batch: cached_within(batch, df)
    ),
}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, id=name)
        for ways in (ACTIONS, WRITES, HAND_OUTS, LEARNED, STREAMS)
        for name, way in ways.items()
    ],
)
@pytest.mark.sampled(7, 2)
def test_what_is_cached_is_computed_once(
    way: Way, spark: SparkSession, session: Any, tmp_path: Path
) -> None:
    hot, calls = counted(session)
    assert hot.cache() is hot
    found = way(hot, tmp_path)
    assert calls.value == ROWS
    assert way(hot, tmp_path) == found
    assert hot.count() == calls.value == ROWS
    assert [each.rows for each in session.holdfast.list_cached()].count(ROWS) == 1
    assert way(counted(spark.newSession())[0], tmp_path) == found


LOOKS: dict[str, Callable[[DataFrame], object]] = {
    "explain": lambda df: df.explain("cost"),
    "explain of a DataFrame": lambda df: df.to_dataframe().explain(True),
    "EXPLAIN": lambda df: of_view(df, "EXPLAIN SELECT sum(x) FROM hot"),
    "EXPLAIN of a command": lambda df: of_view(df, "EXPLAIN CREATE TABLE t AS SELECT * FROM hot"),
    "its plans as a text": lambda df: df._jdf.queryExecution().toString(),
    "statistics": lambda df: df._jdf.queryExecution().optimizedPlan().stats(),
    "storageLevel": lambda df: (df.storageLevel, df._jdf.storageLevel()),
    "inputFiles": lambda df: df.inputFiles(),
    "its schema": lambda df: (df.schema, df.isLocal(), df.sameSemantics(df), df.columns),
    "a view": lambda df: df.createOrReplaceTempView("hot"),
    "to_dataframe": lambda df: df.to_dataframe(),
}


def test_what_only_looks_at_a_plan_computes_nothing(session: Any) -> None:
    hot, calls = counted(session)
    hot.cache()
    for name, look in LOOKS.items():
        look(hot)
        assert calls.value == 0, name
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]
    assert hot.count() == calls.value == ROWS


def test_what_cannot_be_computed_as_a_whole_costs_no_answer(session: Any) -> None:
    hot = session.range(ROWS).selectExpr("id", "if(id = 7, raise_error('seven'), id) AS x").cache()
    for _ in range(2):
        assert hot._jdf.select("id", session._jvm.PythonUtils.toSeq([])).distinct().count() == ROWS
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]


def test_spark_finds_what_it_has_persisted_before(session: Any) -> None:
    hot, calls = counted(session)
    above: Any = hot._jdf.where("k > 0")
    above.persist()
    try:
        hot.cache().count()
        plan = str(hot._jdf.where("k > 0").queryExecution().executedPlan())
        assert "InMemoryTableScan" in plan
    finally:
        above.unpersist(True)
    plan = str(hot._jdf.where("k > 0").queryExecution().executedPlan())
    assert "InMemoryTableScan" not in plan
    assert calls.value == ROWS


def test_a_stream_goes_on_when_kept_data_is_lost(session: Any, tmp_path: Path) -> None:
    hot, calls = counted(session)
    hot.cache()
    lost: list[Path] = []
    found: list[Any] = []

    def process(batch: DataFrame, number: int) -> None:
        found.extend(rows_of(batch))
        if not lost:
            (kept,) = session.holdfast.list_cached()
            assert kept.location is not None
            lost.append(kept.location)
            shutil.rmtree(kept.location)

    streamed(
        hot, tmp_path, lambda events: events.join(hot, "id"), lambda w: w.foreachBatch(process)
    )
    assert [row[0] for row in sorted(found)] == list(range(15))
    assert calls.value == 2 * ROWS


def test_streams_of_a_session_that_was_left_run_as_they_are(session: Any, tmp_path: Path) -> None:
    hot, calls = counted(session)
    hot.cache().count()
    holdfast.detach(session)
    rows = streamed(hot, tmp_path, lambda events: events.join(hot, "id"))
    assert len(rows) == 15
    # Each micro-batch computes all of them.
    assert calls.value >= 4 * ROWS
