"""SpillFiles: what doesn't fit into memory, by key, in files that vanish with the process."""

from __future__ import annotations

import os
import random
import struct
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

from holdfast.streaming.batch_size import BatchSize
from holdfast.streaming.record_pickling import RecordPickler, unpickled

__all__ = ["KeyedParts", "SpillFiles", "SpilledPartition"]

KeyedParts = tuple[list[Any], list[Any]]
"""Keys, and a value for each."""

_PARTITIONS = 32
_LENGTH = struct.Struct(">Q")


class SpilledPartition:
    """All that has been spilled of some keys.

    Args:
        pickler: makes payloads.
    """

    def __init__(self, pickler: RecordPickler) -> None:
        self._pickler = pickler
        self._size = BatchSize()
        self._file: IO[bytes] | None = None
        self._some_keys: list[Any] = []
        self._waiting: KeyedParts = ([], [])

    @property
    def only_keys(self) -> list[Any]:
        """A list of the only key; empty if there are several or none."""
        return self._some_keys if len(self._some_keys) == 1 else []

    def append(self, key: Any, value: Any) -> None:
        """Writes a value behind those that are there.

        Args:
            key: the value's key.
            value: the value.
        """
        if len(self._some_keys) < 2 and key not in self._some_keys:
            self._some_keys.append(key)
        keys, values = self._waiting
        keys.append(key)
        values.append(value)
        if len(keys) >= self._size.records:
            self.flush()

    def flush(self) -> None:
        """Holds nothing in memory any more."""
        keys, values = self._waiting
        if not keys:
            return
        self._waiting = ([], [])
        if self._file is None:
            # It has no name, so nobody else can write to it, and no crash leaves it behind.
            self._file = tempfile.TemporaryFile(dir=_directory())  # noqa: SIM115
        for count, payload in self._pickler.keyed_payloads(keys, values):
            self._size.learn(count, len(payload))
            self._file.write(_LENGTH.pack(len(payload)))
            self._file.write(payload)

    def parts(self) -> Iterator[KeyedParts]:
        """What has been written, in order. To be read once."""
        if self._file is None:
            return
        with self._file as file:
            file.seek(0)
            while header := file.read(_LENGTH.size):
                yield unpickled(file.read(_LENGTH.unpack(header)[0]))

    def close(self) -> None:
        """Gives its space back."""
        if self._file is not None:
            self._file.close()


class SpillFiles:
    """Keys and values on disk, parted by keys.

    Args:
        pickler: makes payloads.
        level: how many times these keys have been parted before.
    """

    def __init__(self, pickler: RecordPickler, level: int) -> None:
        self._level = level
        self._partitions = [SpilledPartition(pickler) for _ in range(_PARTITIONS)]

    def write(self, values: Iterable[tuple[Any, Any]]) -> None:
        """Writes values behind those that are there.

        Args:
            values: keys with values; a key may come several times.
        """
        for key, value in values:
            self._partitions[hash((hash(key), self._level)) % _PARTITIONS].append(key, value)
        for partition in self._partitions:
            partition.flush()

    def partitions(self) -> Iterator[SpilledPartition]:
        """The partitions, each of which gives its space back when it has been left behind."""
        for partition in self._partitions:
            try:
                yield partition
            finally:
                partition.close()

    def close(self) -> None:
        """Gives all space back."""
        for partition in self._partitions:
            partition.close()


def _directory() -> str | None:
    """One of the directories that Spark uses for such files; None for the system's own."""
    usable = [
        path
        for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        if path and os.access(path, os.W_OK)
    ]
    return random.choice(usable) if usable else None
