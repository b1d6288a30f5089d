"""What Spark runs for a session by itself, such as SQL commands, reads what is kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.spark.failures import is_cancelled
from holdfast.spark.query_rule import QueryRule, Run

logger = logging.getLogger(__name__)

Substitute = Callable[[Any, Run], Any]
"""Given a query's plan, and how it is run: the plan to be run."""


class SessionQueries:
    """Looks at the queries of an attached session that no Table runs.

    Args:
        spark: PySpark's own session.
        substitute: puts reads of kept results into a plan.
        may_match: whether anything in a plan of the JVM may be kept, or wanted.

    Raises:
        UnsupportedSparkError: when the session can't be looked at.
    """

    def __init__(
        self, spark: SparkSession, substitute: Substitute, may_match: Callable[[Any], bool]
    ) -> None:
        self._substitute = substitute
        self._may_match = may_match
        self._rule = QueryRule(spark, self._replaced)

    def stop(self) -> None:
        """The session is not looked at any more."""
        self._rule.remove()

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """For as long as it lasts, what this thread runs is not looked at."""
        with self._rule.left_alone():
            yield

    def _replaced(self, plan: Any, run: Run) -> Any:
        """The plan that Spark is to run instead of a query's own; or an error that ends it."""
        try:
            if not self._may_match(plan):
                return plan
            return self._substitute(plan, run)
        except (PySparkException, Py4JJavaError) as error:
            # What the user has stopped is not to be computed in another way.
            if is_cancelled(error):
                return _thrown(error)
            return self._unchanged(plan)
        except Exception:
            return self._unchanged(plan)

    def _unchanged(self, plan: Any) -> Any:
        logger.warning("a query runs without kept results", exc_info=True)
        return plan


def _thrown(error: Any) -> Any:
    """What the JVM has thrown."""
    return getattr(error, "java_exception", None) or error._origin
