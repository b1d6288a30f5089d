"""Partitions of one application that become those of another, without a copy of their rows."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import MalformedRequestError, StorageError
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_directory import how_changed
from holdfast.storage.partition_link import link_partition
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.staged_files import remove_file
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID


@dataclass(frozen=True, slots=True)
class PublishedPartition:
    """A partition of a promoted output.

    Attributes:
        directory: the output's.
        partition: as the output's manifest describes it.
    """

    directory: Path
    partition: KeptPartition


def refuse_bad_links(
    output: OutputID, partitions: Sequence[ResultPartitionID], indices: Sequence[int]
) -> None:
    """Sees to it that partitions of other outputs can be those of an output.

    Args:
        output: the output.
        partitions: of the other ones.
        indices: theirs in the output.

    Raises:
        MalformedRequestError: when there are none, one is given twice, or is of another dataset.
    """
    if not partitions:
        raise MalformedRequestError("link_output", "expected at least one partition")
    if len(indices) != len(partitions):
        raise MalformedRequestError(
            "link_output", f"{len(indices)} numbers for {len(partitions)} partitions"
        )
    if len(set(indices)) != len(indices) or len(set(partitions)) != len(partitions):
        raise MalformedRequestError("link_output", "duplicate partition")
    for each in partitions:
        if each.dataset_id != output.dataset_id:
            raise MalformedRequestError(
                "link_output", f"{each} can't be a partition of {output}: another dataset"
            )


def refuse_part(output: OutputID, part: OutputPart | None) -> None:
    """Sees to it that an output's partitions count by their own numbers.

    Raises:
        MalformedRequestError: when they count by the places of the tasks that make them.
    """
    if part is not None and part.originals is not None:
        raise MalformedRequestError("link_output", f"{output} makes a part of {part.of}")


def link_published(
    found: Sequence[PublishedPartition], directory: Path, indices: Sequence[int]
) -> None:
    """Links partitions' files into a directory, all of them or none, named as tasks name theirs.

    Args:
        found: the partitions.
        directory: that of an open output.
        indices: by which each is known there.

    Raises:
        StorageError: when one of them is gone or isn't as it was published, or can't be linked.
    """
    name = uuid.uuid4().hex
    links: list[Path] = []
    try:
        for each, index in zip(found, indices, strict=True):
            # What one dataset is made of may come from several outputs, each with its own names.
            links.append(directory / f"part-{index:05d}-{name}.parquet")
            _link(each, links[-1])
    except (OSError, StorageError) as error:
        for link in links:
            remove_file(link)
        if isinstance(error, StorageError):
            raise
        raise StorageError(str(directory), f"can't link the partitions: {error}") from error


def link_durably(found: Sequence[PublishedPartition], directory: Path) -> None:
    """Links partitions' files into a directory under their own names, on disk for good.

    Args:
        found: the partitions, of one output.
        directory: where to; to be removed by the caller when this fails.

    Raises:
        StorageError: when one of them is gone or isn't as it was published, or can't be linked.
    """
    try:
        for each in found:
            link = directory / each.partition.file
            _link(each, link)
            with link.open("rb") as file:
                # Spark leaves it to the system when its files reach the disk.
                os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(str(directory), f"can't link the partitions: {error}") from error


def _link(found: PublishedPartition, link: Path) -> None:
    file = found.directory / found.partition.file
    link_partition(file, link)
    # Of the link: what has its name from now on is what is looked at.
    status = link.lstat()
    changed = how_changed(found.partition, status)
    if not stat.S_ISREG(status.st_mode):
        changed = "it is not a file"
    if changed is not None:
        raise StorageError(str(file), f"it was modified after publication: {changed}")
