"""Brings classes of ours to where Spark's tasks run.

Tasks are sent objects without their classes, and find these in Spark's jars and in those that were
added to the context since: on the driver's own executor as on a cluster's.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.spark.java_classes import byte_code
from holdfast.spark.kept_byte_code import write_jar
from holdfast.spark.per_context import PerContext

_PREFIX = "holdfast-tasks-"


def ship(spark: SparkSession, name: str) -> None:
    """Has tasks that start from now on know one of our classes; once for each context.

    Args:
        spark: a classic session in the JVM.
        name: the class's name, which is also that of its source.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
        OSError: when the jar can't be written, or its classes not read.
        py4j.protocol.Py4JError: when Spark doesn't take it.
    """
    shipped = _shipped.of(spark)
    if name in shipped:
        return
    context = cast(Any, spark.sparkContext)
    # Spark removes this directory when the context ends, and serves the jar until then.
    jar = Path(context._temp_dir) / f"{_PREFIX}{uuid.uuid4().hex}.jar"
    write_jar(jar, byte_code(spark, name))
    context._jsc.sc().addJar(str(jar))
    shipped.add(name)


_shipped: PerContext[set[str]] = PerContext(lambda spark: set())
