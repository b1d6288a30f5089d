"""What a job has published is taken back by its next start, which publishes it anew."""

from __future__ import annotations

import uuid
from pathlib import Path

from holdfast.errors import SinkError
from holdfast.sinks.commit_marker import CommitMarker
from holdfast.sinks.file_tree import FileIdentity, identity_of
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkJournal
from holdfast.sinks.sink_token import JournalEntry, SinkEntry, known_entry, write_entry

__all__ = ["can_be_taken_back", "take_back", "targets"]


def can_be_taken_back(journal: str) -> bool:
    """Whether all that a job has published can be told from all other rows.

    Args:
        journal: the text of its sinks' journal.

    Raises:
        OSError: it can't be looked at.
    """
    entry = known_entry(journal)
    # Nothing says what it has published, or whether.
    return entry is not None and all(
        _is_there(each, _to_be_taken_back(entry, ordinal)) for ordinal, each in entry.sinks.items()
    )


def targets(journal: str) -> tuple[Path, ...]:
    """Where a job's sinks write.

    Args:
        journal: the text of their journal.
    """
    entry = known_entry(journal)
    return () if entry is None else tuple(Path(each.target) for each in entry.sinks.values())


def take_back(journal: SinkJournal) -> None:
    """What earlier starts of a job have published is to be replaced by what this one writes.

    Nothing happens to the targets now. The rows go in the same step in which the new ones come into
    sight. What a start was killed over has been settled before, by all sinks of the job.

    Args:
        journal: the job's.

    Raises:
        StaleEpochError: another start has taken over.
        SinkError: what was published can't be told from other rows.
        OSError: it can't be looked at, or the journal can't be written.
    """
    entry = known_entry(journal.read())
    if entry is None:
        return
    sinks = {}
    for ordinal, each in entry.sinks.items():
        published = _to_be_taken_back(entry, ordinal)
        if not _is_there(each, published):
            raise SinkError(
                each.target,
                "rows that an earlier start wrote from inputs that have changed since can't be "
                "distinguished from others. Remove them and the job's directory under "
                "high-availability.storageDir, and restart the program.",
            )
        sinks[ordinal] = each.model_copy(update={"published": None, "replaces": published})
    # Under another token: what says now that the rows are there means those that are to go.
    write_entry(journal, JournalEntry(token=uuid.uuid4().hex, sinks=sinks))


def _to_be_taken_back(entry: JournalEntry, ordinal: str) -> dict[str, FileIdentity] | None:
    sink = entry.sinks[ordinal]
    target, token = Path(sink.target), f"{entry.token}-{ordinal}"
    marker = CommitMarker.read(target, token)
    if marker is None:
        # A start that has not come to publish leaves what it was to take back itself.
        return sink.replaces if sink.published is None else sink.published
    path = CommitMarker.path(target, token)
    itself = identity_of(path)
    return marker.written | ({} if itself is None else {path.name: itself})


def _is_there(sink: SinkEntry, published: dict[str, FileIdentity] | None) -> bool:
    if sink.mode is SinkMode.OVERWRITE or published is None:
        return True
    found = ((identity_of(Path(sink.target, path)), now) for path, now in published.items())
    return all(there is not None and there.is_copy_of(now) for there, now in found)
