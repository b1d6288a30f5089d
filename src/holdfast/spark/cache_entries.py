"""The JVM's `CacheEntries`: what is cached, as entries of Spark's own cache that nothing reads."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext


def cache_entries(spark: SparkSession) -> Any:
    """The JVM's object that adds such entries and follows them, for all environments.

    Args:
        spark: any session of the JVM.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
    """
    return _of_context.of(spark)


def cached_by_spark(spark: SparkSession) -> Any:
    """The JVM's supplier of whether Spark has cached anything itself; None for an unknown Spark.

    Args:
        spark: any session of the JVM.
    """
    try:
        return cache_entries(spark)
    except UnsupportedSparkError:
        return None


_of_context: PerContext[Any] = PerContext(
    lambda spark: new_object(spark, "CacheEntries", spark._jsparkSession)
)
