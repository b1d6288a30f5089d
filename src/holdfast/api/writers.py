"""Writing a table: PySpark's writers, whose last call is a job."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

from holdfast.api.context import RetryRefused
from holdfast.api.members import (
    MERGE_WRITER_MEMBERS,
    WRITER_MEMBERS,
    WRITER_V2_MEMBERS,
    MemberKind,
    members_of,
)
from holdfast.api.recoverable_write import (
    WriterCall,
    calls_to,
    sink_of_write,
    staged_calls,
)
from holdfast.api.write_target import (
    OwnSourceTarget,
    UnrepeatableTarget,
    WriteTarget,
    target_of_append,
    target_of_insert,
    target_of_save,
    target_of_table,
)
from holdfast.errors import SinkTargetExistsError, UnsupportedSparkError
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.spark.failures import is_cancelled
from holdfast.spark.interruptible import is_interrupt
from holdfast.spark.write_commands import write_command

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from holdfast.api.table import Table


class TableWriter(DataFrameWriter):
    """PySpark's writer, whose writing calls run as jobs; returned by ``table.write``.

    If kept data is lost during a write, the write is rerun from scratch, unless rows of the first
    attempt remain and would be duplicated (JDBC, sources that take rows one by one, Hadoop's
    committer version 2): then the first attempt's error is raised.

    With job recovery, files of any format that go to a directory of a local or shared file system
    are written next to it and published in one step, exactly once, however often the program is
    killed and restarted.

    Args:
        table: The table to write.

    Raises:
        pyspark.errors.AnalysisException: A writing call would overwrite a source of the table
            that isn't kept, or Spark rejects it for another reason.

    Source: FLIP-36, phase 1 (a sink is a job like any other).

    Example:
        >>> table.write.mode("overwrite").format("noop").save()
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._jwrite = _JobWriter(
            table,
            "write",
            self._jwrite,
            lambda df: df._jdf.write(),
            members_of(WRITER_MEMBERS, MemberKind.ACTION),
            _target_of_v1,
        )


class TableWriterV2(DataFrameWriterV2):
    """PySpark's writer, whose writing calls run as jobs; returned by ``table.writeTo(name)``.

    Args:
        table: The table to write.
        name: The table to write to.

    Raises:
        pyspark.errors.AnalysisException: Spark rejects a writing call.

    Source: FLIP-36, phase 1 (a sink is a job like any other).

    Example:
        >>> table.writeTo("numbers").using("parquet").create()
    """

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self._jwriter = _JobWriter(
            table,
            "writeTo",
            self._jwriter,
            lambda df: df._jdf.writeTo(name),
            members_of(WRITER_V2_MEMBERS, MemberKind.ACTION),
            _target_of_v2,
        )


class TableMergeWriter(MergeIntoWriter):
    """PySpark's merge writer, whose ``merge`` runs as a job; returned by ``table.mergeInto``.

    Args:
        table: The table whose rows are merged.
        name: The table to merge into.
        condition: The condition on which rows match.

    Raises:
        pyspark.errors.AnalysisException: Spark rejects the merge.

    Source: FLIP-36, phase 1 (a sink is a job like any other).

    Example:
        >>> merge = table.mergeInto("numbers", expr("true")).whenNotMatched().insertAll()
    """

    def __init__(self, table: Table, name: str, condition: Column) -> None:
        super().__init__(table, name, condition)
        self._jwriter = _JobWriter(
            table,
            "mergeInto",
            self._jwriter,
            lambda df: MergeIntoWriter(df, name, condition)._jwriter,
            members_of(MERGE_WRITER_MEMBERS, MemberKind.ACTION),
            lambda writer, method, args: WriteTarget(),
        )


class _JobWriter:
    """Stands where PySpark's writers hold Spark's writer, and does the writing calls as jobs.

    Every other call goes to Spark's writer of the original plan, so that Spark checks it at once,
    and is recorded; a job repeats them on a writer of its own plan.
    """

    def __init__(
        self,
        table: Table,
        opened_by: str,
        java_writer: Any,
        open_writer: Callable[[DataFrame], Any],
        writing_calls: frozenset[str],
        target_of: Callable[[_JobWriter, str, tuple[Any, ...]], WriteTarget],
    ) -> None:
        self.table = table
        self.java_writer = java_writer
        self._opened_by = opened_by
        self._open_writer = open_writer
        self._writing_calls = writing_calls
        self._target_of = target_of
        self._recorded: list[WriterCall] = []

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("__"):
            raise AttributeError(method)
        do = self._write if method in self._writing_calls else self.configure
        return functools.partial(do, method)

    def configure(self, method: str, *args: Any) -> Any:
        """Passes a call on to Spark's writer, and records it if it sets something."""
        return self.continued(
            getattr(self.java_writer, method)(*args), self.java_writer, ((method, args),)
        )

    def continued(self, result: Any, asked: Any, calls: tuple[WriterCall, ...]) -> Any:
        """Returns the result of these calls: this writer, a clause or a value."""
        if type(result) is not type(asked):
            return result
        kind = result.getClass().getName()
        if kind == self.java_writer.getClass().getName():
            self._recorded.extend(calls)
            return self
        if kind.rpartition(".")[2].startswith("When"):
            return _JobMergeClause(self, result, calls)
        return result

    def _write(self, method: str, *args: Any) -> None:
        name = f"{self._opened_by}.{method}"
        try:
            target = self._target_of(self, method, args)
        except UnsupportedSparkError:
            # Where it writes to isn't known, so neither is what a failed attempt leaves there.
            target = UnrepeatableTarget(name)
        calls = (*self._recorded, (method, args))
        sink = None
        if isinstance(target, OwnSourceTarget):
            self._overwrite_own_source(name, calls, target)
            return
        if self.table._holdfast_context.recovers_jobs:
            sink = sink_of_write(name, self.java_writer, target, calls)
        if sink is not None:
            self._write_once(name, calls, sink)
        elif target.settled:
            getattr(self.java_writer, method)(*args)
        else:
            try:
                self.table._holdfast_context.run_action(
                    self.table,
                    name,
                    lambda df: _replay(self._open_writer(df), calls),
                    before_retry=target.before_retry,
                    takes_all_rows=target.undoes_failures,
                    is_repeatable=target.is_repeatable,
                )
            except BaseException as error:
                if is_interrupt(error) or is_cancelled(error):
                    # Spark leaves an empty directory, at which the next try would fail.
                    with suppress(RetryRefused, Py4JError):
                        target.before_retry()
                raise

    def _overwrite_own_source(
        self, name: str, calls: tuple[WriterCall, ...], target: OwnSourceTarget
    ) -> None:
        if self.table._holdfast_context.recovers_jobs:
            # A start after the first one would read what that has written.
            raise target.refused

        def act(df: DataFrame) -> None:
            target.overwrite(
                df._jdf.queryExecution().analyzed(),
                lambda place: _replay(self._open_writer(df), calls_to(calls, place)),
            )

        self.table._holdfast_context.run_action(self.table, name, act)

    def _write_once(self, name: str, calls: tuple[WriterCall, ...], sink: DirectorySink) -> None:
        def act(df: DataFrame, path: str | None = None) -> None:
            written = calls if path is None else staged_calls(calls, path)
            _replay(self._open_writer(df), written)

        try:
            self.table._holdfast_context.write_action(self.table, name, act, sink)
        except SinkTargetExistsError:
            # Spark says so in its own words.
            _replay(self.java_writer, calls[-1:])
        self.table.sparkSession.catalog.refreshByPath(f"file:{sink.target}")


class _JobMergeClause:
    """A ``when...`` of a merge, whose calls go back to the writer it belongs to."""

    def __init__(self, writer: _JobWriter, java_clause: Any, calls: tuple[WriterCall, ...]) -> None:
        self._writer = writer
        self._java_clause = java_clause
        self._calls = calls

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("__"):
            raise AttributeError(method)
        return functools.partial(self._close, method)

    def _close(self, method: str, *args: Any) -> Any:
        result = getattr(self._java_clause, method)(*args)
        return self._writer.continued(result, self._java_clause, (*self._calls, (method, args)))


def _replay(java_object: Any, calls: tuple[WriterCall, ...]) -> None:
    for method, args in calls:
        java_object = getattr(java_object, method)(*args)


def _target_of_v1(writer: _JobWriter, method: str, args: tuple[Any, ...]) -> WriteTarget:
    session = writer.table.sparkSession
    if method == "insertInto":
        return target_of_insert(session, writer.java_writer, args[0])
    if method == "saveAsTable":
        query = writer.table._jdf.queryExecution().analyzed()
        return target_of_table(session, writer.java_writer, query, args[0])
    if method == "jdbc":
        overwrites = writer.java_writer.curmode().toString() == "Overwrite"
        return WriteTarget() if overwrites else UnrepeatableTarget(args[1])
    if method != "save":
        writer.configure("format", method)  # parquet(path) is format("parquet").save(path)
    return target_of_save(session, writer.java_writer, args[0] if args else None)


def _target_of_v2(writer: _JobWriter, method: str, args: tuple[Any, ...]) -> WriteTarget:
    if method not in ("append", "overwrite", "overwritePartitions"):
        return WriteTarget()
    session = writer.table.sparkSession
    return target_of_append(session, write_command(session, writer.java_writer, method, *args))
