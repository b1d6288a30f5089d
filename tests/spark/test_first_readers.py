"""Whatever first reads a cached table, it is computed once: each way to have Spark run a plan."""

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
from pyspark.ml.classification import LogisticRegression, OneVsRest, RandomForestClassifier
from pyspark.ml.clustering import KMeans
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import (
    Imputer,
    QuantileDiscretizer,
    StandardScaler,
    StringIndexer,
    VectorAssembler,
)
from pyspark.ml.recommendation import ALS
from pyspark.ml.regression import LinearRegression
from pyspark.ml.stat import Correlation
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.api.table_session import TableSession

pytestmark = pytest.mark.usefixtures("interpreted")

ROWS = 40
Way = Callable[[DataFrame, Path], object]
"""Runs a plan with the cached table in it; gives what it has computed, None if there is no plain
Spark that would compute the same."""
_numbers = itertools.count()


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[TableSession]:
    """A session of its own, attached."""
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    attached = holdfast.attach(own, {"intermediate-result-storage.directory": str(tmp_path / "k")})
    yield attached
    if isinstance(attached, TableSession):
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


def fitted(df: DataFrame, validator: Any = None, **more: Any) -> list[float]:
    line = LinearRegression(featuresCol="v", labelCol="y", maxIter=2)
    if validator is None:
        return [round(each, 6) for each in line.fit(points(df)).coefficients]
    grid = ParamGridBuilder().addGrid(line.regParam, [0.1, 0.2]).build()
    judge = RegressionEvaluator(labelCol="y")
    validated = validator(estimator=line, estimatorParamMaps=grid, evaluator=judge, seed=1, **more)
    validated.fit(points(df))
    return []


def written(df: DataFrame, write: Callable[[str], object]) -> list[Any]:
    name = f"written_{next(_numbers)}"
    write(name)
    try:
        return rows_of(df.sparkSession.table(name))
    finally:
        df.sparkSession.sql(f"DROP TABLE {name}")


def inserted(df: DataFrame, insert: Callable[[str], object]) -> list[Any]:
    def write(name: str) -> None:
        columns = ", ".join(f"{column} {kind}" for column, kind in df.dtypes)
        df.sparkSession.sql(f"CREATE TABLE {name} ({columns}) USING parquet")
        insert(name)

    return written(df, write)


def in_files(df: DataFrame, home: Path) -> list[Any]:
    path = str(home / f"files {next(_numbers)}")
    df.write.parquet(path)
    return rows_of(df.sparkSession.read.parquet(path))


def observed(df: DataFrame) -> object:
    observation = Observation()
    df.observe(observation, F.count("*").alias("n")).collect()
    return observation.get


def lazily(cut: DataFrame) -> list[Any]:
    return [cut.count(), *rows_of(cut)]


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
    mode: str = "append",
) -> list[Any]:
    """The rows of a query of three micro-batches."""
    spark, name = df.sparkSession, f"query_{next(_numbers)}"
    source, checkpoint = str(home / name), str(home / f"{name} checkpoint")
    for first in range(0, 15, 5):
        spark.range(first, first + 5).coalesce(1).write.mode("append").json(source)
    found: list[Any] = []
    events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
    writer = made(events).writeStream.outputMode(mode).trigger(availableNow=True)
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
    "collect": lambda df, home: rows_of(df),
    "count": lambda df, home: df.count(),
    "first": lambda df, home: df.orderBy("id").first(),
    "take": lambda df, home: len(df.take(3)),
    "tail": lambda df, home: len(df.tail(3)),
    "isEmpty": lambda df, home: df.isEmpty(),
    "show": lambda df, home: df.show(2),
    "toLocalIterator": lambda df, home: len(list(df.toLocalIterator())),
    "foreach": lambda df, home: df.foreach(lambda row: None),
    "foreachPartition": lambda df, home: df.foreachPartition(lambda rows: None),
    "toPandas": lambda df, home: df.toPandas().x.sum(),
    "toArrow": lambda df, home: df.toArrow().num_rows,
    "observe": lambda df, home: observed(df),
    "randomSplit": lambda df, home: sum(part.count() for part in df.randomSplit([1.0, 1.0], 1)),
    "sampleBy": lambda df, home: df.sampleBy("k", {0: 1.0}).count(),
    "approxQuantile": lambda df, home: df.approxQuantile("y", [0.5], 0.0),
    "corr": lambda df, home: round(df.corr("x", "y"), 6),
    "cov": lambda df, home: round(df.cov("x", "y"), 6),
    "crosstab": lambda df, home: rows_of(df.crosstab("k", "x")),
    "freqItems": lambda df, home: df.freqItems(["k"], 0.3).count(),
    "describe": lambda df, home: rows_of(df.describe("x", "k")),
    "summary": lambda df, home: rows_of(df.summary("count", "min", "max")),
    "stat": lambda df, home: round(df.stat.corr("x", "y"), 6),
    "na": lambda df, home: rows_of(df.na.fill(0)),
    "pivot": lambda df, home: rows_of(df.groupBy("x").pivot("k").count().na.fill(0)),
    "transpose": lambda df, home: rows_of(df.where("id < 3").select("id", "x").transpose()),
    "mapInPandas": lambda df, home: df.mapInPandas(lambda parts: parts, df.schema).count(),
    "applyInPandas": lambda df, home: (
        df.groupBy("k").applyInPandas(lambda rows: rows, df.schema).count()
    ),
    "a function": lambda df, home: rows_of(df.select(F.udf(lambda x: x + 1, "double")("x"))),
    "broadcast": lambda df, home: rows_of(df.sparkSession.range(5).join(F.broadcast(df), "id")),
    "a scalar subquery": lambda df, home: of_view(
        df, "SELECT * FROM range(9) WHERE id < (SELECT max(x) FROM hot)"
    ),
    "an IN subquery": lambda df, home: of_view(
        df, "SELECT * FROM range(9) WHERE id IN (SELECT k FROM hot)"
    ),
    "a view": lambda df, home: of_view(df, "SELECT sum(x) FROM hot"),
    "a view with arguments": lambda df, home: of_view(
        df, "SELECT sum(x) FROM hot WHERE k > :k", {"k": 1}
    ),
    "named in SQL": lambda df, home: rows_of(df.sparkSession.sql("SELECT k FROM {t}", t=df)),
}

WRITES: dict[str, Way] = {
    "write": in_files,
    "noop": lambda df, home: df.write.format("noop").mode("overwrite").save(),
    "saveAsTable": lambda df, home: written(df, df.write.saveAsTable),
    "writeTo": lambda df, home: written(
        df, lambda name: df.writeTo(name).using("parquet").create()
    ),
    "insertInto": lambda df, home: inserted(df, df.write.insertInto),
    "CREATE TABLE AS": lambda df, home: written(
        df, lambda name: of_view(df, f"CREATE TABLE {name} USING parquet AS SELECT * FROM hot")
    ),
    "INSERT INTO": lambda df, home: inserted(
        df, lambda name: of_view(df, f"INSERT INTO {name} SELECT * FROM hot")
    ),
    "checkpoint": lambda df, home: rows_of(df.checkpoint()),
    "localCheckpoint": lambda df, home: rows_of(df.localCheckpoint()),
    "a lazy checkpoint": lambda df, home: lazily(df.checkpoint(eager=False)),
    "a lazy localCheckpoint": lambda df, home: lazily(df.localCheckpoint(eager=False)),
}

HAND_OUTS: dict[str, Way] = {
    "rdd": lambda df, home: df.rdd.map(lambda row: row.x).sum(),
    "a persisted RDD": lambda df, home: in_rdd(df),
    "toJSON": lambda df, home: sorted(df.toJSON().collect()),
    "createDataFrame": lambda df, home: rows_of(df.sparkSession.createDataFrame(df.rdd, df.schema)),
    "javaRDD": lambda df, home: df._jdf.javaRDD().count(),
    "toRdd": lambda df, home: df._jdf.queryExecution().toRdd().count(),
    "an action of the JVM's": lambda df, home: df._jdf.count(),
    "pandas on Spark": lambda df, home: df.pandas_api().x.mean(),
    "to_spark": lambda df, home: df.pandas_api(index_col="id").to_spark(index_col="id").count(),
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
    "LinearRegression": lambda df, home: fitted(df),
    "LogisticRegression": lambda df, home: (
        LogisticRegression(featuresCol="v", labelCol="k", maxIter=2).fit(points(df)).numClasses
    ),
    "RandomForestClassifier": lambda df, home: (
        RandomForestClassifier(featuresCol="v", labelCol="k", numTrees=1).fit(points(df)).numClasses
    ),
    "OneVsRest": lambda df, home: len(
        OneVsRest(classifier=LogisticRegression(maxIter=1, featuresCol="v"), labelCol="k")
        .setFeaturesCol("v")
        .fit(points(df))
        .models
    ),
    "KMeans": lambda df, home: len(
        KMeans(k=2, featuresCol="v", maxIter=1, seed=1).fit(points(df)).clusterCenters()
    ),
    "ALS": lambda df, home: (
        ALS(userCol="k", itemCol="k", ratingCol="x", maxIter=1, rank=1).fit(df).userFactors.count()
    ),
    "Imputer": lambda df, home: rows_of(
        Imputer(inputCols=["x"], outputCols=["o"]).fit(df).surrogateDF.select(F.round("x", 6))
    ),
    "QuantileDiscretizer": lambda df, home: (
        QuantileDiscretizer(numBuckets=2, inputCol="y", outputCol="o").fit(df).getSplits()
    ),
    "Correlation": lambda df, home: Correlation.corr(points(df), "v").count(),
    "RegressionEvaluator": lambda df, home: round(
        RegressionEvaluator(labelCol="x", predictionCol="y").evaluate(df), 6
    ),
    "CrossValidator": lambda df, home: fitted(df, CrossValidator, numFolds=2, parallelism=2),
    "TrainValidationSplit": lambda df, home: fitted(df, TrainValidationSplit),
}

STREAMS: dict[str, Way] = {
    "a static side": lambda df, home: streamed(df, home, lambda events: events.join(df, "id")),
    "a static side below an aggregate": lambda df, home: streamed(
        df, home, lambda events: events.join(df, "id").groupBy("k").count(), mode="complete"
    ),
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
    "a static side of a sink's": lambda df, home: streamed(
        df,
        home,
        lambda events: events.join(df, "id"),
        lambda writer: writer.format("noop"),
    ),
    "a static side of foreach": lambda df, home: streamed(
        df,
        home,
        lambda events: events.join(df, "id"),
        lambda writer: writer.foreach(lambda row: None),
    ),
    "foreachBatch": lambda df, home: batches(df, home, lambda batch: batch.join(df, "id")),
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
def test_what_is_cached_is_computed_once(
    way: Way, spark: SparkSession, session: TableSession, tmp_path: Path
) -> None:
    hot, calls = counted(session)
    assert hot.cache() is hot
    found = way(hot, tmp_path)
    assert calls.value == ROWS
    again = way(hot, tmp_path)
    assert hot.count() == ROWS
    assert calls.value == ROWS
    (kept,) = [each for each in session.holdfast.list_cached() if each.rows == ROWS]
    assert kept.location is not None
    expected = way(counted(spark.newSession())[0], tmp_path)
    assert found == again == expected


LOOKS: dict[str, Callable[[DataFrame], object]] = {
    "explain": lambda df: df.explain("cost"),
    "explain of a DataFrame": lambda df: df.to_dataframe().explain(True),  # type: ignore[operator]
    "EXPLAIN": lambda df: of_view(df, "EXPLAIN SELECT sum(x) FROM hot"),
    "EXPLAIN of a command": lambda df: of_view(df, "EXPLAIN CREATE TABLE t AS SELECT * FROM hot"),
    "its plans as a text": lambda df: df._jdf.queryExecution().toString(),
    "statistics": lambda df: df._jdf.queryExecution().optimizedPlan().stats(),
    "storageLevel": lambda df: (df.storageLevel, df._jdf.storageLevel()),
    "inputFiles": lambda df: df.inputFiles(),
    "its schema": lambda df: (df.schema, df.isLocal(), df.sameSemantics(df), df.columns),
    "a view": lambda df: df.createOrReplaceTempView("hot"),
    "to_dataframe": lambda df: df.to_dataframe(),  # type: ignore[operator]
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_what_only_looks_at_a_plan_computes_nothing(
    look: Callable[[DataFrame], object], session: TableSession
) -> None:
    hot, calls = counted(session)
    hot.cache()
    look(hot)
    assert calls.value == 0
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]
    assert hot.count() == ROWS
    assert calls.value == ROWS


def test_what_cannot_be_computed_as_a_whole_costs_no_answer(session: TableSession) -> None:
    hot = session.range(ROWS).selectExpr("id", "if(id = 7, raise_error('seven'), id) AS x").cache()
    for _ in range(2):
        assert hot._jdf.select("id", session._jvm.PythonUtils.toSeq([])).distinct().count() == ROWS
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]


def test_spark_finds_what_it_has_persisted_whatever_is_kept_since(session: TableSession) -> None:
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


def test_a_stream_goes_on_when_kept_data_is_lost(session: TableSession, tmp_path: Path) -> None:
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


def test_streams_of_a_session_that_was_left_run_as_they_are(
    session: TableSession, tmp_path: Path
) -> None:
    hot, calls = counted(session)
    hot.cache().count()
    holdfast.detach(session)
    rows = streamed(hot, tmp_path, lambda events: events.join(hot, "id"))
    assert len(rows) == 15
    # Each micro-batch computes all of them.
    assert calls.value >= 4 * ROWS
