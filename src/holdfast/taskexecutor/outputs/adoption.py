"""Which published outputs an executor that starts again can go on serving."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from holdfast.storage.kept_dataset import Manifest
from holdfast.storage.partition_directory import damage
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.partitions.partition_info import OutputID


def why_not_whole(
    directory: Path, manifest: Manifest | None, record: OutputRecord | None
) -> str | None:
    """What speaks against an output's directory; None when it is whole.

    Args:
        directory: `…/datasets/<output>`.
        manifest: what lies in it, if that is valid.
        record: what this executor wrote of it, if that is valid.
    """
    try:
        output_id = OutputID.parse(directory.name)
    except ValueError:
        return "its name is not that of an output"
    if manifest is None or record is None:
        return "it has no valid manifest"
    if manifest.dataset.dataset_id != output_id.dataset_id.hex:
        return "its manifest belongs to another dataset"
    indices = [partition.index for partition in manifest.partitions]
    if not indices or indices != sorted(set(indices)):
        return "its manifest has no partitions or duplicate ones"
    if not 0 <= indices[0] <= indices[-1] < record.number_of_partitions:
        return "its manifest has partitions out of range"
    return _other_kinds(directory) or damage(directory, manifest)


def _other_kinds(directory: Path) -> str | None:
    """Links could lead anywhere, so nothing but plain files is served."""
    try:
        if not stat.S_ISDIR(os.lstat(directory).st_mode):
            return "it is not a directory"
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    return f"{entry.name} in it is not a file"
    except OSError as error:
        return f"it can't be listed: {error.strerror}"
    return None
