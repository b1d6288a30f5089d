"""What rows depend on beside plans and settings, and is the same for all that a program computes.

Within one program nothing of it changes, so that no digest holds it. Another program may have
another Java, or other classes of the same names. What but some rows depend on is in their digests:
see `holdfast.plan.observed`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.plan.hashing import hash_parts
from holdfast.spark.session_settings import session_inputs

# With any of these, classes that were added may take the place of Spark's, or rewrite its plans.
_INTERFERING = (
    "spark.driver.userClassPathFirst",
    "spark.executor.userClassPathFirst",
    "spark.executor.extraClassPath",
    "spark.plugins",
    "spark.sql.extensions",
)
_PROPERTIES = ("java.specification.version", "java.vm.name", "java.locale.providers", "os.arch")


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
        revision = str(jvm.org.apache.spark.SparkBuildInfo.spark_revision())
        conf = cast(Any, spark.sparkContext._jsc).sc().getConf()
        said = [str(conf.get(key, "")) for key in _INTERFERING]
        class_path = str(of_java.getProperty("java.class.path"))
    except Py4JError as error:
        raise OSError(f"the JVM can't be asked for its environment: {error}") from error
    # Where they can't, they count for those rows alone that depend on them.
    if any(each not in ("", "false") for each in said):
        inputs = session_inputs(spark)
        said.append(inputs.classes(inputs.process["classes"]))
    return hash_parts(
        spark.version, revision, properties, tuple(said), tuple(sorted(_jars(class_path)))
    )


def _jars(class_path: str) -> Iterator[tuple[str, int]]:
    """The archives of classes, each with its size: where they lie is no matter."""
    for path in class_path.split(os.pathsep):
        if path.endswith(".jar"):
            try:
                yield os.path.basename(path), os.stat(path).st_size
            except OSError:
                yield os.path.basename(path), -1
