"""Which partitions of a dataset of this machine are as they were published."""

from __future__ import annotations

import stat
from pathlib import Path

from holdfast.storage.kept_dataset import KeptDataSet, KeptPartition
from holdfast.storage.partition_checksums import replaced
from holdfast.storage.partition_directory import how_changed


def intact_partitions(kept: KeptDataSet) -> frozenset[int]:
    """The indices of those whose size, time of modification and footer are those published.

    Args:
        kept: a dataset that lies in directories of this machine.
    """
    return frozenset(
        partition.index
        for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True)
        if _is_intact(partition, Path(location))
    )


def _is_intact(partition: KeptPartition, file: Path) -> bool:
    try:
        status = file.lstat()
        return (
            stat.S_ISREG(status.st_mode)
            and how_changed(partition, status) is None
            and replaced(partition, file) is None
        )
    except OSError:
        return False
