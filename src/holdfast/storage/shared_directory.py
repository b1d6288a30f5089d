"""Datasets that outlive the programs that have kept them, in a directory of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.files.access_modes import PRIVATE, AccessModes, give_mode, make_shared
from holdfast.files.durable_files import sync_directory, write_atomically
from holdfast.storage.kept_dataset import KeptDataSet, Manifest
from holdfast.storage.partition_checksums import content_checksum
from holdfast.storage.partition_directory import DATASETS, STAGING, PartitionDirectory
from holdfast.storage.partition_link import link_partition

SHARED = "shared"
"""Where they lie below the storage directory."""


class SharedDirectory:
    """Puts datasets where no program's end removes them. Safe for use by several programs.

    Nothing in it says who holds them: what the catalog doesn't know is garbage.

    Args:
        root: the directory.
        modes: whose programs put datasets there.

    Source: FLIP-36, phase 2: results outlive the application in an external place.
    """

    def __init__(self, root: Path, modes: AccessModes = PRIVATE) -> None:
        self.root = root
        self._modes = modes
        self._files = PartitionDirectory(self._made)

    def put(
        self, kept: KeptDataSet, beside: Mapping[str, str], modes: AccessModes = PRIVATE
    ) -> KeptDataSet:
        """Puts a dataset there as well, under the name that it has; no rows are copied.

        Args:
            kept: a dataset that lies in directories of this machine, on the same file system.
            beside: what else is to lie there, by file name: each begins with an underscore.
            modes: who is to read it.

        Returns:
            where it lies there, on disk for good, with checksums of all files.

        Raises:
            StorageError: when that can't be done; nothing of it is there then.
        """
        name = kept.name or kept.directory.name
        staged = directory = self._files.open(name)
        try:
            partitions = []
            for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True):
                link_partition(Path(location), staged / partition.file)
                with (staged / partition.file).open("rb") as file:
                    # Spark leaves it to the system when its files reach the disk.
                    os.fsync(file.fileno())
                    content = content_checksum(file)
                partitions.append(partition.model_copy(update={"content": content}))
            for file_name, text in beside.items():
                write_atomically(staged / file_name, text.encode())
            manifest = kept.manifest.model_copy(update={"partitions": tuple(partitions)})
            directory = self._files.publish(staged, manifest)
            if not modes.is_private:
                open_up(directory, modes.filling, modes.file, modes.group_of(self.root))
            sync_directory(directory)
            sync_directory(directory.parent)
        except OSError as error:
            self._files.remove(directory)
            raise StorageError(str(self.root), f"can't share {name}: {error}") from error
        except StorageError:
            self._files.remove(staged)
            raise
        return kept.model_copy(
            update={"directories": (str(directory),), "manifest": manifest, "holders": ()}
        )

    def remove(self, name: str) -> bool:
        """Removes a dataset, however far it has come.

        Args:
            name: under which it was put there.

        Returns:
            whether nothing of it is left.
        """
        directory = self.root / DATASETS / name
        for path in (self.root / STAGING / name, directory):
            if path.exists():
                self._files.remove(path)
        return not directory.exists()

    def names(self) -> set[str]:
        """The names of everything in it, however far it has come.

        Raises:
            OSError: when it can't be listed.
        """
        found: set[str] = set()
        for kind in (STAGING, DATASETS):
            with suppress(FileNotFoundError), os.scandir(self.root / kind) as entries:
                found.update(entry.name for entry in entries)
        return found

    def published(self) -> Iterator[tuple[Path, Manifest | None]]:
        """What lies there, each with its manifest if it has a valid one."""
        # Nothing is made for the question.
        return PartitionDirectory(self.root.absolute).published()

    def _made(self) -> Path:
        for path in (self.root, self.root / STAGING, self.root / DATASETS):
            make_shared(path, self._modes, self._modes.filling)
        return self.root


def open_up(directory: Path, mode: int, file_mode: int, group: int | None) -> None:
    """Lets others into the directory of a dataset.

    Args:
        directory: the dataset's.
        mode: the directory's.
        file_mode: that of its files.
        group: to which group all of it is to belong; None: as it does.

    Raises:
        OSError: when it isn't this user's, or they are not in that group.
    """
    for path in directory.iterdir():
        give_mode(path, file_mode, group)
    give_mode(directory, mode, group)
