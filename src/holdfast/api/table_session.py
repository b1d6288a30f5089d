"""Sessions whose DataFrames are Tables."""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import SparkSession

from holdfast.api.cache_commands import run_cache_command
from holdfast.api.interrupts import InterruptibleAction
from holdfast.api.safe_points import releasing
from holdfast.api.table_catalog import TableCatalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from holdfast.api.environment import Environment


class TableSession(SparkSession):
    """A SparkSession whose DataFrames are Tables, whatever creates them.

    It has every method of PySpark's session. `holdfast.attach` makes one of a program's session;
    the Tables of an `Environment` have one as their `sparkSession`.

    Attributes:
        holdfast: The environment that runs the Tables' jobs.

    Source: FLIP-36, phase 1 (the table environment).

    Example:
        >>> numbers = table.sparkSession.range(3)
        >>> numbers.sparkSession.holdfast.last_job_result is None
        True
    """

    holdfast: Environment

    @cached_property
    def catalog(self) -> TableCatalog:
        return TableCatalog(self)

    def sql(self, sqlQuery: str, args: Any = None, **kwargs: Any) -> DataFrame:
        """Returns the result of a SQL statement, as PySpark's session does.

        `CACHE TABLE`, `UNCACHE TABLE` and `CLEAR CACHE` are Holdfast's; the queries inside of other
        commands, such as `INSERT INTO … SELECT`, read and keep results.

        Args:
            sqlQuery: The statement.
            args: Values for `:name` or `?`.
            **kwargs: What `{name}` stands for.

        Raises:
            pyspark.errors.AnalysisException: As PySpark's session does.

        Source: FLIP-36, phase 1 (the table environment).

        Example:
            >>> table.sparkSession.sql("SELECT 1 AS one").first()
            Row(one=1)
        """
        answer = run_cache_command(self, sqlQuery) if args is None and not kwargs else None
        if answer is not None:
            return answer
        # A command runs at once.
        with InterruptibleAction(self):
            return super().sql(sqlQuery, args, **kwargs)

    @wraps(SparkSession.createDataFrame)
    def createDataFrame(self, *args: Any, **kwargs: Any) -> DataFrame:  # type: ignore[override]
        try:
            return super().createDataFrame(*args, **kwargs)
        finally:
            # PySpark makes its session the active one; the program's own is to stay that.
            if SparkSession._activeSession is self:
                SparkSession._activeSession = self.holdfast.spark

    def newSession(self) -> SparkSession:
        made = session_over(self, self._jsparkSession.newSession())
        return self.holdfast.session_beside(made)

    @releasing
    def stop(self) -> None:
        """Releases what Holdfast keeps for this program, and stops Spark."""
        self.holdfast.leave(self)
        self.stop()


def plain_session(spark: SparkSession) -> SparkSession:
    """Returns PySpark's own session over the same session of the JVM.

    Args:
        spark: Any classic session.
    """
    return _twin(spark, SparkSession)


def session_over(spark: SparkSession, in_jvm: Any) -> SparkSession:
    """Returns PySpark's own session over another session of the JVM.

    Args:
        spark: Any classic session of the same Spark.
        in_jvm: The JVM's session.
    """
    made = plain_session(spark)
    made._jsparkSession = in_jvm
    return made


def table_session(spark: SparkSession, environment: Environment) -> TableSession:
    """Returns another session over the same session of the JVM, whose DataFrames are Tables.

    Args:
        spark: Any classic session.
        environment: Runs the Tables' jobs.
    """
    made = cast(TableSession, _twin(spark, TableSession))
    made.holdfast = environment
    return made


def become_table_session(spark: SparkSession, environment: Environment) -> TableSession:
    """Makes a session one whose DataFrames are Tables, wherever it is referred to.

    Args:
        spark: A classic session.
        environment: Runs the Tables' jobs.
    """
    kind = type(spark)
    _forget_made(spark)
    spark.__class__ = (
        TableSession
        if kind is SparkSession
        else type(kind.__name__, (TableSession, kind), {"__module__": kind.__module__})
    )
    attached = cast(TableSession, spark)
    attached.holdfast = environment
    return attached


def become_plain_session(spark: SparkSession) -> None:
    """Undoes `become_table_session`.

    Args:
        spark: What it has returned.
    """
    kind = type(spark)
    _forget_made(spark)
    spark.__class__ = SparkSession if kind is TableSession else kind.__bases__[1]
    del spark.__dict__["holdfast"]


def _twin(spark: SparkSession, kind: type[SparkSession]) -> SparkSession:
    # PySpark's constructor would apply settings, and make its first session the active one.
    made = kind.__new__(kind)
    made.__dict__.update({key: value for key, value in vars(spark).items() if key.startswith("_")})
    return made


def _forget_made(spark: SparkSession) -> None:
    """Drops what the session has made of itself and remembers, such as its catalog."""
    for name in [name for name in vars(spark) if not name.startswith("_") and name != "holdfast"]:
        del spark.__dict__[name]
