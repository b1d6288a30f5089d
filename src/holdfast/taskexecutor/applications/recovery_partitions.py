"""What one start of a job has on a task executor, and what it has there from earlier starts."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path

from holdfast.errors import MalformedRequestError, StorageError, UnknownDataSetError
from holdfast.storage.kept_dataset import Manifest
from holdfast.storage.partition_directory import how_changed
from holdfast.taskexecutor.applications.application_partitions import (
    NO_JOB,
    ApplicationPartitions,
    write_record,
)
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.outputs.output_checks import refuse_other_manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.salvage import SalvagedOutput, gather, salvaged
from holdfast.taskexecutor.recovery.shuffle_files import SHUFFLES


class RecoveryPartitions(ApplicationPartitions):
    """One start's partitions. Safe for use by several threads.

    Args:
        holder: the start.
    """

    def adopt(self) -> None:
        """Takes in what earlier starts, or an earlier run of this executor, have left.

        Raises:
            OSError: when that can't be read.
        """
        own = self.holder.path()
        gather(own)
        for found in salvaged(own):
            if found.manifest is not None and found.record is not None:
                self._take_in(found.directory, found.manifest, found.record).part = found.part
            else:
                self._take_in_partial(found)

    def recovered(self) -> tuple[RecoveredOutput, ...]:
        """Everything that is published here, and what is half done and nobody's."""
        outputs = [
            output
            for output in self.tracker.all()
            if output.state in (OutputState.PROMOTED, OutputState.PARTIAL)
        ]
        return tuple(
            RecoveredOutput(
                output=output.output_id,
                part_of=output.output_id if output.part is None else output.part.of,
                manifest=output.manifest,
                partitions=output.partitions,
                number_of_partitions=output.number_of_partitions or None,
                publication=output.publication,
            )
            for output in sorted(outputs, key=attrgetter("output_id"))
        )

    def open_shuffles(self) -> Path:
        """Where the start's map tasks leave what they write, and those of earlier ones have.

        Raises:
            StorageError: when it can't be made; so when a newer start has taken over.
        """
        directory = self.holder.path() / SHUFFLES
        try:
            # Not with what is above it, which is gone when a newer start has taken over.
            directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(str(directory), f"can't be made: {error}") from error
        return directory

    def promote_recovered(
        self, output_id: OutputID, manifest: Manifest, publication: Publication
    ) -> None:
        """Publishes what an earlier start has left of an output, as a part of a new publishing.

        Raises:
            UnknownDataSetError: when no start has left such an output.
            UnknownPartitionError: when the manifest's partitions are not those that lie here.
            MalformedRequestError: when the manifest is another dataset's, or a partition of it is
                beyond the publication's number of them.
            StorageError: when it can't be published, or has been written to since it was found.
        """
        output = self.tracker.get(output_id)
        if output is None:
            raise _not_left(output_id)
        with output.working:
            if not self.tracker.is_tracking(output, OutputState.PARTIAL, OutputState.PROMOTED):
                raise _not_left(output_id)
            refuse_other_manifest(output_id, manifest, output.partitions)
            number = publication.number_of_partitions
            if not all(0 <= partition.index < number for partition in output.partitions):
                raise MalformedRequestError(
                    "promote_recovered", f"partitions of {output_id} are from 0 below {number}"
                )
            self._refuse_changed(output, manifest)
            record = OutputRecord(number_of_partitions=number, publication=publication)
            write_record(record, output.directory)
            output.publication = publication
            if output.state is OutputState.PARTIAL:
                output.number_of_partitions = number
                self._publish(output, manifest)

    def _take_in_partial(self, found: SalvagedOutput) -> None:
        output = Output(found.output, NO_JOB, found.directory, OutputState.PARTIAL, part=found.part)
        output.number_of_partitions = found.number_of_partitions or 0
        output.partitions = found.partitions
        self.tracker.start_tracking(output)

    def _part(self, output_id: OutputID, part: OutputPart | None) -> OutputPart | None:
        if part is not None and part.of.dataset_id != output_id.dataset_id:
            raise MalformedRequestError(
                "open_output", f"{output_id} can't make a part of {part.of}: another dataset"
            )
        return part or OutputPart.alone(output_id)

    def _refuse_changed(self, output: Output, manifest: Manifest) -> None:
        for partition in manifest.partitions:
            file = output.directory / partition.file
            try:
                changed = how_changed(partition, file.stat())
            except OSError as error:
                changed = str(error)
            if changed is not None:
                raise StorageError(str(file), f"it was modified after recovery: {changed}")


def _not_left(output_id: OutputID) -> UnknownDataSetError:
    return UnknownDataSetError(
        output_id.name, "an output of an earlier start on this task executor"
    )
