"""How much CPU time a production's tasks take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.spark.interruptible import Interruptible

_PATIENCE_MS = 2_000
_NANOSECONDS = 1e9

logger = logging.getLogger(__name__)


@contextmanager
def measured_cpu(spark: SparkSession) -> Iterator[Callable[[], float | None]]:
    """Measures the CPU time of the tasks of Spark jobs that this thread starts inside.

    Tasks that failed count, too. What Python workers take beside Spark's own threads doesn't.

    Args:
        spark: the session that runs them.

    Yields:
        gives the seconds, when the jobs have ended; None where they aren't known.
    """
    with Interruptible(spark) as block:

        def seconds() -> float | None:
            if block.label is None:
                return None
            try:
                nanoseconds = int(block.jobs.cpuTime(block.label, _PATIENCE_MS))
            except Py4JError as error:
                logger.debug("the CPU time of tasks isn't known: %s", error)
                return None
            return nanoseconds / _NANOSECONDS if nanoseconds >= 0 else None

        yield seconds
