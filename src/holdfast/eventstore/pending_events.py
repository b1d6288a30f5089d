"""Events that are still to be written, as the bytes that go into each file.

Pure: it knows neither disks nor threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.eventstore.event_file import EventFileName, header
from holdfast.eventstore.events import JobEvent
from holdfast.eventstore.log_position import LogPosition
from holdfast.eventstore.record_codec import CHECKSUM, RecordEncoder


@dataclass(frozen=True, slots=True)
class FileBlock:
    """Bytes that go to the end of a file.

    Attributes:
        name: the file's.
        data: the bytes; a file's first ones are its header.
    """

    name: EventFileName
    data: bytearray


class PendingEvents:
    """Events that are still to be written.

    Args:
        epoch: of this start of the job.
        after: what the log holds already.
        file_size: from how many bytes on a file is followed by the next one.

    >>> from holdfast.eventstore.log_position import START
    >>> pending = PendingEvents(epoch=1, after=START, file_size=1 << 20)
    >>> [str(block.name) for block in pending.take()]
    ['0000000001-0000000000-000000000000-0000000000.events']
    >>> len(pending)
    0
    """

    def __init__(self, epoch: int, after: LogPosition, file_size: int) -> None:
        self._encoder = RecordEncoder()
        self._epoch = epoch
        self._file_size = file_size
        self._events = after.events
        self._previous = after.epoch
        self._files = 0
        self._blocks: list[FileBlock] = []
        self._bytes = 0
        self._last_checksum = after.checksum
        # What the next record's checksum goes on from.
        self._chained = 0
        # None when the next event begins a new file.
        self._open_bytes: int | None = None
        # The first file exists before the first event: it ends what a stale epoch may still write.
        self._begin_file()

    def __len__(self) -> int:
        """How many bytes are pending."""
        return self._bytes

    def append(self, event: JobEvent) -> None:
        """Adds an event.

        Raises:
            ValueError: when an id has more than 255 digits. Nothing has been added then.
        """
        if self._open_bytes is None:
            self._begin_file()
        record = self._encoder.encode(event, self._chained)
        self._chained = self._last_checksum = _checksum(record)
        self._add(record)
        self._events += 1
        if self._open_bytes is not None and self._open_bytes >= self._file_size:
            self.cut()

    def cut(self) -> None:
        """The next event begins a new file."""
        self._open_bytes = None

    def take(self) -> list[FileBlock]:
        """What is pending, in order; afterwards nothing is."""
        taken, self._blocks, self._bytes = self._blocks, [], 0
        return taken

    def _begin_file(self) -> None:
        self._name = EventFileName(self._epoch, self._files, self._events, self._previous)
        first = header(self._name, self._last_checksum)
        self._files += 1
        self._open_bytes = 0
        self._chained = _checksum(first)
        self._add(first)

    def _add(self, data: bytes) -> None:
        if not self._blocks or self._blocks[-1].name is not self._name:
            self._blocks.append(FileBlock(self._name, bytearray()))
        self._blocks[-1].data.extend(data)
        self._bytes += len(data)
        self._open_bytes = (self._open_bytes or 0) + len(data)


def _checksum(sealed: bytes) -> int:
    found: int = CHECKSUM.unpack_from(sealed, len(sealed) - CHECKSUM.size)[0]
    return found
