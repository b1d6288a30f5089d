"""The place in Spark where a query can be replaced before it is run, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import java_gateway
from pyspark.sql import SparkSession

from holdfast.spark.java_classes import new_object
from holdfast.spark.source_versions import written_tables


class QueryRule:
    """A rule of a session's that asks Python for the plan to run in the place of each query.

    Args:
        spark: a classic session.
        asked: given a query's analyzed plan, and whether a command runs it now; gives the plan to
            run in its place, or a throwable of the JVM's, which ends the query.

    Raises:
        UnsupportedSparkError: when the session takes no such rule.
    """

    def __init__(self, spark: SparkSession, asked: Callable[[Any, bool], Any]) -> None:
        cast(Any, java_gateway).ensure_callback_server_started(
            cast(Any, spark.sparkContext)._gateway
        )
        self._in_jvm = new_object(spark, "QueryRule", spark._jsparkSession, written_tables(spark))
        self._in_jvm.start(_Asked(asked))

    def remove(self) -> None:
        """The session's queries run as they are."""
        # A session that has been stopped has no JVM to ask any more.
        with suppress(Py4JError, OSError):
            self._in_jvm.remove()

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """For as long as it lasts, queries of this thread run as they are."""
        self._in_jvm.leaveAlone()
        try:
            yield
        finally:
            self._in_jvm.lookAgain()


class _Asked:
    """What the JVM calls, in a thread of Python's own."""

    def __init__(self, asked: Callable[[Any, bool], Any]) -> None:
        self._asked = asked

    def apply(self, plan: Any, run: Any) -> Any:
        run.enter()
        try:
            return self._asked(plan, run.isExecuted())
        finally:
            run.leave()

    class Java:
        implements = ("java.util.function.BiFunction",)
