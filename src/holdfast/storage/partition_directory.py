"""The datasets of one application in a directory of this machine, as Parquet files."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from holdfast.errors import StorageError
from holdfast.files.durable_files import write_atomically
from holdfast.files.regular_file import text_of
from holdfast.files.removal import remove_at_once
from holdfast.lazy_module import LazyModule
from holdfast.storage.kept_dataset import MANIFEST_NAME, KeptPartition, Manifest
from holdfast.storage.partition_checksums import footer_checksum, footer_of
from holdfast.storage.partition_link import link_partition
from holdfast.storage.partition_version import version_of
from holdfast.storage.row_sizes import bytes_in_memory

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as parquet
else:
    pyarrow = LazyModule("pyarrow")
    parquet = LazyModule("pyarrow.parquet")

STAGING = "staging"
DATASETS = "datasets"
HITS_NAME = "_hits"
_PINNED = "pinned"
_LONGEST_COUNT = 20
# Of more partitions than that, some stand for the others.
_MOST_MEASURED = 64
_PART_FILE = re.compile(r"part-(\d+)-.+\.parquet")

logger = logging.getLogger(__name__)


class PartitionDirectory:
    """Stages datasets in `staging/NAME` and publishes them as `datasets/NAME`, by one rename.

    Each production of a dataset has a name of its own, so that nothing that still reads or writes
    an old one meets the new. Safe for use by several threads, one for each name.

    Args:
        root: gives the application's directory; an OSError when there is none any more.
    """

    def __init__(self, root: Callable[[], Path]) -> None:
        self._root = root
        self._owner = os.getpid()

    def open(self, name: str) -> Path:
        """A new directory for Spark's writer, invisible to readers until it is published.

        Raises:
            StorageError: when it can't be made.
        """
        return self._new_directory(STAGING, name)

    def publish(self, staged: Path, manifest: Manifest) -> Path:
        """Makes a fully written directory visible, in one atomic step.

        Returns:
            where it lies from now on.

        Raises:
            StorageError: when it can't be done; what was staged is then still to be discarded.
        """
        try:
            write_atomically(staged / MANIFEST_NAME, manifest.model_dump_json(indent=2).encode())
            directory = staged.parent.parent / DATASETS / staged.name
            directory.parent.mkdir(mode=0o700, exist_ok=True)
            staged.rename(directory)
        except (OSError, PydanticSerializationError) as error:
            raise StorageError(str(staged), f"the dataset can't be published: {error}") from error
        return directory

    def published(self) -> Iterator[tuple[Path, Manifest | None]]:
        """What lies under `datasets`, each with its manifest if it has a valid one."""
        try:
            found = sorted((self._root() / DATASETS).iterdir())
        except OSError:
            return
        for directory in found:
            yield directory, manifest_in(directory)

    def remove(self, directory: Path) -> None:
        """Removes a directory, staged, published or pinned; what can't be removed is garbage."""
        # A process that was forked off knows of the files, which are not its own.
        if os.getpid() == self._owner:
            _remove(directory)

    def pin(self, directory: Path, manifest: Manifest) -> Path | None:
        """The same partitions in a place of their own, where a removal leaves them.

        Returns:
            that place, to be removed in the end; None when they can't be had twice without a copy.
        """
        try:
            pinned = self._new_directory(_PINNED, f"{directory.name}-{uuid.uuid4().hex[:8]}")
        except StorageError:
            return None
        try:
            os.link(directory / MANIFEST_NAME, pinned / MANIFEST_NAME)
            for partition in manifest.partitions:
                link_partition(directory / partition.file, pinned / partition.file)
        except OSError as error:
            logger.debug("reading %s without pinning it: %s", directory, error)
            self.remove(pinned)
            return None
        return pinned

    def _new_directory(self, kind: str, name: str) -> Path:
        try:
            path = self._root() / kind / name
            path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise StorageError(
                kind, f"can't create a directory to keep results in: {error}"
            ) from error
        return path


def found_partitions(staged: Path) -> tuple[KeptPartition, ...]:
    """The partitions that Spark's writer left: each from a task's one successful attempt.

    Raises:
        StorageError: when something else lies there, or a file is not whole.
    """
    partitions: dict[int, KeptPartition] = {}
    try:
        for path in sorted(staged.iterdir()):
            if path.name.startswith((".", "_")):
                continue
            match = _PART_FILE.fullmatch(path.name)
            if match is None:
                raise StorageError(str(path), "expected the name of a partition that a task writes")
            index = int(match[1])
            if index in partitions:
                raise StorageError(str(path), f"two attempts left a file for partition {index}")
            partitions[index] = partition_in(path, index)
    except (OSError, pyarrow.ArrowException) as error:
        raise StorageError(str(staged), f"can't determine its partitions: {error}") from error
    return tuple(partitions[index] for index in sorted(partitions))


def measured(staged: Path, partitions: Sequence[KeptPartition]) -> tuple[KeptPartition, ...]:
    """Partitions with the size of their rows in memory: of all, of some, or of none.

    Args:
        staged: where they lie.
        partitions: what `found_partitions` gave.
    """
    step = -(-len(partitions) // _MOST_MEASURED) or 1
    sizes: dict[int, int] = {}
    for partition in partitions[::step]:
        try:
            with (staged / partition.file).open("rb") as opened:
                size = bytes_in_memory(footer_of(opened))
        except OSError:
            size = None
        if size is None:
            # The others would be those whose rows are small.
            return tuple(partitions)
        sizes[partition.index] = size
    return tuple(each.model_copy(update={"memory": sizes.get(each.index)}) for each in partitions)


def write_empty_partitions(staged: Path, number: int) -> None:
    """Writes a file without rows for each partition that has no file.

    Args:
        staged: where the others lie.
        number: how many partitions there are.

    Raises:
        OSError: when one can't be written.
    """
    names = {int(m[1]): m[0] for m in map(_PART_FILE.fullmatch, os.listdir(staged)) if m}
    missing = [index for index in range(number) if index not in names]
    if not missing or not names:
        return
    file = pyarrow.BufferOutputStream()
    try:
        schema = parquet.read_schema(staged / next(iter(names.values())))
        parquet.write_table(schema.empty_table(), file, store_schema=False)
    except pyarrow.ArrowException as error:
        raise OSError(f"an empty partition can't be written: {error}") from error
    attempt = uuid.uuid4().hex
    for index in missing:
        (staged / f"part-{index:05d}-{attempt}.parquet").write_bytes(file.getvalue())


def partition_sizes(staged: Path) -> list[int]:
    """The sizes of the files that Spark's writer left, by the index of their partitions."""
    with os.scandir(staged) as entries:
        found = [
            (int(match[1]), entry.stat().st_size)
            for entry in entries
            if (match := _PART_FILE.fullmatch(entry.name))
        ]
    return [size for _, size in sorted(found)]


def partition_in(file: Path, index: int) -> KeptPartition:
    """The partition in a file, whose footer says that it is whole.

    Raises:
        OSError: when it can't be read.
        pyarrow.ArrowException: when it isn't whole.
    """
    with file.open("rb") as opened:
        status = os.fstat(opened.fileno())
        return KeptPartition(
            index=index,
            file=file.name,
            bytes=status.st_size,
            rows=parquet.read_metadata(opened).num_rows,
            version=version_of(status),
            footer=footer_checksum(opened),
        )


def damage(directory: Path, manifest: Manifest) -> str | None:
    """What is wrong with a published dataset, told from its directory without reading rows."""
    explained = False
    found = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "_")):
                    found[entry.name] = entry.stat()
                elif entry.name == MANIFEST_NAME:
                    explained = True
    except OSError as error:
        return f"{directory} can't be listed: {error.strerror}"
    for partition in manifest.partitions:
        status = found.pop(partition.file, None)
        if status is None:
            return f"partition {partition.index} is missing"
        change = how_changed(partition, status)
        if change is not None:
            return change
    if found:
        return f"{len(found)} unknown files are in {directory}"
    if not explained:
        return "its manifest is missing"
    return None


def manifest_in(directory: Path) -> Manifest | None:
    """The manifest of a published dataset; None without a valid one."""
    try:
        return Manifest.model_validate_json(text_of(directory / MANIFEST_NAME))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def note_hits(directory: Path, count: int) -> None:
    """Writes beside a published dataset how often it has been read, for other processes to see.

    Args:
        directory: the dataset's.
        count: never less than the last time.
    """
    # A count only grows: written over the last one it leaves no digit of that, and is never empty.
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(directory / HITS_NAME, flags, 0o600)
        try:
            os.pwrite(file, b"%d\n" % count, 0)
        finally:
            os.close(file)
    except OSError as error:
        logger.debug("can't update the hit count of %s to %d: %s", directory, count, error)


def noted_hits(directory: Path) -> int | None:
    """How often a published dataset has been read; None where that isn't noted."""
    try:
        text = text_of(directory / HITS_NAME, "ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and len(text) < _LONGEST_COUNT else None


def how_changed(partition: KeptPartition, status: os.stat_result) -> str | None:
    """How a file differs from the partition that was published in it."""
    if version_of(status) == partition.version:
        return None
    if status.st_size != partition.bytes:
        return f"partition {partition.index} has {status.st_size} of {partition.bytes} bytes"
    return f"partition {partition.index} was modified"


def _remove(directory: Path) -> None:
    if not remove_at_once(directory, directory.with_name(f".removed-{directory.name}")):
        # Whoever had the answer must not lose it over garbage.
        logger.warning("can't remove %s; the next start will", directory)
