"""Leaves out of a program's log what libraries log of Holdfast's work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALEMBIC = ("alembic.runtime.migration", "alembic.runtime.plugins")
"""The loggers by which Alembic says what it does."""

_PY4J = ("py4j.clientserver", "py4j.java_gateway")


@contextmanager
def unheard(*names: str) -> Iterator[None]:
    """What loggers say of what this thread does inside, up to INFO, is not logged.

    Args:
        names: of the loggers.

    Example:
        >>> with unheard("alembic.runtime.migration"):
        ...     logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    """
    thread = threading.get_ident()

    def is_heard(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.levelno > logging.INFO

    loggers = [logging.getLogger(name) for name in names]
    for each in loggers:
        each.addFilter(is_heard)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(is_heard)


def quiet_py4j() -> None:
    """Py4J doesn't log each connection and call, unless a level of its loggers asks for it.

    Threads of Holdfast's have connections, and the JVM calls it for each query.
    """
    for name in _PY4J:
        logging.getLogger(name).addFilter(_is_asked_for)


def _is_asked_for(record: logging.LogRecord) -> bool:
    if record.levelno != logging.INFO or record.exc_info:
        return True
    return any(logging.getLogger(name).level for name in (record.name, "py4j"))
