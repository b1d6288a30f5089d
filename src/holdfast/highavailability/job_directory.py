"""What lies in the directory of one job, and which start of it wrote what.

Whatever a start writes carries its epoch in its name. So one that was stopped, and goes on after a
newer one has taken over, writes over nothing that still counts, and what is removed is never that
of a start that nobody knew of.

A start has one file that stands for it. It is removed by whoever comes first: by the start itself,
as the last step of its end, or by a newer one, as the first step of taking over. So either the end
counts and all newer starts read of it, or the start learns that it was too late.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from holdfast.errors import StaleEpochError
from holdfast.eventstore.event_file import EventFileName
from holdfast.files.durable_files import (
    create_once,
    remove_once,
    sync_directory,
    write_atomically,
    write_durably,
)
from holdfast.highavailability.driver_lock import is_held
from holdfast.highavailability.epochs import (
    claim_epoch,
    epoch_file,
    forget_epochs,
    newest_epoch,
    taken_epochs,
)
from holdfast.highavailability.job_record import JobRecord
from holdfast.ids import JobID

RECORD, SOURCES, JOURNAL = "record", "sources", "journal"
ASIDE = "unfinished"
"""In the storage directory: where files lie until they are written."""
_LIVE = "live"
_NAME = re.compile(r"job-([0-9a-f]{32})")
_OF_AN_EPOCH = re.compile(r"([a-z]+)-([0-9]{10,19})(?:\.json)?")
_ATTEMPTS = 20
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)

logger = logging.getLogger(__name__)


class JobDirectory:
    """The directory of a job, which may be there or not.

    Args:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, root: Path, job_id: JobID) -> JobDirectory:
        """The directory of a job under the storage directory."""
        return cls(root / f"job-{job_id.hex}")

    @classmethod
    def all(cls, root: Path) -> list[JobDirectory]:
        """Those of all jobs under the storage directory.

        Raises:
            OSError: when it can't be listed.
        """
        return [cls(path) for path in sorted(root.iterdir()) if _NAME.fullmatch(path.name)]

    @property
    def job_id(self) -> JobID:
        """The job's id by its name; the record of one that was moved tells another."""
        return JobID(self.path.name.removeprefix("job-"))

    @property
    def epochs(self) -> Path:
        """Where the epochs of its starts are claimed."""
        return self.path / "epochs"

    @property
    def events(self) -> Path:
        """Where its events are recorded."""
        return self.path / "events"

    def newest_epoch(self) -> int:
        """The epoch of its newest start; 0 when it has none.

        Raises:
            OSError: when that can't be told.
        """
        return newest_epoch(self.epochs)

    def claim(self, epoch: int) -> bool:
        """Begins a start of this epoch.

        Returns:
            whether nobody had the epoch before.

        Raises:
            FileNotFoundError: when the directory isn't there.
            OSError: when the disk doesn't take it.
        """
        # What stands for it first: who sees the epoch can take over from it.
        if not create_once(self._path(_LIVE, epoch)):
            return False
        if claim_epoch(self.epochs, epoch):
            return True
        self.release(epoch)
        return False

    def release(self, epoch: int) -> bool:
        """The start of an epoch has ended, or is taken over from.

        Returns:
            whether it was neither before.

        Raises:
            OSError: when that can't be written.
        """
        released = remove_once(self._path(_LIVE, epoch))
        if released:
            sync_directory(self.path)
        return released

    def fence(self, before: int) -> None:
        """From now on no start of an earlier epoch can end.

        Raises:
            OSError: when that can't be written.
        """
        for kind, epoch in self._written():
            if kind == _LIVE and epoch < before:
                self.release(epoch)

    def stale(self, epoch: int, newest: int) -> StaleEpochError:
        """Why a start is refused.

        Args:
            epoch: of the start.
            newest: the newest one that is known. One that is gone was higher than `epoch`, too.
        """
        return StaleEpochError(
            f"running job {self.job_id} in {self.path}", epoch, max(newest, epoch + 1)
        )

    def is_driven(self, epoch: int) -> bool:
        """Whether the driver of one of its starts lives."""
        return is_held(epoch_file(self.epochs, epoch))

    def record(self) -> JobRecord | None:
        """What its newest start has recorded, without the sources; None when none did.

        Raises:
            ValueError: when that is damaged.
            OSError: when it can't be read.
        """
        newest, text = self._read_newest(RECORD)
        if newest is None:
            return None
        record = JobRecord.model_validate_json(text)
        if record.epoch != newest:
            raise ValueError(f"it belongs to epoch {record.epoch}")
        return record

    def sources(self, record: JobRecord) -> JsonValue:
        """What a record's job reads; None where that isn't known, or is damaged."""
        if record.sources_epoch is None:
            return None
        path = self._path(SOURCES, record.sources_epoch)
        try:
            return _JSON.validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            logger.warning(
                "relisting the sources of a job, because %s is damaged: %s", path, why(error)
            )
            return None

    def write_record(self, record: JobRecord, *, durably: bool = True) -> None:
        """Writes a record, in place of what the same start wrote before.

        Args:
            record: the record.
            durably: whether it must not be the one before that is there when the machine stops.

        Raises:
            OSError: when the disk doesn't take it.
        """
        write = write_durably if durably else write_atomically
        text = record.model_dump_json(indent=2).encode()
        write(self._path(RECORD, record.epoch), text, self._aside)

    def write_sources(self, epoch: int, sources: JsonValue) -> None:
        """Writes what the job reads.

        Raises:
            OSError: when the disk doesn't take it.
        """
        write_durably(self._path(SOURCES, epoch), _JSON.dump_json(sources), self._aside)

    def journal(self) -> str:
        """What the newest start to write one has put into the sink's journal; empty when none did.

        Raises:
            OSError: when it can't be read.
        """
        # Written whole or not at all: what can't be decoded was never ours.
        return self._read_newest(JOURNAL)[1].decode("utf-8", "replace")

    def write_journal(self, epoch: int, text: str) -> None:
        """Writes the sink's journal.

        Raises:
            OSError: when the disk doesn't take it.
        """
        write_durably(self._path(JOURNAL, epoch), text.encode("utf-8"), self._aside)

    def forget(self, *kinds: str, before: int) -> None:
        """Removes what starts before an epoch wrote; what can't be removed does no harm."""
        for kind, epoch in self._written():
            if kind in kinds and epoch < before:
                with suppress(OSError):
                    self._path(kind, epoch).unlink(missing_ok=True)

    def forget_events(self, before: int) -> None:
        """Removes the events that starts before an epoch have recorded.

        Raises:
            OSError: when they can't be removed.
        """
        for name in _names(self.events):
            file = EventFileName.parse(name)
            if file is not None and file.epoch < before:
                (self.events / name).unlink(missing_ok=True)
        _remove_empty(self.events)

    def remove(self, up_to: int) -> None:
        """Removes what starts up to an epoch have left, and the directory if nothing else is there.

        Nothing is renamed or removed as a whole: another start may have begun here meanwhile.

        Args:
            up_to: the epoch.

        Raises:
            OSError: when it can't be removed.
        """
        self._remove_files(up_to)
        self.forget_events(up_to + 1)
        forget_epochs(self.epochs, up_to)
        for directory in (self.epochs, self.path):
            _remove_empty(directory)

    def _remove_files(self, up_to: int) -> None:
        # First what would be gone on with: a journal says of its run alone what is written.
        kinds = (JOURNAL, RECORD)
        for name in sorted(
            _names(self.path), key=lambda name: [not name.startswith(kind) for kind in kinds]
        ):
            found = _OF_AN_EPOCH.fullmatch(name)
            if found is not None and int(found[2]) <= up_to:
                (self.path / name).unlink(missing_ok=True)

    @property
    def _aside(self) -> Path:
        return self.path.parent / ASIDE

    def _read_newest(self, kind: str) -> tuple[int | None, bytes]:
        for _ in range(_ATTEMPTS):
            newest = self._newest(kind)
            # A newer start that has written its own removes what was the newest.
            with suppress(FileNotFoundError):
                return newest, b"" if newest is None else self._path(kind, newest).read_bytes()
        raise FileNotFoundError(
            errno.ENOENT, "it is repeatedly removed by another process", str(self.path)
        )

    def _newest(self, kind: str) -> int | None:
        written = {epoch for found, epoch in self._written() if found == kind}
        if not written:
            return None
        # In this order. What was written after a start's epoch had gone with its job counts for
        # nothing, should another job lie here now.
        return max(written.intersection(taken_epochs(self.epochs)), default=None)

    def _written(self) -> list[tuple[str, int]]:
        found = map(_OF_AN_EPOCH.fullmatch, _names(self.path))
        return [(match[1], int(match[2])) for match in found if match is not None]

    def _path(self, kind: str, epoch: int) -> Path:
        suffix = "" if kind in (JOURNAL, _LIVE) else ".json"
        return self.path / f"{kind}-{epoch:010}{suffix}"


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def _remove_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
            raise


def why(error: Exception) -> str:
    """What is wrong with what was read, in one line."""
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
