"""Writes the files of one epoch: each is begun, appended to, and never changed."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StaleEpochError
from holdfast.eventstore.event_file import EventFileName
from holdfast.eventstore.pending_events import FileBlock
from holdfast.eventstore.replay import event_files
from holdfast.files.durable_files import sync_directory


class EventFileWriter:
    """Writes the files of one epoch. For use by one thread.

    Args:
        directory: of the job; it is made when it isn't there.
        epoch: of this start of the job.
    """

    def __init__(self, directory: Path, epoch: int) -> None:
        self._directory = directory
        self._epoch = epoch
        self._name: EventFileName | None = None
        self._descriptor: int | None = None

    def write(self, blocks: list[FileBlock]) -> None:
        """Appends to the files, and begins them where they aren't there.

        Raises:
            OSError: when the disk doesn't take it.
            StaleEpochError: when a newer epoch has begun to write here. Nothing is written then.
        """
        self._check()
        for block in blocks:
            if block.name != self._name:
                self._begin(block.name)
            self._append(block.data)

    def sync(self) -> None:
        """What has been written stays, whatever becomes of the machine.

        Raises:
            OSError: when the disk doesn't take it.
        """
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Lets go of the file."""
        descriptor, self._descriptor, self._name = self._descriptor, None, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def _check(self) -> None:
        if self._descriptor is None or self._name is None:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        else:
            # Bytes written to a file that has been removed would be lost without an error.
            ours, found = os.fstat(self._descriptor), os.stat(self._directory / str(self._name))
            if not os.path.samestat(ours, found):
                path = str(self._directory / str(self._name))
                raise FileNotFoundError(errno.ENOENT, "the file was replaced by another", path)
        newest = max((name.epoch for name in event_files(self._directory)), default=0)
        if newest > self._epoch:
            raise StaleEpochError(f"recording events in {self._directory}", self._epoch, newest)

    def _begin(self, name: EventFileName) -> None:
        self.sync()
        self.close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = os.open(self._directory / str(name), flags, 0o600)
        self._name = name
        # Some file systems can't sync a directory, and need not.
        with suppress(OSError):
            sync_directory(self._directory)

    def _append(self, data: bytearray) -> None:
        assert self._descriptor is not None
        rest = memoryview(data)
        while rest:
            # A full disk may take a part of it first.
            rest = rest[os.write(self._descriptor, rest) :]
