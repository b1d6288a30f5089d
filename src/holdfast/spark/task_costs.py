"""What the tasks of Spark jobs take, as Spark itself has measured it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.spark.interruptible import Interruptible, current_block

_PATIENCE_MS = 2_000
_NANOSECONDS = 1e9
_MILLISECONDS = 1e3

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TaskCost:
    """What tasks have taken, those that failed as well.

    Attributes:
        cpu_seconds: without what Python workers take beside Spark's own threads.
        seconds: that they had a core each, added up.
        bytes_read: of files, as Spark counts them, which knows little of what it reads in other
            threads.
        shuffle_bytes: that they have written for others.
    """

    cpu_seconds: float
    seconds: float
    bytes_read: int
    shuffle_bytes: int


@contextmanager
def measured_cpu(spark: SparkSession) -> Iterator[Callable[[], float | None]]:
    """Measures the CPU time of the tasks of Spark jobs that this thread starts inside.

    Args:
        spark: the session that runs them.

    Yields:
        gives the seconds, when the jobs have ended; None where they aren't known.
    """
    with Interruptible(spark) as block:

        def seconds() -> float | None:
            if block.label is None:
                return None
            cost = _cost(block.jobs, block.label)
            return None if cost is None else cost.cpu_seconds

        yield seconds


def cost_of_block() -> Callable[[], TaskCost | None]:
    """What the tasks take that this thread's innermost block has started: for another thread.

    Returns:
        gives it once, also after the block, when Spark has told of all that has ended until then;
        None where it isn't known. Should it not be called, a few bytes stay in the JVM.
    """
    block = current_block()
    label = None if block is None else block.label
    if block is None or label is None:
        return lambda: None
    jobs = block.jobs
    try:
        jobs.keep(label)
    except Py4JError as error:
        logger.debug("what tasks take won't be known: %s", error)
        return lambda: None
    return lambda: _cost(jobs, label)


def _cost(jobs: Any, label: str) -> TaskCost | None:
    try:
        told = str(jobs.taken(label, _PATIENCE_MS))
    except Py4JError as error:
        logger.debug("what tasks have taken isn't known: %s", error)
        return None
    if not told:
        return None
    cpu, ran, read, shuffled = map(int, told.split(" "))
    return TaskCost(cpu / _NANOSECONDS, ran / _MILLISECONDS, read, shuffled)
