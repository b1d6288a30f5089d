"""What a file of events is called, and what stands at its start.

The name already says which epoch wrote the file, which one of that epoch it is, how many events
come before it, and which epoch wrote those. So it is known, even where a file's header didn't reach
the disk, what earlier files hold that doesn't count any more, and which of them don't at all.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from zlib import crc32

FORMAT_VERSION = 1

_NAME = re.compile(r"([0-9]{10,19})-([0-9]{10})-([0-9]{12,18})-([0-9]{10,19})\.events")
_MAGIC = b"HOLDFAST"
# magic, version, the name's four numbers, checksum of the record before
_HEADER = struct.Struct("<8sHQIQQI")
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
        previous: the epoch that this one goes on from; 0 when it begins the log.

    >>> name = EventFileName(epoch=2, number=0, first=17, previous=1)
    >>> str(name)
    '0000000002-0000000000-000000000017-0000000001.events'
    >>> EventFileName.parse(str(name)) == name
    True
    """

    epoch: int
    number: int
    first: int
    previous: int

    @classmethod
    def parse(cls, name: str) -> EventFileName | None:
        """What a name says.

        Args:
            name: of a file, without its directory.

        Returns:
            that, or None when it isn't the name of a file of events.
        """
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        found = cls(*map(int, match.groups()))
        # One file has one name: `str` gives it again.
        return found if str(found) == name and found.previous < found.epoch else None

    def __str__(self) -> str:
        return f"{self.epoch:010}-{self.number:010}-{self.first:012}-{self.previous:010}.events"


def checked_epoch(epoch: int) -> int:
    """The epoch, when it is one.

    Raises:
        ValueError: when it is below one, or beyond 63 bits.
    """
    if not 1 <= epoch <= _LATEST_EPOCH:
        raise ValueError(f"expected an epoch from 1 to 2^63 - 1, got {epoch}")
    return epoch


def header(name: EventFileName, checksum: int) -> bytes:
    """What stands at the start of a file; its last four bytes are its checksum.

    Args:
        name: the file's.
        checksum: of the record before it.

    >>> name = EventFileName(epoch=2, number=0, first=17, previous=1)
    >>> len(header(name, 0xCAFE)) == HEADER_SIZE
    True
    """
    numbers = (name.epoch, name.number, name.first, name.previous)
    fields = _HEADER.pack(_MAGIC, FORMAT_VERSION, *numbers, checksum)
    return fields + _CHECKSUM.pack(crc32(fields))


def read_header(name: EventFileName, data: bytes) -> tuple[int, int]:
    """What the records of a file go on from.

    Args:
        name: the file's.
        data: its content.

    Returns:
        the checksum of the record before the file, and that of the header itself.

    Raises:
        ValueError: when no whole header of this name stands there.
    """
    if len(data) < HEADER_SIZE:
        raise ValueError(f"its header is truncated after {len(data)} bytes")
    magic, version, *numbers, before = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("it is not an event file")
    if version != FORMAT_VERSION:
        raise ValueError(f"it has version {version}, expected {FORMAT_VERSION}")
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if crc32(data[: _HEADER.size]) != checksum:
        raise ValueError("its header is damaged")
    if EventFileName(*numbers) != name:
        raise ValueError("its header does not match its file name")
    return before, checksum
