"""What rows depend on beside plans and settings, and is the same for all that a program computes.

Within one program nothing of it changes, so that no digest holds it. Another program may have
another Java, another locale, or other classes of the same names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.plan.hashing import hash_parts
from holdfast.spark.task_classes import is_of_tasks

# Java's default locale decides on upper and lower case, its time zone on dates without one.
_PROPERTIES = (
    "java.specification.version",
    "java.vm.name",
    "os.arch",
    "file.encoding",
    "user.language",
    "user.country",
    "user.variant",
    "user.script",
    "user.timezone",
)


def program_environment(spark: SparkSession) -> str:
    """What programs have in common that compute the same rows from the same plans.

    Args:
        spark: any session of the program.

    Returns:
        64 hexadecimal digits.

    Raises:
        OSError: when the JVM can't be asked.
    """
    try:
        jvm = cast(Any, spark.sparkContext._jvm)
        of_java = jvm.java.lang.System.getProperties()
        properties = tuple(str(of_java.getProperty(name)) for name in _PROPERTIES)
        zone = str(jvm.java.util.TimeZone.getDefault().getID())
        revision = str(jvm.org.apache.spark.SparkBuildInfo.spark_revision())
        added = str(spark.sparkContext._jsc.sc().listJars().mkString("\n"))
        class_path = str(of_java.getProperty("java.class.path"))
    except Py4JError as error:
        raise OSError(f"the JVM can't be asked for its environment: {error}") from error
    names = sorted(path.rpartition("/")[2] for path in added.splitlines())
    names = [name for name in names if not is_of_tasks(name)]
    return hash_parts(
        spark.version, revision, properties, zone, tuple(names), tuple(sorted(_jars(class_path)))
    )


def _jars(class_path: str) -> Iterator[tuple[str, int]]:
    """The archives of classes, each with its size: where they lie is no matter."""
    for path in class_path.split(os.pathsep):
        if path.endswith(".jar"):
            try:
                yield os.path.basename(path), os.stat(path).st_size
            except OSError:
                yield os.path.basename(path), -1
