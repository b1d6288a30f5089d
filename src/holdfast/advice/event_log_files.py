"""The files of Spark's event logs: which ones belong together, and their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow

from holdfast.errors import EventLogError

_ROLLED = "eventlog_v2_"
_PART = re.compile(r"events_(\d+)_")
_IN_PROGRESS = ".inprogress"
_READABLE = "zstd"
_OTHER_CODECS = frozenset({"lz4", "lzf", "snappy"})
# Of a log that is cut off within a compressed block, no more than this is lost.
_CHUNK = 1 << 13


@dataclass(frozen=True, slots=True)
class EventLog:
    """The event log of one application.

    Attributes:
        path: a file, or the directory of a log that is rolled.
        files: in the order in which they were written.
    """

    path: Path
    files: tuple[Path, ...]

    def lines(self) -> Iterator[bytes]:
        """Its events, a line of JSON each. The log of a running application ends anywhere.

        Raises:
            EventLogError: when a file can't be read, or is compressed in a way that can't be.
        """
        for file in self.files:
            yield from _lines(file)


def event_logs(path: Path) -> list[EventLog]:
    """The event logs in a directory, such as `spark.eventLog.dir`, or the one at a path.

    Args:
        path: a log, or a directory of logs; what is no log there is passed over.

    Raises:
        EventLogError: when there is nothing, or it can't be listed.
    """
    try:
        if not path.is_dir():
            if not path.exists():
                raise EventLogError(path, "no such file or directory")
            return [EventLog(path, (path,))]
        if path.name.startswith(_ROLLED):
            return [_rolled(path)]
        found = [
            _rolled(each) if each.is_dir() else EventLog(each, (each,))
            for each in sorted(path.iterdir())
            if (each.name.startswith(_ROLLED) if each.is_dir() else not each.name.startswith("."))
        ]
    except OSError as error:
        raise EventLogError(path, f"can't be listed: {error.strerror}") from error
    return [log for log in found if log.files]


def _rolled(directory: Path) -> EventLog:
    parts = {
        int(match[1]): each
        for each in directory.iterdir()
        if (match := _PART.match(each.name)) is not None
    }
    return EventLog(directory, tuple(parts[number] for number in sorted(parts)))


def _lines(file: Path) -> Iterator[bytes]:
    name = file.name.removesuffix(_IN_PROGRESS)
    codec = name.rpartition(".")[2]
    if codec in _OTHER_CODECS:
        raise EventLogError(
            file,
            f"is compressed with {codec}; expected zstd (Spark's default) or no compression: set "
            "spark.eventLog.compression.codec to zstd",
        )
    try:
        with pyarrow.OSFile(str(file)) as stored:
            stream = (
                pyarrow.CompressedInputStream(stored, _READABLE) if codec == _READABLE else stored
            )
            yield from _split(stream)
    except FileNotFoundError:
        # Spark renames a log when its application ends, and removes old ones.
        return
    except PermissionError as error:
        raise EventLogError(file, "can't be read: permission denied") from error


def _split(stream: pyarrow.NativeFile) -> Iterator[bytes]:
    begun: list[bytes] = []
    while True:
        try:
            chunk = stream.read(_CHUNK)
        except OSError:
            # What follows isn't written yet, or is damaged.
            return
        if not chunk:
            break
        first, *lines = chunk.split(b"\n")
        begun.append(first)
        if lines:
            yield b"".join(begun)
            yield from lines[:-1]
            begun = [lines[-1]]
    if any(begun):
        yield b"".join(begun)
