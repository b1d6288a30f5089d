"""A kept dataset on this machine, and the same partitions in a place of their own."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.partition_directory import PartitionDirectory, how_changed


def pin(kept: KeptDataSet) -> KeptDataSet | None:
    """The same partitions where the removal of `kept` leaves them.

    Returns:
        what is to be unpinned in the end; None when they can't be had twice without a copy.
    """
    pinned = _partition_directory(kept).pin(kept.directory, kept.manifest)
    if pinned is None:
        return None
    return kept.model_copy(update={"directories": (str(pinned),), "name": None})


def unpin(pinned: KeptDataSet) -> None:
    """Removes what `pin` gave; what can't be removed is garbage."""
    _partition_directory(pinned).remove(pinned.directory)


def rewritten_since(kept: KeptDataSet) -> str | None:
    """Which partition holds other rows than were published, as far as its directories tell."""
    for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True):
        # What is gone by then was there to be read.
        with suppress(OSError):
            change = how_changed(partition, os.stat(location))
            if change is not None:
                return change
    return None


def _partition_directory(kept: KeptDataSet) -> PartitionDirectory:
    application = kept.directory.parent.parent

    def root() -> Path:
        if not application.is_dir():
            raise FileNotFoundError(f"application {application} was removed")
        return application

    return PartitionDirectory(root)
