"""Where the bytes of shared results are on one machine."""

from __future__ import annotations

import logging
from itertools import zip_longest
from pathlib import Path

import pyarrow

from holdfast.errors import StorageError
from holdfast.ids import JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.column_statistics import ColumnStatistics, column_statistics
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.linked_data_set import link_data_set
from holdfast.storage.partition_checksums import replaced
from holdfast.storage.partition_directory import how_changed
from holdfast.storage.shared_directory import SharedDirectory

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
        self.put = shared.put
        self.take_away = shared.remove

    def take_in(self, lying: KeptDataSet) -> KeptDataSet:
        """Links another program's dataset into this program's own directory.

        Raises:
            StorageError: when it isn't what was published there, or can't be linked.
        """
        job_id = JobID.random()
        try:
            kept = link_data_set(lying, self._storage, job_id)
        finally:
            self._storage.end_job(job_id)
        changed = _changed(kept, lying)
        if changed is not None:
            self._storage.remove(kept)
            raise StorageError(
                lying.directories[0], f"it was modified after publication: {changed}"
            )
        return kept

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


def _changed(found: KeptDataSet, published: KeptDataSet) -> str | None:
    """How what was linked differs from what was published, by all that is known of it."""
    for now, was in zip_longest(found.manifest.partitions, published.manifest.partitions):
        if now is None or was is None or now.index != was.index:
            return "it has other partitions"
        if (now.version, now.rows, now.footer) != (was.version, was.rows, was.footer):
            return f"partition {was.index} is another file"
    return None
