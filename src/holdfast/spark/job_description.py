"""What Spark's UI says that a job is for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_KEY = "spark.job.description"

logger = logging.getLogger(__name__)


@contextmanager
def described(spark: SparkSession, purpose: str, *, added: bool = False) -> Iterator[None]:
    """Shows in Spark's UI what the jobs are for that this thread starts inside.

    Args:
        spark: any session of the context that runs the jobs.
        purpose: what Holdfast does, of which result: "keeps a1b2c3d4: Join over …".
        added: the user's own description, if there is one, stays in front of it.

    Example:
        >>> with described(spark, "keeps a1b2c3d4: Join"):
        ...     spark.sparkContext.getLocalProperty("spark.job.description")
        'Holdfast keeps a1b2c3d4: Join'
    """
    context = spark.sparkContext
    before = context.getLocalProperty(_KEY)
    text = f"Holdfast {purpose}"
    context.setLocalProperty(_KEY, f"{before} ({text})" if added and before else text)
    try:
        yield
    finally:
        try:
            context._jsc.setLocalProperty(_KEY, before)
        except Py4JError as error:
            # What has ended the block is more important, be it an interrupt.
            logger.debug("the description of Spark's jobs can't be set back: %s", error)
