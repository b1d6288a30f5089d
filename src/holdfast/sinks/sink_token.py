"""What a job's sinks remember over all of its starts, and the name of what they have published."""

from __future__ import annotations

import json
import logging
import uuid

from pydantic import BaseModel, ConfigDict, Field

from holdfast.errors import HoldfastError, SinkError
from holdfast.sinks.file_tree import FileIdentity
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkJournal

__all__ = ["JournalEntry", "SinkEntry", "known_entry", "note", "token_of", "write_entry"]

logger = logging.getLogger(__name__)


class SinkEntry(BaseModel):
    """One of the job's sinks.

    Attributes:
        target: the directory that it publishes.
        mode: what becomes of what that holds already.
        published: what it has published, by path; None while that is only said beside the rows.
        replaces: what it had published from inputs that have changed since, and takes back.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    mode: SinkMode
    published: dict[str, FileIdentity] | None = None
    replaces: dict[str, FileIdentity] | None = None


class JournalEntry(BaseModel):
    """The journal of a job's sinks.

    Attributes:
        version: of this format.
        token: by which they know what they have published. It is random, not the job's id: the
            same program that is run again is the same job, and has published nothing yet.
        sinks: the sinks that have been opened, by their ordinals.
    """

    model_config = ConfigDict(frozen=True)

    version: int = 1
    token: str = Field(pattern=r"^[0-9a-zA-Z]+$")
    sinks: dict[str, SinkEntry] = {}


def known_entry(text: str) -> JournalEntry | None:
    """What a journal says; None where it says nothing.

    Args:
        text: the journal's.
    """
    try:
        return JournalEntry.model_validate(json.loads(text))
    except ValueError:
        return None


def token_of(journal: SinkJournal, ordinal: int, sink: SinkEntry) -> JournalEntry:
    """The job's journal, with a token that is made now if there is none.

    Args:
        journal: the job's.
        ordinal: of the sink that asks.
        sink: what it is, for later starts.

    Raises:
        SinkError: the journal can't be read.
    """
    try:
        entry = known_entry(journal.read())
    except (OSError, HoldfastError) as error:
        raise SinkError(
            sink.target,
            f"can't determine whether an earlier start has written the rows: {error}. Make "
            "high-availability.storageDir readable, and restart the program.",
        ) from error
    if entry is None:
        entry = JournalEntry(token=uuid.uuid4().hex)
    try:
        if str(ordinal) not in entry.sinks:
            return note(journal, entry, ordinal, sink)
        # As this start's own, which none counts against that an earlier start writes too late.
        write_entry(journal, entry)
    except OSError as error:
        logger.warning(
            "can't record the write to %s: a crash during its publication would write the rows "
            "twice: %s",
            sink.target,
            error,
        )
    return entry


def note(journal: SinkJournal, entry: JournalEntry, ordinal: int, sink: SinkEntry) -> JournalEntry:
    """Writes down what there is to know of a sink.

    Args:
        journal: the job's.
        entry: what is to be in the journal besides.
        ordinal: of the sink.
        sink: what is known of it.

    Returns:
        What is in the journal now.

    Raises:
        OSError: it can't be written.
    """
    changed = entry.model_copy(update={"sinks": {**entry.sinks, str(ordinal): sink}})
    write_entry(journal, changed)
    return changed


def write_entry(journal: SinkJournal, entry: JournalEntry) -> None:
    """Replaces what is in a journal.

    Args:
        journal: the job's.
        entry: what is to be in it.

    Raises:
        OSError: it can't be written.
    """
    # Not pydantic's own JSON, which replaces what is no UTF-8 in the names of files.
    journal.write(json.dumps(entry.model_dump(), default=lambda mode: mode.value))
