"""What environments that run on this machine keep in the directory that they share."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.cli.catalog_access import catalog_in
from holdfast.cli.datasets.dataset_source import Found, Records, Released
from holdfast.cli.datasets.errors import BadInputError
from holdfast.cli.datasets.listed_dataset import (
    Contents,
    DataSetState,
    ListedColumn,
    ListedDataSet,
    PartitionsPlace,
    Sharing,
    moment,
)
from holdfast.cli.datasets.type_text import type_text
from holdfast.errors import CatalogError
from holdfast.files.file_lock import try_lock
from holdfast.files.regular_file import open_regular
from holdfast.ids import ApplicationID
from holdfast.plan.file_version import FileVersion
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.storage.partition_directory import DATASETS, PartitionDirectory, damage, noted_hits
from holdfast.storage.shared_directory import SHARED, SharedDirectory
from holdfast.taskexecutor.applications.application_directory import LOCK, application_of
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.partitions.partition_info import OutputID

_OF_AN_EXECUTOR = "taskexecutor.lock"


class DirectorySource:
    """A Source over `intermediate-result-storage.directory`.

    What applications that run have counts, and what outlives them: what dead ones have left beside
    that is garbage, which the next start removes.

    Args:
        root: the directory.
        may_be_missing: whether it is no error when there is no such directory.
    """

    def __init__(self, root: Path, may_be_missing: bool) -> None:
        self._root = root
        self._may_be_missing = may_be_missing
        self._shared = SharedDirectory(root / SHARED)

    @property
    def name(self) -> str:
        return str(self._root)

    def find(self) -> Found:
        try:
            if not self._root.exists() and self._may_be_missing:
                return Found(())
            if (self._root / _OF_AN_EXECUTOR).exists():
                raise BadInputError(
                    f"{self._root}: this directory belongs to a task executor; query it instead: "
                    f"--executors HOST:PORT --token-file {self._root}/token"
                )
            paths = sorted(self._root.iterdir())
        except FileNotFoundError:
            raise BadInputError(f"{self._root}: no such directory") from None
        except OSError as error:
            raise BadInputError(f"{self._root}: can't be listed: {error.strerror}") from error
        records, failures = self._recorded()
        recorded = {result.name: result for result in records.kept}
        running = [path for path in paths if application_of(path) is not None and is_running(path)]
        found = [
            dataset for path in running for dataset in _listed(_files(path), application_of(path))
        ]
        found += _listed(self._shared, None)
        listed = _once([_with_record(dataset, recorded) for dataset in found])
        return Found(listed, failures, records.not_kept)

    def contents(self, dataset: ListedDataSet) -> Contents | None:
        (place,) = dataset.places
        directory = Path(place.directory)
        for found, manifest in PartitionDirectory(lambda: directory.parent.parent).published():
            if found == directory and manifest is not None:
                columns = (
                    ListedColumn(column.name, type_text(column.type), column.nullable)
                    for column in manifest.dataset.columns
                )
                sources = self._sources(dataset.output)
                return Contents(tuple(columns), manifest.dataset.spark_version, sources)
        return None

    def release(self, dataset: ListedDataSet) -> Released:
        (place,) = dataset.places
        failures = self.release_named(dataset.output.name, Path(place.directory))
        return Released((), failures) if failures else Released((place,))

    def release_named(self, name: str, *directories: Path) -> tuple[str, ...]:
        """Releases a dataset wherever it lies.

        Args:
            name: of this production of it, `<dataset>-<attempt>`.
            directories: where it is known to lie.

        Returns:
            why something of it is still there, a line each.
        """
        failures = self._withdraw(name)
        for directory in {*directories, *self._everywhere(name)}:
            PartitionDirectory(directory.parent.parent.absolute).remove(directory)
            if directory.exists():
                failures.append(f"{directory}: can't be removed; check its owner and permissions")
        return tuple(failures)

    def _everywhere(self, name: str) -> Iterator[Path]:
        """Where a dataset lies, in its program's directory and in the one that outlives it."""
        yield from self._root.glob(f"{SHARED}/{DATASETS}/{name}")
        for directory in self._root.glob(f"application-*/{DATASETS}/{name}"):
            if is_running(directory.parent.parent):
                yield directory

    def _recorded(self) -> tuple[Records, tuple[str, ...]]:
        """What the catalog records; and why it can't be read."""
        try:
            with catalog_in(self._root) as catalog:
                return Records() if catalog is None else Records.of(catalog), ()
        except CatalogError as error:
            return Records(), (str(error),)

    def _sources(self, output: OutputID) -> tuple[FileVersion, ...] | None:
        try:
            with catalog_in(self._root) as catalog:
                if catalog is None:
                    return None
                for result in catalog.reading.named(output.name, most=1):
                    detail = catalog.reading.detail(result.number)
                    return None if detail is None else detail.made_from.files
                return None
        except CatalogError:
            # `find` has said why.
            return None

    def _withdraw(self, name: str) -> list[str]:
        """No program finds the dataset any more; returns why that can't be seen to."""
        try:
            with catalog_in(self._root) as catalog:
                if catalog is not None:
                    numbers = [result.number for result in catalog.reading.named(name)]
                    gone = catalog.holders.withdraw("it was removed by hand", numbers=numbers)
                    catalog.holders.removed([result.number for result in gone])
        except CatalogError as error:
            return [str(error)]
        return []


def is_running(path: Path) -> bool:
    """Whether the application of a directory lives: it holds a lock for as long as it does.

    Args:
        path: `ROOT/application-<id>`.
    """
    try:
        with open_regular(path / LOCK) as lock:
            # Shared and let go of at once, so that nobody who wants to have it is held up.
            return not try_lock(lock.fileno(), shared=True)
    except OSError:
        return False


def _files(application_directory: Path) -> PartitionDirectory:
    return PartitionDirectory(lambda: application_directory)


def _listed(
    files: PartitionDirectory | SharedDirectory, application: ApplicationID | None
) -> Iterator[ListedDataSet]:
    for directory, manifest in files.published():
        try:
            output = OutputID.parse(directory.name)
        except ValueError:
            # It is being removed.
            continue
        if not os.access(directory, os.R_OK | os.X_OK):
            # It is going, or another user's.
            continue
        partitions = () if manifest is None else manifest.partitions
        missing = sum(not (directory / each.file).exists() for each in partitions)
        wrong = _damage(directory, manifest)
        number = _number_of_partitions(directory, partitions)
        yield ListedDataSet(
            application=application,
            output=output,
            computes=None if manifest is None else manifest.dataset.computes,
            created=None if manifest is None else moment(manifest.created),
            number_of_partitions=number,
            # One without rows has no file, and is there as well.
            partitions_found=0 if manifest is None or number is None else number - missing,
            state=_state(missing, wrong),
            hits=noted_hits(directory),
            places=(PartitionsPlace(socket.gethostname(), str(directory), partitions, wrong),),
            ambiguous=manifest is not None and manifest.dataset.ambiguous,
        )


def _once(datasets: Sequence[ListedDataSet]) -> tuple[ListedDataSet, ...]:
    """Each dataset once: its programs, its readers and what outlives them have the same files."""
    of_files: dict[object, ListedDataSet] = {}
    # What was kept counts before what was linked from it, and what stays before what goes.
    for dataset in sorted(datasets, key=lambda each: (each.sharing is None, not _stays(each))):
        of_files.setdefault(_files_of(dataset), dataset)
    return tuple(dataset for dataset in datasets if of_files[_files_of(dataset)] is dataset)


def _stays(dataset: ListedDataSet) -> bool:
    return Path(dataset.places[0].directory).parents[1].name == SHARED


def _files_of(dataset: ListedDataSet) -> object:
    """What tells a dataset's files from others, whatever names they have."""
    for partition, place in dataset.partitions:
        try:
            status = os.stat(Path(place.directory) / partition.file)
        except OSError:
            break
        return dataset.output.dataset_id, status.st_dev, status.st_ino
    return dataset.output, dataset.places


def _with_record(dataset: ListedDataSet, recorded: Mapping[str, CatalogedResult]) -> ListedDataSet:
    result = recorded.get(dataset.output.name)
    if result is None:
        return dataset
    return replace(dataset, application=result.application, sharing=Sharing.of(result))


def _damage(directory: Path, manifest: Manifest | None) -> str | None:
    if manifest is None:
        return "its manifest is missing or invalid"
    return damage(directory, manifest)


def _number_of_partitions(directory: Path, partitions: tuple[KeptPartition, ...]) -> int | None:
    record = OutputRecord.read(directory)
    if record is not None:
        return record.number_of_partitions
    return max((each.index + 1 for each in partitions), default=None)


def _state(missing: int, wrong: str | None) -> DataSetState:
    if missing:
        return DataSetState.INCOMPLETE
    return DataSetState.COMPLETE if wrong is None else DataSetState.DAMAGED
