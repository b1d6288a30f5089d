"""What lies in the directory of one job, and which start of it wrote what.

Whatever a start writes carries its epoch in its name. So one that was stopped, and goes on after a
newer one has taken over, writes over nothing that still counts.
"""

from __future__ import annotations

import logging
import re
import shutil
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue, TypeAdapter, ValidationError

from holdfast.highavailability.driver_lock import is_held
from holdfast.highavailability.durable_files import (
    write_atomically,
    write_durably,
)
from holdfast.highavailability.epochs import epoch_file, newest_epoch
from holdfast.highavailability.job_record import JobRecord
from holdfast.ids import JobID

RECORD, SOURCES, JOURNAL = "record", "sources", "journal"
_NAME = re.compile(r"job-([0-9a-f]{32})")
_OF_AN_EPOCH = re.compile(r"([a-z]+)-([0-9]{10,19})")
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
        """The job's id."""
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

    def is_driven(self, epoch: int) -> bool:
        """Whether the driver of one of its starts lives."""
        return is_held(epoch_file(self.epochs, epoch))

    def record(self) -> JobRecord | None:
        """What its newest start has recorded, without the sources; None when none did.

        Raises:
            ValueError: when that is damaged.
            OSError: when it can't be read.
        """
        newest = self._newest(RECORD)
        if newest is None:
            return None
        record = JobRecord.model_validate_json(self._path(RECORD, newest).read_bytes())
        if record.job_id != self.job_id.hex or record.epoch != newest:
            raise ValueError(f"it is of job {record.job_id} and epoch {record.epoch}")
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
                "a job lists its sources anew, since %s is damaged: %s", path, why(error)
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
        write(self._path(RECORD, record.epoch), record.model_dump_json(indent=2).encode())

    def write_sources(self, epoch: int, sources: JsonValue) -> None:
        """Writes what the job reads.

        Raises:
            OSError: when the disk doesn't take it.
        """
        write_durably(self._path(SOURCES, epoch), _JSON.dump_json(sources))

    def journal(self) -> str:
        """What the newest start to write one has put into the sink's journal; empty when none did.

        Raises:
            OSError: when it can't be read.
        """
        newest = self._newest(JOURNAL)
        # Written whole or not at all: what can't be decoded was never ours.
        return "" if newest is None else self._path(JOURNAL, newest).read_text("utf-8", "replace")

    def write_journal(self, epoch: int, text: str) -> None:
        """Writes the sink's journal.

        Raises:
            OSError: when the disk doesn't take it.
        """
        write_durably(self._path(JOURNAL, epoch), text.encode("utf-8"))

    def forget(self, *kinds: str, before: int) -> None:
        """Removes what starts before an epoch wrote; what can't be removed does no harm."""
        for kind, epoch in self._written():
            if kind in kinds and epoch < before:
                with suppress(OSError):
                    self._path(kind, epoch).unlink(missing_ok=True)

    def forget_events(self) -> None:
        """Removes the recorded events.

        Raises:
            OSError: when they can't be removed.
        """
        with suppress(FileNotFoundError):
            shutil.rmtree(self.events)

    def _newest(self, kind: str) -> int | None:
        return max((epoch for found, epoch in self._written() if found == kind), default=None)

    def _written(self) -> list[tuple[str, int]]:
        try:
            names = [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []
        found = (_OF_AN_EPOCH.fullmatch(name.removesuffix(".json")) for name in names)
        return [(match[1], int(match[2])) for match in found if match is not None]

    def _path(self, kind: str, epoch: int) -> Path:
        suffix = "" if kind == JOURNAL else ".json"
        return self.path / f"{kind}-{epoch:010}{suffix}"


def why(error: Exception) -> str:
    """What is wrong with what was read, in one line."""
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
