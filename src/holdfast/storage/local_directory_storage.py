"""Keeps results as Parquet files in a directory of this machine."""

from __future__ import annotations

import logging
import os
import re
import shutil
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID
from holdfast.storage.application_directory import ApplicationDirectory
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.kept_dataset import (
    MANIFEST_NAME,
    DataSetDescription,
    KeptDataSet,
    KeptPartition,
    Manifest,
)

_PART_FILE = re.compile(r"part-(\d+)-.+\.parquet")
_STAGING = "staging"
_DATASETS = "datasets"
_PINNED = "pinned"

logger = logging.getLogger(__name__)


class LocalDirectoryStorage(IntermediateResultStorage):
    """The default storage: `ROOT/application-…/datasets/DATASET-…/part-….parquet`.

    A dataset is staged beside, and appears under `datasets` by one rename. Each time it is made
    again it gets a new directory, so that nothing that still reads or writes the old one meets the
    new.

    Args:
        root: the directory that applications on this machine share.

    Raises:
        StorageError: when `root` can't be used.
    """

    def __init__(self, root: Path) -> None:
        self._application = ApplicationDirectory(root)
        self._owner = os.getpid()

    def stage(self, dataset_id: IntermediateDataSetID) -> Path:
        return self._new_directory(_STAGING, dataset_id.hex)

    def publish(self, staged: Path, description: DataSetDescription) -> KeptDataSet:
        try:
            manifest = Manifest(
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                dataset=description,
                partitions=_partitions(staged),
            )
            with (staged / MANIFEST_NAME).open("w", encoding="utf-8") as file:
                file.write(manifest.model_dump_json(indent=2))
                file.flush()
                os.fsync(file.fileno())
            directory = staged.parent.parent / _DATASETS / staged.name
            directory.parent.mkdir(mode=0o700, exist_ok=True)
            staged.rename(directory)
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(str(staged), f"the dataset can't be published: {error}") from error
        return KeptDataSet(directory=directory, manifest=manifest)

    def discard(self, staged: Path) -> None:
        self._remove(staged)

    def damage(self, kept: KeptDataSet) -> str | None:
        explained = False
        found = {}
        try:
            with os.scandir(kept.directory) as entries:
                for entry in entries:
                    if not entry.name.startswith((".", "_")):
                        found[entry.name] = entry.stat()
                    elif entry.name == MANIFEST_NAME:
                        explained = True
        except OSError as error:
            return f"{kept.directory} can't be listed: {error.strerror}"
        for partition in kept.manifest.partitions:
            status = found.pop(partition.file, None)
            if status is None:
                return f"partition {partition.index} is gone"
            change = _change(partition, status)
            if change is not None:
                return change
        if found:
            return f"{len(found)} unknown files lie in {kept.directory}"
        if not explained:
            return "its manifest is gone"
        return None

    def rewritten(self, kept: KeptDataSet) -> str | None:
        for partition in kept.manifest.partitions:
            with suppress(OSError):
                change = _change(partition, (kept.directory / partition.file).stat())
                if change is not None:
                    return change
        return None

    def remove(self, kept: KeptDataSet) -> None:
        self._remove(kept.directory)

    def pin(self, kept: KeptDataSet) -> KeptDataSet | None:
        try:
            directory = self._new_directory(_PINNED, kept.directory.name)
        except StorageError:
            return None
        pinned = kept.model_copy(update={"directory": directory})
        try:
            os.link(kept.directory / MANIFEST_NAME, directory / MANIFEST_NAME)
            for partition in kept.manifest.partitions:
                os.link(kept.directory / partition.file, directory / partition.file)
                # Hadoop's checksums lie beside the files; without them it reads unchecked.
                checksums = f".{partition.file}.crc"
                with suppress(FileNotFoundError):
                    os.link(kept.directory / checksums, directory / checksums)
        except OSError as error:
            logger.debug("%s is read unpinned: %s", kept.directory, error)
            self.unpin(pinned)
            return None
        return pinned

    def unpin(self, pinned: KeptDataSet) -> None:
        self._remove(pinned.directory)

    def close(self) -> None:
        self._application.close()

    def _remove(self, directory: Path) -> None:
        # A process that was forked off knows of the files, which are not its own.
        if os.getpid() == self._owner:
            _remove(directory)

    def _new_directory(self, kind: str, name: str) -> Path:
        try:
            path = self._application.path() / kind / f"{name}-{uuid.uuid4().hex[:8]}"
            path.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise StorageError(
                kind, f"no directory can be made to keep results in: {error}"
            ) from error
        return path


def _partitions(staged: Path) -> tuple[KeptPartition, ...]:
    """The partitions that Spark's writer left: each from a task's one successful attempt."""
    partitions: dict[int, KeptPartition] = {}
    for path in sorted(staged.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        match = _PART_FILE.fullmatch(path.name)
        if match is None:
            raise StorageError(str(path), "this is not what a task calls the partition it writes")
        index = int(match[1])
        if index in partitions:
            raise StorageError(str(path), f"two attempts left a file for partition {index}")
        status = path.stat()
        partitions[index] = KeptPartition(
            index=index,
            file=path.name,
            bytes=status.st_size,
            rows=pyarrow.parquet.read_metadata(path).num_rows,
            modified_ns=status.st_mtime_ns,
        )
    if not partitions:
        raise StorageError(str(staged), "no task has left a partition, not even an empty one")
    return tuple(partitions[index] for index in sorted(partitions))


def _change(partition: KeptPartition, status: os.stat_result) -> str | None:
    """How a file differs from the partition that was published in it."""
    if status.st_size != partition.bytes:
        return f"partition {partition.index} has {status.st_size} of {partition.bytes} bytes"
    if status.st_mtime_ns != partition.modified_ns:
        return f"partition {partition.index} has been written to"
    return None


def _remove(directory: Path) -> None:
    # Renamed first: a directory that is half removed must not look like a dataset.
    going = directory.with_name(f".removed-{directory.name}")
    try:
        try:
            directory.rename(going)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError:
            going = directory
        if going.is_dir() and not going.is_symlink():
            shutil.rmtree(going)
        else:
            going.unlink(missing_ok=True)
    except OSError as error:
        # Whoever had the answer must not lose it over garbage.
        logger.warning("%s could not be removed; the next start will: %s", going, error)
