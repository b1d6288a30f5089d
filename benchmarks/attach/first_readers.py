"""What is cached and first read by MLlib, or by a stream, beside plain Spark with its own cache."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import DataFrame, SparkSession

from benchmarks.attach.sides import Sides, cpu_seconds
from benchmarks.figure import Figure

_TARGET = 1.10
_BATCHES = 10
_JOIN = """
    SELECT l_quantity AS quantity, l_extendedprice AS price, l_discount AS discount, l_tax AS tax,
           o_totalprice AS total, CAST(o_orderpriority < '3' AS INT) AS is_urgent
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey"""
_STATIC_SIDE = """
    SELECT c_custkey AS id, c_mktsegment AS segment, sum(l_extendedprice) AS spent
    FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey
    GROUP BY c_custkey, c_mktsegment"""


def measure(both: Sides, rounds: int, home: Path) -> list[Figure]:
    """Fits a pipeline on a cached join, and processes micro-batches against a cached static side.

    Args:
        both: the sessions, which know TPC-H's tables.
        rounds: of each; each one caches, reads and releases.
        home: a directory.
    """
    events = str(home / "events")
    for number in range(_BATCHES):
        each = both.plain.range(number, 10_000, _BATCHES).coalesce(1)
        each.write.mode("append").json(events)
    numbers = itertools.count()

    def stream(spark: SparkSession, static: DataFrame) -> None:
        source = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(events)
        joined = source.join(static, "id").groupBy("segment").sum("spent")
        writer = joined.writeStream.format("noop").outputMode("complete")
        writer = writer.trigger(availableNow=True)
        checkpoint = str(home / f"checkpoint {next(numbers)}")
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()

    return [
        _figure(both, rounds, "Pipeline.fit on a cached join", _JOIN, _fit),
        _figure(
            both,
            rounds,
            f"{_BATCHES} micro-batches against a cached static side",
            _STATIC_SIDE,
            stream,
        ),
    ]


def _fit(spark: SparkSession, joined: DataFrame) -> None:
    features = ["quantity", "price", "discount", "tax", "total"]
    pipeline = Pipeline(
        stages=[
            VectorAssembler(inputCols=features, outputCol="raw"),
            StandardScaler(inputCol="raw", outputCol="features"),
            LogisticRegression(labelCol="is_urgent", maxIter=10),
        ]
    )
    pipeline.fit(joined)


def _figure(
    both: Sides,
    rounds: int,
    what: str,
    query: str,
    read: Callable[[SparkSession, DataFrame], None],
) -> Figure:
    def step(spark: SparkSession) -> None:
        cached = spark.sql(query).cache()
        try:
            read(spark, cached)
        finally:
            # The sides share Spark's own cache.
            cached.unpersist(blocking=True)

    plain, attached = both.ratios(step, rounds, measured=cpu_seconds)
    ours, spark = (statistics.median(each) for each in (attached, plain))
    return Figure(
        f"{what}: CPU time / with Spark's own cache",
        (ours / spark,),
        "ratio",
        _TARGET,
        at_least=False,
        sides=f"{ours:.1f} s / {spark:.1f} s",
    )
