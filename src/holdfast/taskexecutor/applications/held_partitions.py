"""What a task executor holds for the catalog: it outlives the programs that have kept it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from holdfast.catalog.result_record import RESULT_RECORD_NAME
from holdfast.errors import StorageError, UnknownDataSetError
from holdfast.files.durable_files import sync_directory, write_atomically, write_durably
from holdfast.files.regular_file import text_of
from holdfast.storage.kept_dataset import Manifest
from holdfast.storage.partition_checksums import replaced
from holdfast.taskexecutor.applications.application_partitions import (
    NO_JOB,
    ApplicationPartitions,
    write_record,
)
from holdfast.taskexecutor.applications.holder import Holder
from holdfast.taskexecutor.outputs.linked_files import PublishedPartition, link_durably
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.outputs.output_record import OUTPUT_RECORD_NAME, OutputRecord
from holdfast.taskexecutor.partitions.partition_info import OutputID

MOST_OF_THE_DISK = 0.5
"""Which share of the space that is free on the disk, or theirs, held partitions may take up."""


class HeldPartitions(ApplicationPartitions):
    """The catalog's partitions. Safe for use by several threads.

    They are linked here whole, by one call, so that no program can leave one half done.

    Args:
        holder: the catalog.

    Source: FLIP-36, phase 2: results outlive the application in an external place.
    """

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        # What is just being linked is nobody's garbage.
        self.tracker.mark_job_active(NO_JOB)

    def hold(
        self,
        output_id: OutputID,
        found: Sequence[PublishedPartition],
        manifest: Manifest,
        record: OutputRecord,
        result: str,
    ) -> None:
        """Links a program's output here, under its own name; no row is copied.

        Args:
            output_id: the output.
            found: its partitions that lie on this machine.
            manifest: what explains them.
            record: for which catalog, and how many partitions there are on all executors.
            result: what is to lie beside it, for whoever has to rebuild the catalog.

        Raises:
            DuplicateRegistrationError: when it is held already.
            StorageError: when the partitions aren't as they were published, or can't be linked; or
                when what is held would take up too much of the disk.
        """
        self._refuse_without_room(output_id, manifest)
        directory = self.open(NO_JOB, output_id)
        output = self._of_job(NO_JOB, output_id)
        with output.working:
            output.number_of_partitions = record.number_of_partitions
            output.catalog = record.catalog
            try:
                link_durably(found, directory)
                write_atomically(directory / RESULT_RECORD_NAME, result.encode())
                write_record(record, directory)
                sync_directory(directory)
                self._publish(output, manifest)
                sync_directory(output.directory.parent)
            except BaseException as error:
                self.tracker.stop_tracking(output)
                self._files.remove(output.directory)
                if isinstance(error, OSError):
                    raise StorageError(str(directory), f"can't hold the output: {error}") from error
                raise

    def _refuse_without_room(self, output_id: OutputID, manifest: Manifest) -> None:
        promoted = self.tracker.all(OutputState.PROMOTED)
        held = sum(partition.bytes for each in promoted for partition in each.partitions)
        asked = sum(partition.bytes for partition in manifest.partitions)
        root = self.holder.path()
        most = int((held + shutil.disk_usage(root).free) * MOST_OF_THE_DISK)
        if held + asked > most:
            raise StorageError(
                str(root),
                f"there is no room to hold {asked:,} bytes of {output_id} for the catalog beside "
                f"{held:,} held: expected at most {most:,}, {MOST_OF_THE_DISK:.0%} of what "
                "is free on the disk or held; remove what isn't needed by `holdfast rm`",
            )

    def held(self) -> dict[OutputID, str | None]:
        """What is held, each with the identity of its catalog."""
        return {each.output_id: each.catalog for each in self.tracker.all(OutputState.PROMOTED)}

    def change_catalog(self, output_id: OutputID, catalog: str) -> None:
        """Holds a held output for another catalog from now on, which records it by now.

        Args:
            output_id: the output.
            catalog: the identity of the catalog.

        Raises:
            UnknownDataSetError: when it isn't held.
            StorageError: when that can't be noted.
        """
        output = self.promoted(output_id)
        if output is None:
            raise _not_held(output_id)
        with output.working:
            if not self.tracker.is_tracking(output, OutputState.PROMOTED):
                raise _not_held(output_id)
            record = OutputRecord(number_of_partitions=output.number_of_partitions, catalog=catalog)
            content = record.model_dump_json(exclude_none=True).encode()
            try:
                # Without a whole one, the next start would take the output for garbage.
                write_durably(output.directory / OUTPUT_RECORD_NAME, content)
            except OSError as error:
                raise StorageError(
                    str(output.directory), f"can't note its catalog: {error}"
                ) from error
            output.catalog = catalog

    def result(self, output: Output) -> str | None:
        """What lies beside a held output for whoever rebuilds the catalog; None without it."""
        try:
            return text_of(output.directory / RESULT_RECORD_NAME)
        except (OSError, UnicodeDecodeError):
            return None

    def damage(self, output_id: OutputID) -> str | None:
        """What is wrong with a held output: also where a file was replaced by one like it.

        Raises:
            UnknownDataSetError: when there is no such output.
        """
        found = super().damage(output_id)
        directory, manifest = self._published(output_id)
        try:
            for partition in manifest.partitions:
                found = found or replaced(partition, directory / partition.file)
        except OSError as error:
            return str(error)
        return found

    def _take_in(self, directory: Path, manifest: Manifest, record: OutputRecord) -> Output:
        output = super()._take_in(directory, manifest, record)
        output.catalog = record.catalog
        return output


def _not_held(output_id: OutputID) -> UnknownDataSetError:
    return UnknownDataSetError(output_id.name, "an output that is held for a catalog")
