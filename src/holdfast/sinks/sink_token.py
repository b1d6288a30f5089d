"""The name by which a job's sinks know what they have published."""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any

from holdfast.errors import SinkError
from holdfast.sinks.sink_start import SinkJournal

__all__ = ["known_token", "token_of"]

logger = logging.getLogger(__name__)

_VERSION = 1


def known_token(journal: SinkJournal) -> str | None:
    """The token that an earlier start of the job, or this one, has made.

    Args:
        journal: the job's.

    Returns:
        The token; None where none has been made.

    Raises:
        OSError: the journal can't be read.
    """
    try:
        entry: Any = json.loads(journal.read())
    except ValueError:
        return None
    token = entry.get("token") if isinstance(entry, dict) else None
    return token if isinstance(token, str) and token.isalnum() else None


def token_of(journal: SinkJournal, target: str) -> str:
    """The job's token, made now if there is none.

    It is random, not the job's id: the same program that is run again is the same job, and has
    published nothing yet.

    Args:
        journal: the job's.
        target: where the job writes, for the error's message.

    Raises:
        SinkError: the journal can't be read.
    """
    try:
        token = known_token(journal)
    except OSError as error:
        raise SinkError(
            target,
            f"whether an earlier start has written them can't be told: {error}. Make "
            "high-availability.storageDir readable, and start the program again.",
        ) from error
    if token is None:
        token = uuid.uuid4().hex
        try:
            journal.write(json.dumps({"version": _VERSION, "token": token}))
        except OSError as error:
            logger.warning(
                "the write to %s can't be recorded: a crash while it is published would have it "
                "written twice: %s",
                target,
                error,
            )
    return token
