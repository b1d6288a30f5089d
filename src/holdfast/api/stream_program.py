"""The streams of an environment: the sinks that were added, and their execution."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from holdfast.api.cached_data_stream import CachedDataStream
from holdfast.api.closeable_iterator import CloseableIterator
from holdfast.api.data_stream import DataStream
from holdfast.api.interrupts import InterruptibleAction, interruptible_rows
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.api.keyed_stream import KeyedStream
from holdfast.api.safe_points import DroppableRows, releasing
from holdfast.catalog.audience import Audience
from holdfast.errors import EnvironmentClosedError, NoSinksError, StreamNotShareableError
from holdfast.graph.stream.execution_plan import ExecutionPlan
from holdfast.graph.stream.transformations import CacheTransformation, SinkTransformation
from holdfast.runtime.job_result import JobResult

if TYPE_CHECKING:
    from holdfast.api.environment import Environment
    from holdfast.api.table import Table
    from holdfast.spark.streams.executor import StreamExecutor


class StreamProgram:
    """The stream program of an environment until the next ``execute``.

    Args:
        environment: The environment.
        executor: Runs the jobs.
        parallelism: The default parallelism, at least 1.
        audience: Who may read what the environment keeps.
        is_closed: Whether the environment has been closed.
        on_result: Called with the result of each successful job.

    Source: FLIP-205, "DataStream -> Stream Graph".
    """

    def __init__(
        self,
        environment: Environment,
        executor: StreamExecutor,
        parallelism: int,
        audience: Audience,
        is_closed: Callable[[], bool],
        on_result: Callable[[JobExecutionResult], None],
    ) -> None:
        self.environment = environment
        self.parallelism = parallelism
        self._executor = executor
        self._audience = audience
        self._is_closed = is_closed
        self._on_result = on_result
        self._sinks: list[SinkTransformation] = []

    def check_open(self, what: str) -> None:
        """Raises if the environment has been closed.

        Args:
            what: The operation.

        Raises:
            EnvironmentClosedError: It has.
        """
        if self._is_closed():
            raise EnvironmentClosedError(what)

    # --- the side that streams see, see holdfast.api.stream_context.StreamContext

    def keyed(self, stream: DataStream, key_selector: Any) -> KeyedStream:
        """Returns a stream that is partitioned by key."""
        return KeyedStream(stream, key_selector, self)

    def cache(self, stream: DataStream, lifetime: timedelta | str | None) -> CachedDataStream:
        """Marks a stream to be kept by the first job that needs it."""
        self.check_open("cache()")
        stays = self.environment.configuration.lifetime(lifetime)
        check_may_outlive(stays, self._audience)
        if not isinstance(stream, CachedDataStream):
            stream = CachedDataStream(CacheTransformation(stream._transformation), self)
        self._executor.prolong(stream._transformation, stays)
        return stream

    @releasing
    def invalidate(self, stream: CachedDataStream) -> None:
        """Drops what is kept of a stream."""
        if not self._is_closed():
            self._executor.invalidate(stream._transformation, self.parallelism)

    @releasing
    def forget(self, stream: CachedDataStream) -> None:
        """Drops what is kept of a stream, which is no longer cached."""
        if not self._is_closed():
            self._executor.forget(stream._transformation)

    def add_sink(self, sink: SinkTransformation) -> None:
        """Adds a sink for the next `execute` to run."""
        self.check_open("a sink")
        self._sinks.append(sink)

    def collect(self, stream: DataStream, job_name: str) -> CloseableIterator:
        """Returns the records of a stream one by one, as one job."""
        self.check_open("execute_and_collect()")
        records = self._executor.collect(
            stream._transformation, job_name, self.parallelism, self._ended_well
        )
        rows = interruptible_rows(self.environment.spark, records)
        return CloseableIterator(DroppableRows(rows))

    # --- the side that the environment sees

    def execute(self, job_name: str) -> JobExecutionResult:
        """Runs all the sinks that were added, as one job; they are removed, whatever the outcome.

        Args:
            job_name: The name of the job.

        Raises:
            EnvironmentClosedError: The environment has been closed.
            NoSinksError: There are no sinks.
        """
        self.check_open("execute()")
        if not self._sinks:
            raise NoSinksError()
        sinks, self._sinks = self._sinks, []
        with InterruptibleAction(self.environment.spark):
            return self._ended_well(self._executor.execute(job_name, sinks, self.parallelism))

    def to_table(self, stream: DataStream, schema: StructType | str) -> Table:
        """Returns the table of a stream's records.

        Args:
            stream: The stream.
            schema: The table's columns.
        """
        dataframe = self._executor.to_dataframe(stream._transformation, schema, self.parallelism)
        return self.environment.wrap(dataframe)

    def execution_plan(self) -> ExecutionPlan:
        """Returns what the next `execute` would run. Runs nothing.

        Raises:
            EnvironmentClosedError: The environment has been closed.
            NoSinksError: There are no sinks.
        """
        self.check_open("get_execution_plan()")
        self._executor.refresh(self._sinks)
        return ExecutionPlan.of(default_parallelism=self.parallelism, transformations=self._sinks)

    def _ended_well(self, result: JobResult) -> JobExecutionResult:
        told = JobExecutionResult.of(result)
        self._on_result(told)
        return told


def check_may_outlive(lifetime: float | None, audience: Audience) -> None:
    """Sees to it that a stream's records, which are pickles, are read by nobody but their user.

    Args:
        lifetime: How long the stream is to stay, in seconds; None: as long as its program.
        audience: Who may read what the program keeps.

    Raises:
        StreamNotShareableError: It outlives its program where other users read as well.

    >>> check_may_outlive(60.0, Audience.USER)
    >>> check_may_outlive(None, Audience.ALL)
    """
    if lifetime is not None and audience.is_beyond_user:
        raise StreamNotShareableError(audience.value)
