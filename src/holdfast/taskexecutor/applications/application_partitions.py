"""What one application has on a task executor: its directory, its outputs, their book-keeping."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from holdfast.errors import (
    MalformedRequestError,
    StorageError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
)
from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.storage.partition_directory import DATASETS, STAGING, PartitionDirectory, damage
from holdfast.taskexecutor.applications.holder import Holder
from holdfast.taskexecutor.outputs.adoption import why_not_whole
from holdfast.taskexecutor.outputs.linked_files import (
    PublishedPartition,
    link_published,
    refuse_part,
)
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.outputs.output_checks import refuse_bad_indices, refuse_other_manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.staged_files import remove_committed, take_over
from holdfast.taskexecutor.outputs.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.recovery.salvage import PARTIAL

logger = logging.getLogger(__name__)

NO_JOB = JobID("0" * 32)


class ApplicationPartitions:
    """One application's partitions. Safe for use by several threads.

    Spark's tasks write them as files to an output's directory; they are taken over once the tasks
    have finished, and removed at once where their job doesn't want them any more.

    Attributes:
        holder: for whom they stay.
        tracker: the book of its outputs.

    Args:
        holder: see above.

    Source: FLINK-12612, `JobAwareShuffleEnvironment`.
    """

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self.tracker = TaskExecutorPartitionTracker()
        self._files = PartitionDirectory(holder.path)

    @property
    def application(self) -> ApplicationID:
        """Whose they are."""
        return self.holder.application

    def adopt(self) -> None:
        """Takes over the published outputs that are whole, and removes everything else.

        Raises:
            OSError: when the directory can't be listed.
        """
        root = self.holder.path()
        with os.scandir(root) as entries:
            others = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        for path in others:
            if path.name != DATASETS:
                self._files.remove(path)
        if (root / DATASETS).is_symlink():
            (root / DATASETS).unlink()
        for directory, manifest in self._files.published():
            record = OutputRecord.read(directory)
            why = why_not_whole(directory, manifest, record)
            if why is None and manifest is not None and record is not None:
                self._take_in(directory, manifest, record)
            else:
                logger.warning("removed incomplete output %s: %s", directory, why)
                self._files.remove(directory)

    def _take_in(self, directory: Path, manifest: Manifest, record: OutputRecord) -> Output:
        output = Output(OutputID.parse(directory.name), NO_JOB, directory)
        output.number_of_partitions = record.number_of_partitions
        output.publication = record.publication
        output.promoted(directory, manifest)
        self.tracker.start_tracking(output)
        return output

    def open(self, job_id: JobID, output_id: OutputID, part: OutputPart | None = None) -> Path:
        """Makes the directory that Spark's tasks write an output to.

        Args:
            job_id: the job that produces it.
            output_id: which output.
            part: which partitions its tasks make, where they don't make all of them.

        Raises:
            DuplicateRegistrationError: when there is such an output.
            MalformedRequestError: when the part is of another dataset, or nobody would find it.
            StorageError: when the directory can't be made.
        """
        output = Output(output_id, job_id, Path(), part=self._part(output_id, part))
        with output.working:
            self.tracker.start_tracking(output)
            try:
                output.directory = self._files.open(output_id.name)
                self._note_part(output)
            except StorageError:
                self.tracker.stop_tracking(output)
                raise
        return output.directory

    def _part(self, output_id: OutputID, part: OutputPart | None) -> OutputPart | None:
        """What is to be noted of an output that is opened."""
        if part is not None:
            raise MalformedRequestError(
                "open_output", f"{output_id} makes a part, for an application that recovers no job"
            )
        return None

    def _note_part(self, output: Output) -> None:
        if output.part is None:
            return
        try:
            output.part.write(output.directory)
        except OSError as error:
            self._files.remove(output.directory)
            raise StorageError(
                str(output.directory), f"can't record the output: {error}"
            ) from error

    def finish(
        self,
        job_id: JobID,
        output_id: OutputID,
        indices: Sequence[int] | None,
        number_of_partitions: int | None,
    ) -> tuple[KeptPartition, ...]:
        """Takes over what the tasks of an output have written.

        Raises:
            MalformedRequestError: when an index is given twice, or is beyond the number.
            UnknownDataSetError: when the output is not open.
            UnknownJobError: when the job has ended in the meantime; the partitions are released.
            UnknownPartitionError: when a partition of `indices` does not lie there.
            StorageError: when what lies there can't be read.
        """
        refuse_bad_indices(output_id, indices, number_of_partitions)
        output = self._of_job(job_id, output_id)
        with output.working:
            self._refuse_closed(output)
            kept = take_over(output.directory, output_id, indices, output.part)
            number = number_of_partitions or max((part.index + 1 for part in kept), default=1)
            self._note_number(output, number_of_partitions)
            is_tracked = self.tracker.start_tracking_partitions(output, kept, number)
            if not kept or not is_tracked:
                self._files.remove(output.directory)
        if not is_tracked:
            raise UnknownJobError(job_id.hex)
        return kept

    def _note_number(self, output: Output, number_of_partitions: int | None) -> None:
        """So that who finds the output before it is published knows how many there are."""
        if output.part is not None and number_of_partitions is not None:
            write_record(OutputRecord(number_of_partitions=number_of_partitions), output.directory)

    def link(
        self,
        job_id: JobID,
        output_id: OutputID,
        found: Sequence[PublishedPartition],
        indices: Sequence[int],
    ) -> None:
        """Takes partitions that are published elsewhere into an open output.

        Args:
            job_id: the job that keeps it.
            output_id: which output.
            found: the partitions.
            indices: by which each is known in it.

        Raises:
            UnknownDataSetError: when the output is not open.
            MalformedRequestError: when it makes a part of another one.
            StorageError: when they aren't as they were published, or can't be linked.
        """
        output = self._of_job(job_id, output_id)
        with output.working:
            self._refuse_closed(output)
            refuse_part(output_id, output.part)
            link_published(found, output.directory, indices)

    def fail(self, job_id: JobID, output_id: OutputID) -> bool:
        """Gives an output up that has not been promoted.

        Returns:
            whether it was open.
        """
        output = self.tracker.get(output_id)
        if output is None or output.job_id != job_id:
            return False
        with output.working:
            if output.state is OutputState.PROMOTED or not self.tracker.stop_tracking(output):
                return False
            # An interrupt may have come before it had one.
            if output.directory != Path():
                self._files.remove(output.directory)
            return output.state is OutputState.OPEN

    def promote(
        self,
        job_id: JobID,
        output_id: OutputID,
        manifest: Manifest,
        publication: Publication | None = None,
    ) -> None:
        """Publishes a finished output, so that it outlives its job.

        Args:
            job_id: the job that produced it.
            output_id: which output.
            manifest: describes its partitions.
            publication: which publishing it belongs to, where a later start may find it.

        Raises:
            UnknownDataSetError: when the output is unknown, not finished or promoted already.
            UnknownPartitionError: when the manifest's partitions are not those of the output.
            MalformedRequestError: when the manifest is another dataset's.
            StorageError: when it can't be published.
        """
        output = self._of_job(job_id, output_id)
        with output.working:
            if not self.tracker.is_tracking(output, OutputState.FINISHED):
                raise _not_finished(output_id)
            refuse_other_manifest(output_id, manifest, output.partitions)
            number = (publication or output).number_of_partitions
            record = OutputRecord(number_of_partitions=number, publication=publication)
            write_record(record, output.directory)
            self._publish(output, manifest)
            output.number_of_partitions, output.publication = number, publication

    def _publish(self, output: Output, manifest: Manifest) -> None:
        directory = self._files.publish(output.directory, manifest)
        if not self.tracker.promote(output, directory, manifest):
            # Released in this very moment, when it lay elsewhere.
            self._files.remove(directory)
            raise _not_finished(output.output_id)

    def release_outputs(self, output_ids: Collection[OutputID]) -> None:
        """Releases promoted outputs, and partial ones; unknown ones are no error."""
        self._release(self.tracker.stop_tracking_cluster_partitions(output_ids))

    def release_finished_of(self, job_id: JobID) -> None:
        """Releases what a job has finished and not promoted at this point."""
        self._release(self.tracker.stop_tracking_job_partitions_for(job_id))

    def release_promoted(self) -> None:
        """Releases everything that outlives jobs."""
        self._release(self.tracker.stop_tracking_cluster_partitions())

    def _release(self, outputs: Collection[Output]) -> None:
        for output in outputs:
            # Whoever publishes it right now, or reads what an earlier start has left.
            with output.working:
                self._files.remove(output.directory)

    def damage(self, output_id: OutputID) -> str | None:
        """What is wrong with a promoted output.

        Raises:
            UnknownDataSetError: when there is no such output.
        """
        return damage(*self._published(output_id))

    def published(self, ids: Sequence[ResultPartitionID]) -> list[PublishedPartition]:
        """Partitions of promoted outputs.

        Raises:
            UnknownDataSetError: when one of the outputs has not been promoted, or is released.
            UnknownPartitionError: when one of the partitions does not lie here.
        """
        lying: dict[ResultPartitionID, PublishedPartition] = {}
        for output_id in {each.output for each in ids}:
            directory, manifest = self._published(output_id)
            for partition in manifest.partitions:
                key = ResultPartitionID(output_id, partition.index)
                lying[key] = PublishedPartition(directory, partition)
        missing = next((each for each in ids if each not in lying), None)
        if missing is not None:
            raise UnknownPartitionError(str(missing), "a published partition of this task executor")
        return [lying[each] for each in ids]

    def _published(self, output_id: OutputID) -> tuple[Path, Manifest]:
        output = self.promoted(output_id)
        manifest = None if output is None else output.manifest
        if output is None or manifest is None:
            raise UnknownDataSetError(output_id.name, "a promoted output that is not released")
        return output.directory, manifest

    def promoted(self, output_id: OutputID) -> Output | None:
        """An output that can be read; None when it can't."""
        output = self.tracker.get(output_id)
        return None if output is None or output.state is not OutputState.PROMOTED else output

    def sweep_output(self, output: Output) -> None:
        """Removes what tasks that have lost their job have committed to an open output."""
        with output.working:
            if not self.tracker.is_tracking(output, OutputState.OPEN):
                return
            remove_committed(output.directory)

    def unknown_directories(self) -> Iterator[Path]:
        """What lies where outputs lie, without being one that is known."""
        try:
            root = self.holder.path()
        except OSError:
            return
        for kind in (STAGING, PARTIAL, DATASETS):
            try:
                with os.scandir(root / kind) as entries:
                    names = [entry.name for entry in entries]
            except OSError:
                continue
            yield from (root / kind / name for name in names if not self.tracker.knows(name))

    def remove(self, directory: Path) -> None:
        """Removes a directory that is garbage, as far as that can be done."""
        self._files.remove(directory)

    def _of_job(self, job_id: JobID, output_id: OutputID) -> Output:
        output = self.tracker.get(output_id)
        if output is None or output.job_id != job_id:
            raise _not_open(output_id)
        return output

    def _refuse_closed(self, output: Output) -> None:
        if not self.tracker.is_tracking(output, OutputState.OPEN):
            raise _not_open(output.output_id)


def write_record(record: OutputRecord, directory: Path) -> None:
    try:
        record.write(directory)
    except OSError as error:
        raise StorageError(str(directory), f"the output can't be published: {error}") from error


def _not_open(output_id: OutputID) -> UnknownDataSetError:
    return UnknownDataSetError(output_id.name, "an output that this job has opened")


def _not_finished(output_id: OutputID) -> UnknownDataSetError:
    return UnknownDataSetError(output_id.name, "a finished output that is not promoted yet")
