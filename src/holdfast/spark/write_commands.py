"""By which command Spark would run a write."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext
from holdfast.spark.versions import NAMES_WRITE_COMMANDS, is_at_least


def write_command(
    session: SparkSession,
    java_writer: Any,
    method: str,
    *arguments: Any,
    java_session: Any = None,
) -> Any:
    """The JVM's command of a writer's method, which isn't run; None if there is nothing to do.

    Args:
        session: the session that writes.
        java_writer: Spark's writer.
        method: its method, such as `save`.
        *arguments: of that method; None is left out.
        java_session: the JVM's session that writes, where it isn't that of `session`.

    Raises:
        pyspark.errors.AnalysisException: when Spark rejects the write.
        UnsupportedSparkError: when there is no way to know.
    """
    given = [each for each in arguments if each is not None]
    if is_at_least(session.version, NAMES_WRITE_COMMANDS):
        if method == "save":
            option = session._jvm.scala.Option  # type: ignore[union-attr]
            given = [option.apply(*(given or [None]))]
        return getattr(java_writer, f"{method}Command")(*given)
    gateway: Any = session.sparkContext._gateway
    jvm: Any = session._jvm
    array = gateway.new_array(jvm.java.lang.Object, len(given))
    for index, each in enumerate(given):
        array[index] = each
    writes = java_session or session._jsparkSession
    return _planned.of(session).command(writes, java_writer, method, array)


_planned: PerContext[Any] = PerContext(lambda spark: new_object(spark, "PlannedWrites"))
