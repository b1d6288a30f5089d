"""What a Table asks of the environment it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from holdfast.api.cached_table import CachedTable
    from holdfast.api.data_stream import DataStream
    from holdfast.api.table import Table
    from holdfast.runtime.recovery.job_sink import JobSink

T = TypeVar("T")


class RetryRefused(Exception):
    """A second attempt of an action would do harm.

    Raised by the ``before_retry`` of :meth:`TableContext.run_action`, for instance because the
    first attempt of a write left rows behind which a second one would write again. The action is
    then not repeated: the error of its first attempt surfaces, and this message explains it.
    """


class TableContext(Protocol):
    """The side of an environment that its tables see.

    Every table belongs to one context. Building a plan needs it only for :meth:`wrap`; whatever
    makes Spark run goes through one of the other methods, so that kept results are read, and what
    has to be kept is kept.

    Source: FLIP-36, phase 1 (the table environment of a table).

    Attributes:
        recovers_jobs: A job goes on where it stopped, when the program is started again.
    """

    @property
    def recovers_jobs(self) -> bool: ...

    def wrap(self, df: DataFrame) -> Table:
        """Gives the table of a plain DataFrame.

        Args:
            df: A DataFrame of this context's session.
        """

    def run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
    ) -> T:
        """Runs an action as one job.

        Args:
            table: The table that the action is called on.
            name: How the action is called, for the job's name.
            action: Does the work, on a plain DataFrame in which every kept node is a read. It is
                called a second time, with another DataFrame, if kept data turn out to be lost.
            before_retry: Called before that second time; undoes what the first one left behind.

        Returns:
            What ``action`` returns.

        Raises:
            Exception: What ``action`` raises, unless kept data were lost and the second attempt
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

        The rows are there exactly once, however often the program is killed and started again.

        Args:
            table: The table that the action is called on.
            name: How the action is called, for the job's name.
            action: Writes the rows of a plain DataFrame, in which every kept node is a read, to the
                path that the sink has given; with no path, where the job can't be followed, as if
                there were no sink. It is called a second time, with the path emptied, if kept data
                turn out to be lost, and not at all if an earlier start has written all of it.
            sink: Where the rows go.

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
            name: How the action is called, for the job's name.
            action: Opens the iterator, on a plain DataFrame in which every kept node is a read.
        """

    def prepare(self, table: Table, name: str) -> DataFrame:
        """Keeps what has to be kept, then gives the plain DataFrame that reads it.

        For what hands a plan out to where Holdfast doesn't see its jobs. What it reads stays for as
        long as somebody has it.

        Args:
            table: The table whose plan is handed out.
            name: What hands it out, for the job's name.
        """

    def substituted(self, table: Table) -> DataFrame:
        """Gives the plain DataFrame in which whatever is kept already is a read. Runs nothing.

        Args:
            table: The table whose plan is substituted.
        """

    def hand_out(self, table: Table) -> DataFrame:
        """Like :meth:`substituted`, and what it reads stays for as long as somebody has it.

        Args:
            table: The table whose plan is handed out.
        """

    def cache(self, table: Table) -> CachedTable:
        """Marks the table's computation to be kept by the first job that needs it. Runs nothing.

        Marking it again changes nothing.

        Args:
            table: The table to keep.

        Raises:
            holdfast.errors.UnsupportedTypeError: A column's type can't be kept.
        """

    def invalidate(self, table: Table) -> None:
        """Drops what is kept of the table's computation; the next job computes it again.

        Args:
            table: Any table of that computation, marked or not.
        """

    def forget(self, table: Table) -> None:
        """Drops what is kept of the table's computation and no longer keeps it.

        Args:
            table: Any table of that computation, marked or not.
        """

    def explain_kept(self, table: Table) -> str:
        """Says what a job of this table would read, and from where, instead of computing it.

        Args:
            table: The table to explain.
        """

    def to_data_stream(self, table: Table) -> DataStream:
        """Gives the table's rows as a stream. Runs nothing.

        Args:
            table: The table whose rows they are.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
        """
