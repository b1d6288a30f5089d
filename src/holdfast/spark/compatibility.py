"""Looks whether the Spark of a session has what our Java classes touch, and says what is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import compiled
from holdfast.spark.per_context import PerContext
from holdfast.spark.versions import NEEDED_FOR, what_differs

logger = logging.getLogger(__name__)


def check(spark: SparkSession) -> None:
    """Compiles all of our Java classes, and warns of those that can't be; once for each context.

    Takes a second, and is meant for a thread of its own.

    Args:
        spark: any session of the context.
    """
    _checked.of(spark)


def _failed(spark: SparkSession) -> Mapping[str, str]:
    """Why each class can't be used that can't be."""
    failed = {}
    for name in NEEDED_FOR:
        try:
            compiled(spark, name)
        except UnsupportedSparkError as error:
            if isinstance(error.__cause__, Py4JNetworkError):
                # The JVM has ended meanwhile.
                return {}
            failed[name] = error.why
    warning = what_differs(spark.version, failed)
    if warning is not None:
        logger.warning(warning)
    return failed


_checked: PerContext[Mapping[str, str]] = PerContext(_failed)
