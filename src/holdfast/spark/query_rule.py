"""The place in Spark where a query can be replaced before it is run, whoever runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, cast

from py4j.protocol import Py4JError
from pyspark import java_gateway
from pyspark.sql import SparkSession

from holdfast.spark.java_classes import new_object
from holdfast.spark.source_versions import written_tables

# For so long there may be no sign of what was asked: to read a plan takes moments.
_PATIENCE_SECONDS = 60.0
# Where a query runs, that waits for what it produces, and for what others produce, and publishes.
_TIMES_WITH_COMMANDS = 10


class Run(Protocol):
    """How the JVM runs a query."""

    def isExecuted(self) -> bool:
        """Whether it runs now; otherwise it is shown, or measured."""

    def session(self) -> Any:
        """The JVM's session that it runs in."""


class QueryRule:
    """A rule of a session's that asks Python for the plan to run in the place of each query.

    Spark's copies of the session, in which it runs streams, have it as well.

    Args:
        spark: a classic session.
        asked: given a query's analyzed plan, and how it is run; gives the plan to run in its place,
            or a throwable of the JVM's, which ends the query.
        patience_seconds: without a sign of it for so long, a query runs as it is written. Calls of
            the JVM are signs, as long as they take. Where a query runs, so that something may be
            produced, it is ten times as long.

    Raises:
        UnsupportedSparkError: when the session takes no such rule.
    """

    def __init__(
        self,
        spark: SparkSession,
        asked: Callable[[Any, Run], Any],
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        cast(Any, java_gateway).ensure_callback_server_started(
            cast(Any, spark.sparkContext)._gateway
        )
        self._in_jvm = new_object(
            spark,
            "QueryRule",
            spark._jsparkSession,
            written_tables(spark),
            int(1000 * patience_seconds),
            int(1000 * patience_seconds * _TIMES_WITH_COMMANDS),
        )
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
    """What the JVM calls, in a thread of Python's."""

    def __init__(self, asked: Callable[[Any, Run], Any]) -> None:
        self._asked = asked

    def apply(self, plan: Any, run: Any) -> Any:
        run.enter()
        try:
            return self._asked(plan, run)
        finally:
            try:
                run.leave()
            except Py4JError:
                # The connection was closed, as this comes too late: there is another one now.
                run.leave()

    class Java:
        implements = ("java.util.function.BiFunction",)
