"""The files that Spark's tasks leave in a staging directory."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from holdfast.errors import StorageError, UnknownPartitionError
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_directory import found_partitions, measured
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.partitions.partition_info import (
    PARTITIONS_LIMIT,
    OutputID,
    ResultPartitionID,
)

logger = logging.getLogger(__name__)

_PART_FILE = re.compile(r"part-(\d{5,10})-[^/]+")
IN_PROGRESS = "_temporary"


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
        raise StorageError(str(directory), f"can't list its files: {error}") from error
    return dict(files)


def take_over(
    directory: Path,
    output: OutputID,
    indices: Collection[int] | None,
    part: OutputPart | None = None,
) -> tuple[KeptPartition, ...]:
    """The partitions that tasks have committed, once none of them runs any more.

    Args:
        directory: where they lie.
        output: whose they are.
        indices: the partitions that count; files of others are removed. None: all count.
        part: which partition each task makes; None: the i-th makes partition i.

    Returns:
        the partitions by index.

    Raises:
        UnknownPartitionError: when a partition that counts does not lie there.
        StorageError: when what lies there can't be read.
    """
    files = committed_files(directory)
    made = {task: task if part is None else part.original(task) for task in files}
    if indices is not None:
        missing = next((index for index in sorted(indices) if index not in made.values()), None)
        if missing is not None:
            raise UnknownPartitionError(
                str(ResultPartitionID(output, missing)), "one that a task has written here"
            )
        for task in [task for task, index in made.items() if index not in indices]:
            for name in files[task]:
                remove_file(directory / name)
    # An attempt that still runs must not commit into what is published.
    shutil.rmtree(directory / IN_PROGRESS, ignore_errors=True)
    _refuse_links(directory)
    found = measured(directory, found_partitions(directory))
    if part is None or part.originals is None:
        return found
    placed = [each.model_copy(update={"index": made.get(each.index)}) for each in found]
    if any(each.index is None for each in placed):
        raise StorageError(str(directory), "a task that was not scheduled has written a partition")
    return tuple(sorted(placed, key=attrgetter("index")))


def remove_file(file: Path) -> None:
    """Removes a partition's file and the checksums that Hadoop lays beside it."""
    for path in (file, file.with_name(f".{file.name}.crc")):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # It is garbage: the sweep comes by again.
            logger.warning("can't remove %s: %s", path, error)


def remove_committed(directory: Path) -> None:
    """Removes what tasks have committed that nobody waits for, as far as that can be done."""
    with suppress(StorageError):
        for names in committed_files(directory).values():
            for name in names:
                remove_file(directory / name)


def _refuse_links(directory: Path) -> None:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith(("_", ".")) and not entry.is_file(
                    follow_symlinks=False
                ):
                    raise StorageError(entry.path, "expected a file that a task has written")
    except OSError as error:
        raise StorageError(str(directory), f"can't list its files: {error}") from error
