"""Brings together what earlier starts of a job have left, and looks at what of it is whole."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StorageError
from holdfast.lazy_module import LazyModule
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.storage.partition_directory import (
    DATASETS,
    STAGING,
    manifest_in,
    measured,
    partition_in,
)
from holdfast.taskexecutor.outputs.adoption import why_not_whole
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.outputs.staged_files import IN_PROGRESS, committed_files
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_directory import TAKEN
from holdfast.taskexecutor.recovery.shuffle_files import gather_shuffles

if TYPE_CHECKING:
    import pyarrow
else:
    pyarrow = LazyModule("pyarrow")

PARTIAL = "partial"
"""Where outputs lie whose driver was lost before they were published."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SalvagedOutput:
    """An output that an earlier start has left.

    Attributes:
        output: which output.
        directory: where it lies.
        part: which partitions its tasks were to make.
        partitions: those that lie there, by their index in the whole.
        record: what its executor noted of it; None where it hadn't come that far.
        manifest: what explains it, if it was published and is whole.
    """

    output: OutputID
    directory: Path
    part: OutputPart
    partitions: tuple[KeptPartition, ...]
    record: OutputRecord | None
    manifest: Manifest | None

    @property
    def number_of_partitions(self) -> int | None:
        """Of the whole dataset, if that is known."""
        if self.record is not None:
            return self.record.number_of_partitions
        return self.part.number_of_partitions


def gather(own: Path) -> None:
    """Moves what was taken over to where this start's outputs lie.

    Whoever is killed over it leaves it for the next one to be gathered.

    Args:
        own: the directory of the start that has taken over.

    Raises:
        OSError: when something can't be moved.
    """
    taken = own / TAKEN
    while waiting := _directories(taken):
        for earlier in waiting:
            # First what it had taken over itself, so that nothing is ever deeper than this.
            for before in _directories(earlier / TAKEN):
                _move(before, taken)
            for published in _directories(earlier / DATASETS):
                _move(published, own / DATASETS)
            for kind in (PARTIAL, STAGING):
                for half_done in _directories(earlier / kind):
                    _move(half_done, own / PARTIAL)
            gather_shuffles(earlier, own)
            shutil.rmtree(earlier)
    # Tasks that this start runs write here, so that it is looked at before they begin.
    for half_done in _directories(own / STAGING):
        _move(half_done, own / PARTIAL)


def salvaged(own: Path) -> list[SalvagedOutput]:
    """The outputs in a start's directory of which anything can be used; the rest is removed.

    Args:
        own: the directory, in which everything has been gathered.

    Raises:
        OSError: when it can't be read.
    """
    found = []
    for directory in _directories(own / DATASETS):
        published = _published(directory)
        if published is not None:
            found.append(published)
        elif not directory.name.startswith("."):
            _move(directory, own / PARTIAL)
    for directory in _directories(own / PARTIAL):
        partial = _partial(directory)
        if partial is not None:
            found.append(partial)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    return found


def _published(directory: Path) -> SalvagedOutput | None:
    manifest = manifest_in(directory)
    part, record = OutputPart.read(directory), OutputRecord.read(directory)
    why = why_not_whole(directory, manifest, record)
    if manifest is None or part is None or record is None or why is not None:
        logger.warning("%s is incomplete: %s", directory, why or "it has no record")
        return None
    output = OutputID.parse(directory.name)
    return SalvagedOutput(output, directory, part, manifest.partitions, record, manifest)


def _partial(directory: Path) -> SalvagedOutput | None:
    """What of a directory's files is whole; everything else in it is removed."""
    part = OutputPart.read(directory)
    try:
        output = OutputID.parse(directory.name)
    except ValueError:
        return None
    if part is None or part.of.dataset_id != output.dataset_id:
        return None
    shutil.rmtree(directory / IN_PROGRESS, ignore_errors=True)
    # It was published, or nearly was: what has been written to since isn't what was computed.
    manifest = manifest_in(directory)
    unmeasured = () if manifest is None else manifest.partitions
    described = {each.model_copy(update={"memory": None}) for each in unmeasured}
    try:
        files = committed_files(directory)
    except StorageError:
        return None
    partitions: dict[int, KeptPartition] = {}
    for task, names in files.items():
        index = part.original(task)
        whole = None if index is None or len(names) != 1 else _whole(directory / names[0], index)
        if whole is not None and (manifest is None or whole in described):
            partitions[whole.index] = whole
    kept = {partition.file for partition in partitions.values()}
    for path in list(directory.iterdir()):
        if not path.name.startswith(("_", ".")) and path.name not in kept:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    if not partitions:
        return None
    by_index = tuple(partitions[index] for index in sorted(partitions))
    record = OutputRecord.read(directory)
    return SalvagedOutput(output, directory, part, measured(directory, by_index), record, None)


def _whole(file: Path, index: int) -> KeptPartition | None:
    """The partition in a file, if its footer says that the file is one."""
    try:
        if file.is_symlink() or not file.is_file():
            return None
        return partition_in(file, index)
    except (OSError, pyarrow.ArrowException):
        return None


def _directories(path: Path) -> list[Path]:
    try:
        return [each for each in sorted(path.iterdir()) if each.is_dir() and not each.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _move(directory: Path, to: Path) -> None:
    target = to / directory.name
    if directory.name.startswith(".") or target.exists():
        # Half removed; or made anew by a task, when it had been moved before.
        shutil.rmtree(directory)
        return
    to.mkdir(mode=0o700, exist_ok=True)
    directory.rename(target)
