"""The interface of an environment to its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, Row, SparkSession

    from holdfast.api.cached_table import CachedTable
    from holdfast.api.data_stream import DataStream
    from holdfast.api.table import Table
    from holdfast.runtime.recovery.job_sink import JobSink

T = TypeVar("T")


class RetryRefused(Exception):
    """An action must not be retried.

    Raised by the ``before_retry`` of :meth:`TableContext.run_action`, for instance because the
    first attempt of a write left rows behind that a retry would duplicate. The action is then not
    retried: the error of its first attempt is raised, and this message explains it.
    """


class TableContext(Protocol):
    """The interface of an environment to its tables.

    Every table belongs to one context. Building a plan needs it only for :meth:`wrap`; whatever
    runs Spark uses one of the other methods, so that kept results are read and cached ones kept.

    Source: FLIP-36, phase 1 (the table environment of a table).

    Attributes:
        recovers_jobs: Whether a job resumes where it stopped when the program is restarted.
        is_attached: Whether DataFrames of the program's own session are Tables.
    """

    @property
    def recovers_jobs(self) -> bool: ...

    @property
    def is_attached(self) -> bool: ...

    def wrap(self, df: DataFrame) -> Table:
        """Returns the table of a plain DataFrame.

        Args:
            df: A DataFrame of this context's session.
        """

    def plain(self, table: Table, *, fresh: bool = False) -> DataFrame:
        """Returns a table's original plan as a plain DataFrame.

        Args:
            table: The table.
            fresh: Nothing that Spark has made of the plan before counts.
        """

    def left_alone(self) -> AbstractContextManager[None]:
        """For as long as it lasts, what this thread has Spark run reads nothing kept."""

    def session_beside(self, plain: SparkSession) -> SparkSession:
        """Returns a session whose DataFrames are Tables, with what this context keeps.

        Args:
            plain: PySpark's own session, of the same Spark.
        """

    def run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
        takes_all_rows: bool = False,
        is_repeatable: bool = True,
    ) -> T:
        """Runs an action as one job.

        Args:
            table: The table that the action is called on.
            name: The name of the action, for the job's name.
            action: Does the work, on a plain DataFrame in which every kept node is a read. It is
                called a second time, with another DataFrame, if kept data was lost.
            before_retry: Called before that second time; undoes what the first one left behind.
            takes_all_rows: ``action`` asks for every row of the DataFrame, works on one of another
                session as well, and can be called a second time whatever its first call has failed
                with. Then what is to be kept may be written while its rows are taken.
            is_repeatable: ``action`` can be called a second time whatever its first call has
                failed with. Otherwise nothing is read that this program hasn't asked to be kept.

        Returns:
            What ``action`` returns.

        Raises:
            Exception: What ``action`` raises, unless kept data was lost and the second attempt
                succeeded. If ``before_retry`` raises :class:`RetryRefused`, the first attempt's
                error.
        """

    def write_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame, str | None], object],
        sink: JobSink,
    ) -> None:
        """Runs an action whose rows go to a sink, as one job, which is recovered.

        The rows are written exactly once, however often the program is killed and restarted.

        Args:
            table: The table that the action is called on.
            name: The name of the action, for the job's name.
            action: Writes the rows of a plain DataFrame, in which every kept node is a read, to the
                path that the sink has given; with no path, where the job can't be followed, as if
                there were no sink. It is called a second time, with the path emptied, if kept data
                turn out to be lost, and not at all if an earlier start has written all of it.
            sink: The target of the rows.

        Raises:
            holdfast.errors.StaleEpochError: Another start of the job has taken over.
            holdfast.errors.SinkError: The rows can't be written there.
            Exception: What ``action`` raises.
        """

    def stream_action(
        self, table: Table, name: str, action: Callable[[DataFrame], Iterator[Row]]
    ) -> Iterator[Row]:
        """Runs an action whose rows arrive one by one, as one job.

        Args:
            table: The table that the action is called on.
            name: The name of the action, for the job's name.
            action: Opens the iterator, on a plain DataFrame in which every kept node is a read.
        """

    def prepare(self, table: Table, name: str, *, is_run_later: bool = False) -> DataFrame:
        """Keeps cached results, then returns the plain DataFrame that reads them.

        For plans whose jobs Holdfast does not run. What the DataFrame reads stays as long as it is
        referenced.

        Args:
            table: The table whose plan is handed out.
            name: What hands it out, for the job's name.
            is_run_later: Its tables are listed again each time that it is run. An RDD is of the
                files that are there when it is made, as Spark's own.
        """

    def substituted(self, table: Table) -> DataFrame:
        """Returns the plain DataFrame, with kept results substituted. Runs nothing.

        Args:
            table: The table whose plan is substituted.
        """

    def hand_out(self, table: Table) -> DataFrame:
        """Like :meth:`substituted`, but what it reads stays as long as it is referenced.

        Args:
            table: The table whose plan is handed out.
        """

    def cache(
        self, table: Table, lifetime: timedelta | str | None, name: str | None = None
    ) -> CachedTable:
        """Marks the table's computation to be kept by the first job that needs it. Runs nothing.

        Marking it twice has no effect.

        Args:
            table: The table to keep.
            lifetime: For how long; None for what is configured.
            name: What the program calls it.

        Raises:
            holdfast.errors.UnsupportedTypeError: A column's type can't be kept.
        """

    def persist(self, table: Table, level: StorageLevel, name: str | None = None) -> Table:
        """Does what :meth:`cache` does, or has Spark do it where it can't.

        It does so with a type that can't be kept, and on an attached session with anything else.

        Args:
            table: The table to keep.
            level: What was asked for.
            name: What the program calls it.
        """

    def uncache(self, table: Table) -> None:
        """Drops what is kept of the table's computation and no longer keeps it, for anybody.

        Args:
            table: Any table of that computation.
        """

    def storage_level(self, table: Table) -> StorageLevel | None:
        """Returns the level that a table was cached with; None where Holdfast doesn't keep it.

        Args:
            table: Any table of that computation.
        """

    def invalidate(self, table: Table) -> None:
        """Drops what is kept of the table's computation; the next job recomputes it.

        Args:
            table: Any table of that computation, marked or not.
        """

    def forget(self, table: Table) -> None:
        """Drops what is kept of the table's computation and no longer keeps it.

        Args:
            table: Any table of that computation, marked or not.
        """

    def explain_kept(self, table: Table) -> str:
        """Describes which kept results a job of this table would read, and their locations.

        Args:
            table: The table to explain.
        """

    def to_data_stream(self, table: Table) -> DataStream:
        """Returns the table's rows as a stream. Runs nothing.

        Args:
            table: The table.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
        """
