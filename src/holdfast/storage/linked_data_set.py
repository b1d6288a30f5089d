"""The same partitions kept in two places, each with a life of its own."""

from __future__ import annotations

import uuid
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.partition_link import take_partition


def link_data_set(kept: KeptDataSet, into: IntermediateResultStorage, job_id: JobID) -> KeptDataSet:
    """Publishes a dataset of this machine in another storage; only other users' rows are copied.

    Args:
        kept: a dataset that lies in directories of this machine.
        into: another storage of this machine, on the same file system.
        job_id: for which job it is published there.

    Returns:
        where it lies in that storage.

    Raises:
        StorageError: when it can't be had twice.
    """
    dataset_id = IntermediateDataSetID.from_digest(kept.manifest.dataset.dataset_id)
    staged = into.stage(job_id, dataset_id)
    name = uuid.uuid4().hex
    try:
        for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True):
            # The files of a dataset may come from several directories, where each has its numbers.
            file = f"part-{partition.index:05d}-{name}.parquet"
            take_partition(Path(location), staged.directory / file)
        return into.publish(staged, kept.manifest.dataset)
    except OSError as error:
        into.discard(staged)
        raise StorageError(
            str(staged.directory), f"{kept.name} can't be linked: {error}"
        ) from error
    except StorageError:
        into.discard(staged)
        raise
