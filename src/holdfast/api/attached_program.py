"""Attaches the sessions of a program that doesn't know of Holdfast."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.api.attachment import attach
from holdfast.api.table_session import TableSession, become_table_session
from holdfast.errors import ConfigurationError, HoldfastError

logger = logging.getLogger(__name__)


class AttachedSessions(list[TableSession]):
    """The sessions that were attached, so far.

    Attributes:
        error: what is wrong with the configuration, as the program was given it; None for nothing.
    """

    error: ConfigurationError | None = None


@contextmanager
def sessions_attached(config: Mapping[str, Any]) -> Iterator[AttachedSessions]:
    """Attaches every session that is created inside.

    One that can't be attached stays plain, with a warning: the program runs without Holdfast.

    Args:
        config: Values by key, as for `Environment`.

    Yields:
        The sessions that were attached, so far.

    Raises:
        ConfigurationError: From the program's call that creates a session: a key or a value is
            wrong, or job recovery has no directory.
    """
    attached = AttachedSessions()
    create = SparkSession.__init__

    def created(self: SparkSession, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        # PySpark wraps the JVM's sessions on many occasions, be they attached or not.
        if len(args) < 2 and kwargs.get("jsparkSession") is None:
            session = _attached(self, attached, config)
            if session is not None:
                attached.append(session)

    undone = cast(Any, SparkSession)
    undone.__init__ = created
    try:
        yield attached
    finally:
        undone.__init__ = create


def _attached(
    session: SparkSession, others: AttachedSessions, config: Mapping[str, Any]
) -> TableSession | None:
    for other in others:
        if isinstance(other, TableSession) and other._jsparkSession.equals(session._jsparkSession):
            return become_table_session(session, other.holdfast)
    try:
        return attach(session, config)
    except ConfigurationError as error:
        others.error = error
        raise
    except HoldfastError as error:
        logger.warning("The program runs without Holdfast: %s", error)
        return None
