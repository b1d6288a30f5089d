"""Tells a loss of kept data from an error of the person's own query."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

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


def is_cancelled(error: BaseException) -> bool:
    """Whether a Spark job has ended because somebody cancelled it.

    Args:
        error: what it failed with.
    """
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
    throwable: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    messages = []
    while throwable is not None:
        messages.append(str(throwable.getMessage() or throwable.toString()))
        throwable = throwable.getCause()
    return messages
