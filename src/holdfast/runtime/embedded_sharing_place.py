"""Where the bytes of shared results are on one machine."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.catalog.audience import Audience
from holdfast.errors import StorageError
from holdfast.files.access_modes import give_mode
from holdfast.ids import JobID
from holdfast.lazy_module import LazyModule
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.sharing_place import how_it_differs
from holdfast.storage.column_statistics import ColumnStatistics, column_statistics
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.linked_data_set import link_data_set
from holdfast.storage.partition_checksums import replaced
from holdfast.storage.partition_directory import how_changed
from holdfast.storage.shared_directory import SharedDirectory, open_up
from holdfast.taskexecutor.applications.application_directory import LOCK

if TYPE_CHECKING:
    import pyarrow
else:
    pyarrow = LazyModule("pyarrow")

# Another user's rows are copied, which must not fill the disk.
_SHARE_FOR_A_COPY = 0.5

logger = logging.getLogger(__name__)


class EmbeddedSharingPlace:
    """The directories of programs, and one that outlives them, below one storage directory.

    Args:
        storage: this program's.
        shared: what outlives it.
    """

    def __init__(self, storage: EmbeddedStorage, shared: SharedDirectory) -> None:
        self._storage = storage
        self.remove = storage.remove
        self._shared = shared
        self.take_away = shared.remove

    def put(self, kept: KeptDataSet, beside: Mapping[str, str], audience: Audience) -> KeptDataSet:
        """Puts a dataset of this program where it outlives it, under the name that it has.

        Raises:
            StorageError: when that can't be done.
        """
        return self._shared.put(kept, beside, audience.modes)

    def open_up(self, kept: KeptDataSet, audience: Audience) -> None:
        """Lets other users read a dataset in this program's directory.

        Raises:
            StorageError: when that can't be done.
        """
        modes, directory = audience.modes, kept.directory
        datasets = directory.parent
        try:
            group = modes.group_of(datasets.parent.parent)
            open_up(directory, modes.reading, modes.file, group)
            for path in (datasets, datasets.parent):
                give_mode(path, modes.reading, group)
            # By which they tell that this program runs.
            give_mode(datasets.parent / LOCK, modes.file, group)
        except OSError as error:
            raise StorageError(
                str(directory), f"it can't be opened to other users: {error}"
            ) from error

    def recorded(self, kept: KeptDataSet) -> KeptDataSet:
        """A dataset of this program: others find its files by their paths."""
        return kept

    def readable(self, lying: KeptDataSet) -> KeptDataSet | None:
        """Where this program reads another one's dataset: by the same paths."""
        return lying

    def take_in(self, lying: KeptDataSet) -> KeptDataSet:
        """Links another program's dataset into this program's own directory.

        Raises:
            StorageError: when it isn't what was published there, or can't be linked.
        """
        try:
            self._refuse_large_copy(lying)
        except OSError as error:
            raise StorageError(lying.directories[0], str(error)) from error
        job_id = JobID.random()
        try:
            kept = link_data_set(lying, self._storage, job_id)
        finally:
            self._storage.end_job(job_id)
        try:
            changed = how_it_differs(kept, lying) or _torn(kept, lying)
        except OSError as error:
            changed = str(error)
        if changed is not None:
            self._storage.remove(kept)
            raise StorageError(
                lying.directories[0], f"it was modified after publication: {changed}"
            )
        return kept

    def _refuse_large_copy(self, lying: KeptDataSet) -> None:
        foreign = sum(
            status.st_size
            for status in map(os.stat, lying.locations)
            if status.st_uid != os.getuid()
        )
        if foreign > shutil.disk_usage(self._shared.root.parent).free * _SHARE_FOR_A_COPY:
            raise OSError(f"there is no room for a copy of its {foreign:,} bytes")

    def statistics(self, kept: KeptDataSet) -> dict[str, ColumnStatistics]:
        """What the files of a dataset of this program say of its columns; empty where nothing."""
        try:
            return column_statistics(kept.locations)
        except (OSError, pyarrow.ArrowException) as error:
            logger.debug("no statistics of %s: %s", kept.name, error)
            return {}

    def damage(self, lying: KeptDataSet) -> str | None:
        """What is wrong with another program's dataset; None where it is as it was published."""
        try:
            for partition, location in zip(lying.manifest.partitions, lying.locations, strict=True):
                file = Path(location)
                changed = how_changed(partition, file.stat()) or replaced(partition, file)
                if changed is not None:
                    return changed
        except OSError as error:
            return str(error)
        return None


def _torn(found: KeptDataSet, published: KeptDataSet) -> str | None:
    """How what was copied differs from what was published, which may have just been written to."""
    for location, partition in zip(found.locations, published.manifest.partitions, strict=True):
        file = Path(location)
        if file.stat().st_nlink == 1 and partition.content is not None:
            changed = replaced(partition, file, thorough=True)
            if changed is not None:
                return changed
    return None
