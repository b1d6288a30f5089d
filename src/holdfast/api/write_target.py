"""Targets of writes, and whether a write can be retried after a partial failure.

Measured on Spark 4.3, for each file format and save mode: a write that fails leaves no rows behind,
because its committer renames them into place at the end; it does leave an empty directory, at which
a second attempt with mode ``error`` would fail and one with ``ignore`` would skip. With
``mapreduce.fileoutputcommitter.algorithm.version=2`` every task renames its own files, so a write
that fails leaves the rows of the tasks that had finished. JDBC and other sources that Spark hands
the rows to one by one do the same.

"Leaves no rows behind" holds once its tasks have ended: a stage that fails ends the job while
others of its tasks still run, and one that was allowed to commit may rename its files to where the
job commits from after the job has been cleared away. The next write there would take them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from holdfast.api.context import RetryRefused
from holdfast.errors import SinkError
from holdfast.sinks.sink_mode import SinkMode
from holdfast.spark.interruptible import are_tasks_over, over_before_clearing
from holdfast.spark.write_commands import write_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE_COMMAND = "InsertIntoHadoopFsRelationCommand"
_V2_COMMANDS = ("AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic")
_FILE_FORMATS = frozenset({"avro", "csv", "hive", "json", "orc", "parquet", "text", "xml"})
_DDL_UTILS = "org.apache.spark.sql.execution.command.DDLUtils"
_HADOOP_PATH = "org.apache.hadoop.fs.Path"
# Where tasks put their files until the job commits: as Hadoop's committer calls it.
_UNCOMMITTED = "_temporary"
_COMMITTER_VERSION = "mapreduce.fileoutputcommitter.algorithm.version"


@dataclass(frozen=True, slots=True)
class FilesWrite:
    """A write of files to a directory that this machine sees as its own.

    Attributes:
        directory: The directory, an absolute path.
        mode: What becomes of what it holds.
        dynamic_partitions: Mode "overwrite" replaces only the partitions that are written.
    """

    directory: Path
    mode: SinkMode
    dynamic_partitions: bool


class WriteTarget:
    """The target of a write that may simply be retried.

    Attributes:
        settled: Spark answers the write without reading the table, because of what the target is.
        files: What is written where, if that is files to a local or shared directory.
        is_repeatable: Nothing is left of a write that fails that ``before_retry`` can't undo.
        undoes_failures: Nothing is left of a write that fails that ``before_retry`` doesn't undo,
            and it is all the same to the target which session writes.
    """

    settled = False
    is_repeatable = True
    undoes_failures = False
    files: FilesWrite | None = None

    def before_retry(self) -> None:
        """Undoes what a failed attempt left behind, once nothing of it writes any more.

        Raises:
            RetryRefused: It left rows behind that a retry would duplicate, or may still do so.
        """
        if not are_tasks_over():
            raise RetryRefused(
                "The write was not retried: tasks of its first attempt still run, and may write "
                "rows that a retry would duplicate."
            )
        self._undo()

    def _undo(self) -> None:
        """Removes what a retry would find; raises RetryRefused where that can't be done."""


class SettledTarget(WriteTarget):
    """An existing target, of a write that only creates new ones."""

    settled = True


class UnrepeatableTarget(WriteTarget):
    """A target that takes rows one by one and keeps those of a failed attempt.

    Args:
        what: The name of the target in the error message.
    """

    is_repeatable = False

    def __init__(self, what: str) -> None:
        self._what = what

    def before_retry(self) -> None:
        # Whatever still runs: it may have left rows already.
        raise RetryRefused(
            f"The write to {self._what} was not retried: its first attempt may have left rows "
            "there, which a retry would duplicate."
        )


class DirectoryTarget(WriteTarget):
    """A directory of files.

    Args:
        session: The session that writes.
        path: The directory, as Hadoop's ``Path``.
        is_new: The write creates the directory; if empty, it is removed before a retry.
        files_before: How many files it held before the first attempt, where files that a failed
            attempt leaves behind would be written twice; ``None`` where there are none, or they
            are overwritten.
        is_repeatable: No task puts files in place before all of them have ended.
    """

    def __init__(
        self,
        session: SparkSession,
        path: Any,
        *,
        is_new: bool,
        files_before: int | None,
        is_repeatable: bool = True,
    ) -> None:
        self._session = session
        self._path = path
        self._file_system = _file_system(session, path)
        self._is_new = is_new
        self._files_before = files_before
        self.is_repeatable = is_repeatable

    def _undo(self) -> None:
        if not self._file_system.exists(self._path):
            return
        self._file_system.delete(_child(self._session, self._path, _UNCOMMITTED), True)
        files = _file_count(self._file_system, self._path)
        if self._files_before is not None and files > self._files_before:
            raise RetryRefused(
                f"The write to {self._path.toString()} was not retried: its first attempt left "
                f"{files - self._files_before} files there, whose rows a retry would duplicate."
            )
        if self._is_new and files == 0:
            self._file_system.delete(self._path, True)


class OwnSourceTarget(WriteTarget):
    """A directory that the table is read from, unless what is kept of it can be read instead.

    The rows are written next to it, and replace it when all of them are written: until then it may
    have to be read again.

    Args:
        session: The session that writes.
        path: The directory, as Hadoop's ``Path``.
        refused: Spark's error for overwriting what is read.
    """

    def __init__(self, session: SparkSession, path: Any, refused: AnalysisException) -> None:
        self.refused = refused
        self._session = session
        self._path = path
        self._file_system = _file_system(session, path)

    def overwrite(self, plan: Any, write: Callable[[str], None]) -> None:
        """Replaces the directory by the result of a plan.

        Args:
            plan: The plan, analyzed.
            write: Writes the plan's rows to a place that doesn't exist.

        Raises:
            pyspark.errors.AnalysisException: The plan reads the directory.
            holdfast.errors.SinkError: The rows can't be put in the directory's place.
        """
        _refuse_own_source(self._session, plan, self._path)
        hidden = f".{self._path.getName()}-{uuid.uuid4().hex}"
        staged, aside = (self._beside(f"{hidden}-{kind}") for kind in ("new", "old"))
        try:
            with over_before_clearing():
                write(staged.toString())
            self._rename(self._path, aside)
            try:
                self._rename(staged, self._path)
            except BaseException:
                self._rename(aside, self._path)
                raise
        finally:
            self._file_system.delete(staged, True)
        self._file_system.delete(aside, True)
        self._session.catalog.refreshByPath(self._path.toString())

    def _beside(self, name: str) -> Any:
        return _child(self._session, self._path.getParent(), name)

    def _rename(self, source: Any, target: Any) -> None:
        if not self._file_system.rename(source, target):
            raise SinkError(
                self._path.toString(),
                f"{source.toString()} can't be renamed to {target.toString()}",
            )


def target_of_save(session: SparkSession, java_writer: Any, path: str | None) -> WriteTarget:
    """Returns the target of ``DataFrameWriter.save`` and similar methods.

    Args:
        session: The session that writes.
        java_writer: Spark's writer of the table's original plan, format and mode set.
        path: The path to save to, unless an option gives it or the format needs none.

    Raises:
        pyspark.errors.AnalysisException: Spark rejects the write.

    Source: FLIP-36, phase 1 (the original plan is resubmitted, transparently to the users).
    """
    command = write_command(session, java_writer, "save", path)
    if command is None:
        return SettledTarget()
    target = _target_of_save_command(session, java_writer, command)
    if _simple_name(command) == _FILE_COMMAND:
        target.files = _files_write(command)
        target.undoes_failures = not _commits_tasks(session, java_writer)
    elif java_writer.source().lower() == "noop":
        target.undoes_failures = True
    return target


def _target_of_save_command(session: SparkSession, java_writer: Any, command: Any) -> WriteTarget:
    if _simple_name(command) == _FILE_COMMAND:
        if command.mode().toString() in ("ErrorIfExists", "Ignore"):
            output = command.outputPath()
            if _file_system(session, output).exists(output):
                return SettledTarget()
        if command.mode().toString() == "Overwrite" and not command.dynamicPartitionOverwrite():
            # Spark refuses this for tables; for paths it would delete the files and then miss them.
            try:
                _refuse_own_source(session, command.query(), command.outputPath())
            except AnalysisException as refused:
                return OwnSourceTarget(session, command.outputPath(), refused)
    return _target_of_command(session, java_writer, command)


def target_of_insert(session: SparkSession, java_writer: Any, table: str) -> WriteTarget:
    """Returns the target of ``DataFrameWriter.insertInto``.

    Args:
        session: The session that writes.
        java_writer: Spark's writer of the table's original plan.
        table: The table to insert into.

    Raises:
        pyspark.errors.AnalysisException: Spark rejects the write, for instance because it would
            overwrite a table that the rows are read from.

    Source: FLIP-36, phase 1 (the original plan is resubmitted, transparently to the users).
    """
    command = _analyzed(session, write_command(session, java_writer, "insertInto", table))
    return _target_of_command(session, java_writer, command)


def target_of_append(session: SparkSession, command: Any) -> WriteTarget:
    """Returns the target of ``DataFrameWriterV2.append``, ``overwrite`` or ``overwritePartitions``.

    Args:
        session: The session that writes.
        command: Spark's plan of the write.

    Raises:
        pyspark.errors.AnalysisException: Spark rejects the write.

    Source: FLIP-36, phase 1 (the original plan is resubmitted, transparently to the users).
    """
    return _target_of_command(session, None, _analyzed(session, command))


def target_of_table(session: SparkSession, java_writer: Any, query: Any, name: str) -> WriteTarget:
    """Returns the target of ``DataFrameWriter.saveAsTable``.

    Args:
        session: The session that writes.
        java_writer: Spark's writer of the table's original plan.
        query: That plan, analyzed.
        name: The table to create, append to or replace.

    Raises:
        pyspark.errors.AnalysisException: The write would replace a table that it is read from.

    Source: FLIP-36, phase 1 (the original plan is resubmitted, transparently to the users).
    """
    mode = java_writer.curmode().toString()
    exists = session.catalog.tableExists(name)
    if exists and mode in ("ErrorIfExists", "Ignore"):
        return SettledTarget()
    if java_writer.source().lower() == "jdbc" and mode != "Overwrite":
        return UnrepeatableTarget(name)
    state = session._jsparkSession.sessionState()
    in_session_catalog = (
        session.catalog.currentCatalog() == "spark_catalog"
        and state.sqlParser().parseMultipartIdentifier(name).length() <= 2
    )
    if not in_session_catalog:
        return WriteTarget()  # another catalog's tables change atomically
    identifier = state.sqlParser().parseTableIdentifier(name)
    metadata = None
    if exists and state.catalog().tableExists(identifier):
        metadata = state.catalog().getTableMetadata(identifier)
        location = metadata.storage().locationUri()
        if location.isEmpty() or not _is_file_format(metadata):
            return WriteTarget()
        path = _path(session, location.get())
    elif java_writer.extraOptions().contains("path"):
        path = _path(session, java_writer.extraOptions().get("path").get())
    else:
        path = _path(session, state.catalog().defaultTablePath(identifier))
    if mode == "Overwrite":
        if metadata is not None:
            _refuse_own_source(session, query, path, metadata)
        return DirectoryTarget(session, path, is_new=True, files_before=None)
    return _directory(session, java_writer, path)


def _files_write(command: Any) -> FilesWrite | None:
    location = command.outputPath().toUri()
    if location.getScheme() != "file":
        return None
    return FilesWrite(
        Path(location.getPath()),
        SinkMode(command.mode().toString()),
        command.dynamicPartitionOverwrite(),
    )


def _target_of_command(session: SparkSession, java_writer: Any, command: Any) -> WriteTarget:
    kind = _simple_name(command)
    if kind == _FILE_COMMAND:
        if command.mode().toString() == "Overwrite":
            path = command.outputPath()
            return DirectoryTarget(session, path, is_new=False, files_before=None)
        return _directory(session, java_writer, command.outputPath())
    if kind == "SaveIntoDataSourceCommand" and command.mode().toString() != "Overwrite":
        return UnrepeatableTarget(java_writer.source())
    if kind == "InsertIntoDataSourceCommand" and not command.overwrite():
        return UnrepeatableTarget(command.logicalRelation().relation().toString())
    if kind in _V2_COMMANDS:
        table = command.table().table()
        if "V1_BATCH_WRITE" in {capability.toString() for capability in table.capabilities()}:
            return UnrepeatableTarget(table.name())
    return WriteTarget()


def _directory(session: SparkSession, java_writer: Any, path: Any) -> DirectoryTarget:
    """The directory of a write that adds files to it, or that makes it."""
    file_system = _file_system(session, path)
    commits_tasks = _commits_tasks(session, java_writer)
    is_new = not file_system.exists(path)
    files_before = 0 if is_new else None
    if commits_tasks and not is_new:
        files_before = _file_count(file_system, path)
    return DirectoryTarget(
        session, path, is_new=is_new, files_before=files_before, is_repeatable=not commits_tasks
    )


def _commits_tasks(session: SparkSession, java_writer: Any) -> bool:
    """Whether each task of a write puts its own files in place, whatever becomes of the others."""
    options = java_writer.extraOptions()
    conf = session._jsparkSession.sessionState().newHadoopConfWithOptions(options)
    return bool(conf.get(_COMMITTER_VERSION, "1") != "1")


def _refuse_own_source(
    session: SparkSession, query: Any, path: Any, metadata: Any | None = None
) -> None:
    """Raises Spark's own error if the plan reads the path."""
    option = session._jvm.scala.Option  # type: ignore[union-attr]
    getattr(session._jvm, _DDL_UTILS).verifyNotReadPath(query, path, option.apply(metadata))


def _analyzed(session: SparkSession, command: Any) -> Any:
    """Lets Spark analyze a write as far as it goes without running it."""
    modes = getattr(session._jvm, "org.apache.spark.sql.execution.CommandExecutionMode")
    state = session._jsparkSession.sessionState()
    execution = state.executePlan(command, modes.SKIP())
    execution.assertAnalyzed()
    return execution.analyzed()


def _is_file_format(metadata: Any) -> bool:
    provider = metadata.provider()
    return provider.isDefined() and provider.get().lower() in _FILE_FORMATS


def _path(session: SparkSession, location: Any) -> Any:
    path = getattr(session._jvm, _HADOOP_PATH)(location)
    return _file_system(session, path).makeQualified(path)


def _child(session: SparkSession, path: Any, name: str) -> Any:
    jvm: Any = session._jvm
    return getattr(jvm, _HADOOP_PATH)(path, name)


def _file_system(session: SparkSession, path: Any) -> Any:
    return path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())


def _file_count(file_system: Any, path: Any) -> int:
    """How many files of rows a directory holds, at any depth."""
    count = 0
    for status in file_system.listStatus(path):
        name = status.getPath().getName()
        # Spark ignores these too, so they hold no rows: markers and what is not committed.
        if name.startswith(".") or (name.startswith("_") and "=" not in name):
            continue
        is_directory = status.isDirectory()
        count += _file_count(file_system, status.getPath()) if is_directory else 1
    return count


def _simple_name(java_object: Any) -> str:
    return str(java_object.getClass().getSimpleName())
