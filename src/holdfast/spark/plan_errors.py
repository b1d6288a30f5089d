"""Tells an error that Spark raises over a plan from one that it raises while it runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.errors import AnalysisException, PySparkException

_PLANNING = (
    "org.apache.spark.sql.catalyst.rules.RuleExecutor",
    "org.apache.spark.sql.catalyst.planning.QueryPlanner",
)
# What the scheduler raises over a barrier stage that it doesn't begin to run.
_BARRIER = "org.apache.spark.scheduler.BarrierJob"


def is_refusal(error: BaseException) -> bool:
    """Whether Spark has refused a plan: it came from analysis, optimization or planning, or from
    the scheduler before a barrier stage.

    Args:
        error: what an action failed with.
    """
    if isinstance(error, AnalysisException):
        return True
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is not None and condition.startswith("INTERNAL_ERROR"):
        return True
    throwable: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if throwable is None:
        return False
    if any(frame.getClassName().startswith(_PLANNING) for frame in throwable.getStackTrace()):
        return True
    return any(_BARRIER in each.getClass().getName() for each in _causes(throwable))


def _causes(throwable: Any) -> Iterator[Any]:
    while throwable is not None:
        yield throwable
        throwable = throwable.getCause()
