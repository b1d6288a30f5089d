"""Keeps a local Spark alive that has lost what a shuffle has written."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext


def outlives_lost_outputs(spark: SparkSession) -> None:
    """Has a Spark in local mode go on when outputs of shuffles are lost, see `java/LocalExecutor`.

    Whoever has Spark read outputs that it hasn't just written calls this. Does nothing the second
    time, nor on a cluster.

    Args:
        spark: a classic session in the JVM.

    Raises:
        UnsupportedSparkError: when the JVM's Spark doesn't compile the class.
    """
    _executors.of(spark)


def _watched(spark: SparkSession) -> Any:
    executor = new_object(spark, "LocalExecutor", cast(Any, spark.sparkContext)._jsc.sc())
    executor.watch()
    return executor


_executors: PerContext[Any] = PerContext(_watched)
