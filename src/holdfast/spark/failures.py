"""Tells a loss of kept data from an error of the person's own query."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath
from typing import Any, cast
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.logger import PySparkLogger

from holdfast.errors import BatchSealBrokenError, StreamTaskError

# What follows a slash is a part of what is kept under the label.
_BROKEN_SEAL = re.compile(rf"\[{BatchSealBrokenError.marker}\] \[([^\]/]*)[^\]]*\]")
# PySpark writes errors there when it makes them, whatever becomes of them.
_ERROR_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Python's workers send their errors as text, with the type's full name before each message.
_STREAM_TASK_ERROR = re.compile(
    rf"\b{StreamTaskError.__module__}\.("
    rf"{'|'.join(error.__name__ for error in StreamTaskError.__subclasses__())}):"
)

_READERS = ("execution.datasources.FileScanRDD", "execution.datasources.parquet.")
_OF_PYTHON = ("api.python.BasePythonRunner", "api.python.PythonException", "execution.python.")
_FAILED_READ = "FAILED_READ_FILE"
_INTERRUPTED = "java.lang.InterruptedException"
_NOT_OF_DATA = frozenset(
    {"java.lang.OutOfMemoryError", "java.nio.channels.ClosedByInterruptException"}
)


def names_any(error: BaseException, directories: Iterable[str]) -> bool:
    """Whether an error, or anything that caused it, speaks of one of the directories.

    Spark names the file whenever it fails to read or to write one; the person's own functions and
    expressions don't know these paths.

    Args:
        error: what a Spark job failed with.
        directories: of ours, each a path of this machine or a URL.
    """
    wanted = [form for directory in directories for form in _forms(directory)]
    return any(form in message for message in _messages(error) for form in wanted)


def broken_seals(error: BaseException) -> frozenset[str]:
    """The labels of sealed batches that an error, or anything that caused it, calls broken.

    Args:
        error: what a Spark job failed with.
    """
    return frozenset(
        found.group(1) for message in _messages(error) for found in _BROKEN_SEAL.finditer(message)
    )


def may_be_of_reading(error: BaseException) -> bool:
    """Whether a job may have failed because of how something was kept that it read.

    So it is where Spark was reading a file, of which it doesn't say that it is another one than
    those kept; and where no class of Spark's has raised it, as what a query does wrong Spark says
    in its own words, and what the program's functions raise comes wrapped.

    Args:
        error: what a Spark job failed with; it names no file that is kept.
    """
    causes = list(_causes(error))
    if not causes or is_cancelled(error):
        return False
    conditions = [condition for each in causes if (condition := _condition(each))]
    if any(condition.startswith(_FAILED_READ) for condition in conditions):
        return False
    classes = [
        str(frame.getClassName()) for each in causes for frame in each.getStackTrace()
    ] + list(_messages(error))
    if any(reader in text for text in classes for reader in _READERS):
        return True
    if any(runner in text for text in classes for runner in _OF_PYTHON):
        return False
    if any(not condition.startswith("INTERNAL_ERROR") for condition in conditions):
        return False
    name = str(causes[-1].getClass().getName())
    return not name.startswith("org.apache.spark.") and name not in _NOT_OF_DATA


def _condition(throwable: Any) -> str | None:
    """By which Spark knows an error; None of others."""
    if not str(throwable.getClass().getName()).startswith("org.apache.spark."):
        return None
    try:
        return cast("str | None", throwable.getCondition())
    except Py4JError:
        return None


def is_cancelled(error: BaseException) -> bool:
    """Whether a Spark job has ended because it, or the thread that waits for it, was cancelled.

    Args:
        error: what it failed with.
    """
    if any(str(each.getClass().getName()) == _INTERRUPTED for each in _causes(error)):
        return True
    return any("SPARK_JOB_CANCELLED" in message for message in _messages(error))


def is_of_stream_task(error: BaseException) -> bool:
    """Whether a task of a stream has failed by what its functions or its data are.

    Args:
        error: what a Spark job failed with.
    """
    return any(_STREAM_TASK_ERROR.search(message) for message in _messages(error))


@contextmanager
def last_error_logged() -> Iterator[None]:
    """Of the errors that PySpark logs meanwhile, for this thread, the one that is raised counts."""
    this, held = threading.get_ident(), list[logging.LogRecord]()

    def is_logged(record: logging.LogRecord) -> bool:
        if record.thread != this:
            return True
        held.append(record)
        return False

    with ExitStack() as holding:
        for name in _ERROR_LOGGERS:
            logger = PySparkLogger.getLogger(name)
            logger.addFilter(is_logged)
            holding.callback(logger.removeFilter, is_logged)
        try:
            yield
        except BaseException:
            holding.close()
            for record in held[-1:]:
                logging.getLogger(record.name).handle(record)
            raise


def _forms(directory: str) -> tuple[str, ...]:
    # Some messages show a path as it is, some as a URL, some without what is before the path.
    if directory.startswith("/"):
        return directory, PurePosixPath(directory).as_uri().removeprefix("file://")
    return (urlsplit(directory).path,)


def reason(error: BaseException) -> str:
    """An error in one line, with its first cause: what failed, and what made it fail."""
    messages = [
        message.strip().partition("\n")[0]
        for message in (_java_messages(error) or [str(error), type(error).__name__])
    ]
    told = [message for message in messages if message]
    return told[0] if told[-1] in told[0] else f"{told[0]}: {told[-1]}"


def _messages(error: BaseException) -> Iterator[str]:
    seen: BaseException | None = error
    while seen is not None:
        yield from (str(argument) for argument in seen.args)
        yield from _java_messages(seen)
        seen = seen.__cause__


def _java_messages(error: BaseException) -> list[str]:
    """What an error of the JVM says, and each of its causes."""
    return [str(each.getMessage() or each.toString()) for each in _causes(error)]


def _causes(error: BaseException) -> Iterator[Any]:
    """An error of the JVM, and each of its causes."""
    throwable: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    while throwable is not None:
        yield throwable
        throwable = throwable.getCause()
