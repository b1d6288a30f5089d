"""What a file of events is called, and what stands at its start.

The name already says which epoch wrote the file, which one of that epoch it is, and how many events
come before it. So whatever an earlier file holds beyond that number doesn't count, even where the
new file's header didn't reach the disk.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from zlib import crc32

from holdfast.eventstore.log_position import START, LogPosition

FORMAT_VERSION = 1

_NAME = re.compile(r"([0-9]{10,19})-([0-9]{10})-([0-9]{12,18})\.events")
_MAGIC = b"HOLDFAST"
# magic, version, epoch, number, position
_HEADER = struct.Struct("<8sHQIQI")
_CHECKSUM = struct.Struct("<I")
_LATEST_EPOCH = (1 << 63) - 1

HEADER_SIZE = _HEADER.size + _CHECKSUM.size
"""In bytes."""


@dataclass(frozen=True, slots=True, order=True)
class EventFileName:
    """A file's name. Names are in the order in which their files were begun.

    Attributes:
        epoch: the start of the job that wrote it, from one.
        number: which file of that epoch it is, from zero.
        first: how many events come before it.

    >>> str(EventFileName(epoch=2, number=0, first=17))
    '0000000002-0000000000-000000000017.events'
    >>> EventFileName.parse("0000000002-0000000000-000000000017.events").first
    17
    """

    epoch: int
    number: int
    first: int

    @classmethod
    def parse(cls, name: str) -> EventFileName | None:
        """What a name says.

        Args:
            name: of a file, without its directory.

        Returns:
            that, or None when it isn't the name of a file of events.
        """
        match = _NAME.fullmatch(name)
        found = cls(int(match[1]), int(match[2]), int(match[3])) if match else None
        # One file has one name: `str` gives it again.
        return found if found is not None and str(found) == name and found.epoch > 0 else None

    def __str__(self) -> str:
        return f"{self.epoch:010}-{self.number:010}-{self.first:012}.events"


def checked_epoch(epoch: int) -> int:
    """The epoch, when it is one.

    Raises:
        ValueError: when it is below one, or beyond 63 bits.
    """
    if not 1 <= epoch <= _LATEST_EPOCH:
        raise ValueError(f"an epoch is from 1 below 2^63, got {epoch}")
    return epoch


def header(name: EventFileName, checksum: int) -> bytes:
    """What stands at the start of a file; its last four bytes are its checksum.

    Args:
        name: the file's.
        checksum: of the record before it.

    >>> name = EventFileName(epoch=2, number=0, first=17)
    >>> len(header(name, 0xCAFE)) == HEADER_SIZE
    True
    """
    fields = _HEADER.pack(_MAGIC, FORMAT_VERSION, name.epoch, name.number, name.first, checksum)
    return fields + _CHECKSUM.pack(crc32(fields))


def read_header(name: EventFileName, data: bytes) -> tuple[LogPosition, int]:
    """Where in the log a file begins.

    Args:
        name: the file's.
        data: its content.

    Returns:
        the position, and the header's checksum, from which those of the records go on.

    Raises:
        ValueError: when no whole header of this name stands there.
    """
    if len(data) < HEADER_SIZE:
        raise ValueError(f"its header is cut off after {len(data)} bytes")
    magic, version, epoch, number, first, before = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it doesn't start as a file of events does")
    if version != FORMAT_VERSION:
        raise ValueError(f"it is of version {version}, expected {FORMAT_VERSION}")
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if crc32(data[: _HEADER.size]) != checksum:
        raise ValueError("its header is damaged")
    if EventFileName(epoch, number, first) != name:
        raise ValueError("its header belongs to a file of another name")
    position = LogPosition(first, before)
    if first == 0 and position != START:
        raise ValueError("it begins a log, but goes on from another")
    return position, checksum
