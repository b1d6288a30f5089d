"""The files that Spark's tasks leave in a staging directory."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import StorageError, UnknownPartitionError
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_directory import found_partitions
from holdfast.taskexecutor.directory_shuffle_environment import remove_file
from holdfast.taskexecutor.partition_info import PARTITIONS_LIMIT, OutputID, ResultPartitionID

_PART_FILE = re.compile(r"part-(\d{5,10})-[^/]+")
_IN_PROGRESS = "_temporary"


def committed_files(directory: Path) -> dict[int, list[str]]:
    """The names of the partitions that tasks have committed, by index.

    Raises:
        StorageError: when the directory can't be listed.
    """
    files: defaultdict[int, list[str]] = defaultdict(list)
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                match = _PART_FILE.fullmatch(entry.name)
                if match is not None and int(match[1]) < PARTITIONS_LIMIT:
                    files[int(match[1])].append(entry.name)
    except OSError as error:
        raise StorageError(str(directory), f"what lies there can't be told: {error}") from error
    return dict(files)


def take_over(
    directory: Path, output: OutputID, indices: Collection[int] | None
) -> tuple[KeptPartition, ...]:
    """The partitions that tasks have committed, once none of them runs any more.

    Args:
        directory: where they lie.
        output: whose they are.
        indices: the partitions that count; files of others are removed. None: all count.

    Returns:
        the partitions by index.

    Raises:
        UnknownPartitionError: when a partition that counts does not lie there.
        StorageError: when what lies there can't be read.
    """
    files = committed_files(directory)
    if indices is not None:
        missing = next((index for index in sorted(indices) if index not in files), None)
        if missing is not None:
            raise UnknownPartitionError(
                str(ResultPartitionID(output, missing)), "one that a task has written here"
            )
        for index in files.keys() - set(indices):
            for name in files[index]:
                remove_file(directory / name)
    # An attempt that still runs must not commit into what is published.
    shutil.rmtree(directory / _IN_PROGRESS, ignore_errors=True)
    _refuse_links(directory)
    return found_partitions(directory)


def _refuse_links(directory: Path) -> None:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith(("_", ".")) and not entry.is_file(
                    follow_symlinks=False
                ):
                    raise StorageError(entry.path, "expected a file that a task has written")
    except OSError as error:
        raise StorageError(str(directory), f"what lies there can't be told: {error}") from error
