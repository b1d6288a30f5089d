"""Attaches a program's own session: one line, and its DataFrames are Tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from holdfast.api.environment import Environment
from holdfast.api.table_session import TableSession
from holdfast.config import check_values
from holdfast.errors import AlreadyAttachedError, NotAttachedError
from holdfast.spark.local_session import local_session


def attach(
    spark: SparkSession | None = None, config: Mapping[str, Any] | None = None
) -> TableSession:
    """Attaches a session: every DataFrame that it creates afterwards is a Table.

    `df.cache()`, `spark.catalog.cacheTable` and `CACHE TABLE` keep results with Holdfast, and all
    jobs read what is kept, those of SQL commands and libraries included. DataFrames that the
    session has created before remain as they are; what is derived from them is a Table.

    Args:
        spark: The session; None for the active one, or a new one with the master that Spark is
            configured with, or `local[*]`.
        config: Values by key, as for `Environment`.

    Returns:
        The same session, with its environment as `spark.holdfast`. It ends with `spark.stop()`,
        `holdfast.detach(spark)` or the program.

    Raises:
        AlreadyAttachedError: The session is attached, and `config` is given.
        ConfigurationError: As for `Environment`.
        SessionStoppedError: The session has been stopped.
        StorageError: As for `Environment`.
        UnsupportedSessionError: It is a Spark Connect session.

    Source: FLIP-36, phase 1 (the table environment).

    Example:
        >>> import holdfast
        >>> spark = holdfast.attach(spark)
        >>> hot = spark.range(100).groupBy((F.col("id") % 7).alias("k")).count().cache()
        >>> hot.count(), hot.where("k > 3").count()
        (7, 3)
        >>> [kept.rows for kept in spark.holdfast.list_cached()]
        [7]
        >>> holdfast.detach(spark)
    """
    check_values(config or {})
    spark = local_session() if spark is None else spark
    if isinstance(spark, TableSession):
        if config:
            raise AlreadyAttachedError()
        return spark
    environment = Environment(spark, config)
    try:
        return environment.adopt(spark)
    except BaseException:
        environment.close()
        raise


def detach(spark: SparkSession) -> None:
    """Undoes `attach`: releases what is kept, and makes the session PySpark's own again.

    Tables that the program still has then behave like plain DataFrames. Spark runs on.

    Args:
        spark: The attached session.

    Raises:
        NotAttachedError: It isn't attached.

    Source: FLIP-36, "Step 3: Clean up".

    Example:
        >>> import holdfast
        >>> holdfast.detach(holdfast.attach(spark))
    """
    if not isinstance(spark, TableSession):
        raise NotAttachedError()
    spark.holdfast.leave(spark)
