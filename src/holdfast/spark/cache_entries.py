"""The JVM's `CacheEntries`: what is cached, as entries of Spark's own cache that nothing reads."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.hive_tables import HIVE_FORMATS, HIVE_SERDES
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext
from holdfast.spark.source_versions import file_versions


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


def reached_partitions(spark: SparkSession) -> Any:
    """The JVM's function that lists what a plan reaches of tables; None for an unknown Spark.

    Args:
        spark: any session of the JVM.
    """
    try:
        return _reached.of(spark)
    except UnsupportedSparkError:
        return None


def _reached_partitions(spark: SparkSession) -> Any:
    versions = file_versions(spark)
    cached = cached_by_spark(spark)
    content = new_object(spark, "KnownContent")
    known = ",".join(sorted(HIVE_FORMATS | HIVE_SERDES))
    hive = new_object(spark, "HiveFiles", versions.directories(), content, known)
    return new_object(spark, "ReachedPartitions", cached, versions, versions.changes(), hive)


_of_context: PerContext[Any] = PerContext(
    lambda spark: new_object(spark, "CacheEntries", spark._jsparkSession)
)
_reached: PerContext[Any] = PerContext(_reached_partitions)
