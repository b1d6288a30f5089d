"""How much CPU time a production's tasks take, and when the last of them has ended."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext

# What a thread sets goes with all its jobs, and with those of the threads that Spark starts for it.
_LABEL = "holdfast.cpu"
_PATIENCE_MS = 2_000
# A Python worker has two seconds to end after its task was killed.
_TASKS_END_MS = 5_000
_NANOSECONDS = 1e9

logger = logging.getLogger(__name__)


@contextmanager
def measured_cpu(spark: SparkSession) -> Iterator[Callable[[], float | None]]:
    """Measures the CPU time of the tasks of Spark jobs that this thread starts inside.

    Tasks that failed count, too. What Python workers take beside Spark's own threads doesn't.

    Args:
        spark: the session that runs them.

    Yields:
        gives the seconds, once, when the jobs have ended; None where they aren't known.
    """
    context, label = spark.sparkContext, uuid.uuid4().hex
    try:
        times = _cpu_times.of(spark)
        times.begin(label)
    except (Py4JError, UnsupportedSparkError) as error:
        logger.debug("the CPU time of tasks isn't known: %s", error)
        yield lambda: None
        return

    def ended() -> float | None:
        try:
            nanoseconds = int(times.end(label, _PATIENCE_MS))
        except Py4JError as error:
            logger.debug("the CPU time of tasks isn't known: %s", error)
            return None
        return nanoseconds / _NANOSECONDS if nanoseconds >= 0 else None

    before = context.getLocalProperty(_LABEL)
    context.setLocalProperty(_LABEL, label)
    try:
        yield ended
    finally:
        context._jsc.setLocalProperty(_LABEL, before)
        times.forget(label)


def wait_for_tasks(spark: SparkSession) -> None:
    """Waits until no task runs of the jobs that this thread has started while it is measured.

    A job that has failed is over before its other tasks are, which write until they notice.

    Args:
        spark: the session that runs them.
    """
    label = spark.sparkContext.getLocalProperty(_LABEL)
    if label is None:
        return
    try:
        over = bool(_cpu_times.of(spark).awaitTasks(label, _TASKS_END_MS))
    except (Py4JError, UnsupportedSparkError) as error:
        logger.debug("it isn't known whether tasks still run: %s", error)
        return
    if not over:
        logger.debug("tasks of a job that has failed still run")


def _made(spark: SparkSession) -> Any:
    return new_object(spark, "CpuTimes", spark.sparkContext._jsc.sc(), _LABEL)


_cpu_times = PerContext(_made)
