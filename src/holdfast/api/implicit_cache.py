"""What a session's queries reuse without being asked to."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from holdfast.config import (
    IMPLICIT_CACHE_ENABLED,
    IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE,
    Configuration,
)
from holdfast.errors import UnsupportedSparkError
from holdfast.spark.live_shuffles import LiveShuffles

logger = logging.getLogger(__name__)


def live_shuffles(spark: SparkSession, configuration: Configuration) -> LiveShuffles | None:
    """The shuffles that a session's queries reuse; None where they aren't to.

    Args:
        spark: PySpark's own session.
        configuration: of its environment.

    Source: FLIP-36, "Implementation Details", phase 3.
    """
    if not configuration.get(IMPLICIT_CACHE_ENABLED):
        return None
    most = configuration.get(IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE)
    try:
        return LiveShuffles(spark, most.limit)
    except UnsupportedSparkError as error:
        logger.warning("shuffles of earlier queries are not reused: %s", error)
        return None
