"""Measures what Holdfast adds to planning, against what Spark spends on planning itself."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.tpch import QUERIES
from holdfast import Environment

SIZES = (25, 50, 100, 200)
_WARM_UPS = 3


@dataclass(frozen=True)
class PlanningTime:
    """Medians for one query, in seconds.

    Attributes:
        query: what it is called.
        spark: from analysis to the physical plan, without Holdfast.
        holdfast: digest, look-up and substitution.
    """

    query: str
    spark: float
    holdfast: float

    @property
    def ratio(self) -> float:
        """What Holdfast adds, in terms of what Spark needs."""
        return self.holdfast / self.spark


def measure(spark: SparkSession, environment: Environment, rounds: int) -> list[PlanningTime]:
    """The planning times of the 22 queries and of ever longer ones, each with something kept in."""
    measured = []
    for name, text in QUERIES.items():
        with environment.sql(text).cache() as hot:
            hot.count()
            query = f"SELECT count(*) AS n FROM ({text}) AS q"
            make = partial(_of_text, spark, query)
            measured.append(_measure_one(environment, name, make, rounds))
    base = spark.table("lineitem").where("l_quantity > 49")
    with environment.from_dataframe(base).cache() as hot:
        hot.count()
        for size in SIZES:
            make = partial(_chain, base, size)
            measured.append(_measure_one(environment, f"{size} operators", make, rounds))
    return measured


def _of_text(spark: SparkSession, query: str) -> tuple[DataFrame, float]:
    df = spark.sql(query)
    return df, _seconds(df, "analysis")


def _chain(df: DataFrame, operators: int) -> tuple[DataFrame, float]:
    """So many filters and projections on top of `df`, each analyzed as it is added."""
    analysis = 0.0
    for number in range(operators):
        if number % 2:
            df = df.where(F.col("l_quantity") > number % 7)
        else:
            df = df.withColumn("l_discount", F.col("l_discount") + number)
        analysis += _seconds(df, "analysis")
    return df, analysis


def _measure_one(
    environment: Environment,
    name: str,
    make: Callable[[], tuple[DataFrame, float]],
    rounds: int,
) -> PlanningTime:
    of_spark, of_holdfast = [], []
    for number in range(_WARM_UPS + rounds):
        df, analysis = make()
        execution: Any = df._jdf.queryExecution()
        execution.executedPlan()
        table = environment.from_dataframe(make()[0])
        started = time.perf_counter()
        substituted = table.to_dataframe()
        elapsed = time.perf_counter() - started
        assert _reads_kept(substituted), f"{name}: nothing was substituted"
        if number >= _WARM_UPS:
            of_spark.append(analysis + _seconds(df, "optimization") + _seconds(df, "planning"))
            of_holdfast.append(elapsed)
    return PlanningTime(name, statistics.median(of_spark), statistics.median(of_holdfast))


def _seconds(df: DataFrame, phase: str) -> float:
    """What Spark's own tracker says of a phase of planning."""
    execution: Any = df._jdf.queryExecution()
    milliseconds: int = execution.tracker().phases().apply(phase).durationMs()
    return milliseconds / 1000


def _reads_kept(df: DataFrame) -> bool:
    # All other sources of these plans are files.
    return not df.inputFiles()
