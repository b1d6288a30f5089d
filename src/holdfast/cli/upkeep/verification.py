"""Every file of a storage directory against what was published in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.storage.kept_dataset import Manifest
from holdfast.storage.partition_checksums import replaced
from holdfast.storage.partition_directory import DATASETS, PartitionDirectory, damage
from holdfast.storage.shared_directory import SHARED
from holdfast.taskexecutor.applications.application_directory import application_of


@dataclass(frozen=True, slots=True)
class Verified:
    """A dataset that was looked at.

    Attributes:
        directory: where it lies.
        manifest: what it is; None where that can't be read.
        damage: what is wrong with it; None where nothing is.
    """

    directory: Path
    manifest: Manifest | None
    damage: str | None


def verify(root: Path) -> Iterator[Verified]:
    """Looks at every dataset below a storage directory, and reads all files that have a checksum.

    Args:
        root: the directory.

    Raises:
        OSError: when it can't be listed.
    """
    homes = [path for path in sorted(root.iterdir()) if application_of(path) or path.name == SHARED]
    for home in homes:
        for directory, manifest in PartitionDirectory(home.absolute).published():
            if directory.parent.name != DATASETS or directory.name.startswith("."):
                continue
            if not os.access(directory, os.R_OK | os.X_OK):
                # Another user's, to be verified by them.
                continue
            yield Verified(directory, manifest, thorough_damage(directory, manifest))


def thorough_damage(directory: Path, manifest: Manifest | None) -> str | None:
    """What is wrong with a dataset; None where nothing is. Reads all files that have a checksum.

    Args:
        directory: where it lies.
        manifest: what it is; None where that can't be read.
    """
    if manifest is None:
        return "its manifest is missing or invalid"
    found = damage(directory, manifest)
    for partition in manifest.partitions:
        if found is not None:
            break
        try:
            found = replaced(partition, directory / partition.file, thorough=True)
        except OSError as error:
            found = f"partition {partition.index} can't be read: {error.strerror or error}"
    return found
