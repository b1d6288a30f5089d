"""What a job master asks of a task executor, in the same process or over the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import (
    Count,
    Index,
    Metric,
    OutputID,
    ResultPartitionID,
)
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim

Seconds = Annotated[float, Field(gt=0)]
Version = Annotated[str, Field(max_length=200)]
CatalogIdentity = Annotated[str, Field(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True)
class TaskExecutorDescription:
    """Which task executor this is.

    Attributes:
        executor_id: the same for as long as its directory lives.
        incarnation: another one with each start.
        version: of Holdfast.
        host: the name or address under which it is reached; Spark prefers it for tasks that read.
        directory: the directory on its machine that it keeps partitions in.
    """

    executor_id: str
    incarnation: str
    version: str
    host: str
    directory: str


@dataclass(frozen=True, slots=True)
class Registration:
    """What an application is told when it registers.

    Attributes:
        incarnation: of the task executor that accepted it.
        read_root: the URL under which Spark reads `<output>/<file>` of this application.
    """

    incarnation: str
    read_root: str


@dataclass(frozen=True, slots=True)
class CatalogHolding:
    """What whoever rebuilds a catalog has to know of an output that is held for one.

    Attributes:
        catalog: the identity of the one that it is held for; None where that isn't known.
        dataset: what it is.
        result: what lies beside it for the rebuilding; None where that can't be read.
    """

    catalog: str | None
    dataset: DataSetDescription
    result: str | None


@dataclass(frozen=True, slots=True)
class DataSetReport:
    """What one task executor holds of one output, promoted.

    Attributes:
        application: whose it is.
        output: which production of which dataset.
        computes: the computation in a few words.
        created: when it was promoted, in ISO 8601.
        partitions: those that lie here, by index.
        number_of_partitions: of the whole dataset, on all executors.
        hits: how often jobs have read it, as its application told.
        executor_id: the executor that reports.
        host: where that runs.
        directory: the directory there that the partitions lie in.
        holding: of what the catalog holds, where the report is of that alone; else None.
        ambiguous: several answers are right, of which it is one.
    """

    application: ApplicationID
    output: OutputID
    computes: str
    created: str
    partitions: tuple[KeptPartition, ...]
    number_of_partitions: Count
    hits: Metric
    executor_id: str
    host: str
    directory: str
    holding: CatalogHolding | None = None
    ambiguous: bool = False

    @property
    def bytes(self) -> int:
        """The size of the partitions that lie here."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def rows(self) -> int:
        """The number of rows in the partitions that lie here."""
        return sum(partition.rows for partition in self.partitions)


class TaskExecutorGateway(Protocol):
    """A task executor as a job master sees it. Safe for use by several threads.

    Every call may raise TaskExecutorUnreachableError where the executor is another process, and
    UnknownApplicationError once the application's lease has lapsed or the executor has been
    started again without what it kept. A call that raises has changed nothing, unless said so.

    Source: FLINK-12612, "General Idea"; FLIP-36, steps 1 to 3.
    """

    def describe(self) -> TaskExecutorDescription:
        """Which executor this is."""

    def register_application(
        self, application: ApplicationID, lease_seconds: Seconds, version: Version
    ) -> Registration:
        """Makes the application known; it is dropped when no heartbeat comes for its lease.

        An application whose datasets this executor has found at its start, and that has not
        registered since, may register again and has them back.

        Args:
            application: its id.
            lease_seconds: how long it lives without a heartbeat.
            version: of the Holdfast that calls.

        Raises:
            DuplicateRegistrationError: when it is registered.
            VersionMismatchError: when the versions differ.
        """

    def register_recovery(
        self,
        application: ApplicationID,
        claim: RecoveryClaim,
        lease_seconds: Seconds,
        version: Version,
    ) -> Registration:
        """Makes a start of a job known, and the newest one of it: it has what earlier ones had.

        From then on no earlier start is known here, nor what its tasks write. A start that the
        executor has found when it started again, and that has not registered since, may register
        again.

        Args:
            application: that of the start, `claim.application`.
            claim: the start.
            lease_seconds: how long it and what it keeps live without a heartbeat.
            version: of the Holdfast that calls.

        Raises:
            StaleEpochError: when a newer start is known, or this one has ended the job.
            DuplicateRegistrationError: when it is registered.
            MalformedRequestError: when the application is another one.
            VersionMismatchError: when the versions differ.
            StorageError: when what earlier starts have left can't be taken over.

        Source: FLIP-383, "The Whole Workflow of Job Recovery".
        """

    def recovered(self, application: ApplicationID) -> tuple[RecoveredOutput, ...]:
        """What lies here of a job: published outputs, and the partitions of half-done ones.

        Outputs that tasks of this very start are writing are not among them.

        Raises:
            UnknownApplicationError: also for an application that recovers no job.

        Source: FLIP-383, `ShuffleMaster.getAllPartitionWithMetrics`.
        """

    def open_shuffles(self, application: ApplicationID) -> str:
        """The directory where map tasks of a start of a job leave what they write for its shuffles.

        It is made, if it isn't there, and has what earlier starts have left. Tasks link their files
        there, so that it must be on the file system of Spark's own.

        Args:
            application: that of the start.

        Returns:
            its path on this machine.

        Raises:
            UnknownApplicationError: also for an application that recovers no job.
            StorageError: when it can't be made.

        Source: FLIP-383: the result partitions of blocking edges outlive the job master.
        """

    def heartbeat(self, application: ApplicationID, hits: Mapping[OutputID, Metric]) -> str:
        """Renews the lease.

        Args:
            application: whose lease.
            hits: how often jobs have read each output in all; others keep what they have.

        Returns:
            the executor's incarnation.
        """

    def unregister_application(self, application: ApplicationID) -> None:
        """Releases everything of the application at once. Does nothing for an unknown one."""

    def register_job(self, application: ApplicationID, job_id: JobID) -> None:
        """Marks a job as active: what its tasks finish is kept.

        Raises:
            DuplicateRegistrationError: when the job is active.
        """

    def open_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        part: OutputPart | None = None,
    ) -> str:
        """Makes the directory that Spark's tasks write the output's partitions to.

        The job holds a slot until the output is finished or has failed.

        Args:
            application: whose output.
            job_id: the job that produces it.
            output: which output.
            part: where the tasks make only some partitions of another output of a job that is
                recovered: which. Partitions then count by their places in that one.

        Returns:
            the directory's path on the executor's machine.

        Raises:
            UnknownJobError: when the job is not active.
            DuplicateRegistrationError: when there is such an output.
            MalformedRequestError: when the part is of another dataset, or no job is recovered.
            StorageError: when the directory can't be made.
        """

    def finish_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        indices: Sequence[Index] | None,
        number_of_partitions: Count | None,
    ) -> tuple[KeptPartition, ...]:
        """Takes the partitions that the tasks have left over: the executor's to release from now.

        Args:
            application: whose output.
            job_id: the job that produced it.
            output: which output.
            indices: the partitions that are to lie here; files of others come from attempts that
                don't count and are removed. None: whatever lies there.
            number_of_partitions: of the whole dataset. None: up to the last one that lies here.

        Returns:
            the partitions by index.

        Raises:
            UnknownJobError: when the job is not active.
            UnknownDataSetError: when the output is not open.
            MalformedRequestError: when an index is given twice, or is beyond the number.
            UnknownPartitionError: when a partition of `indices` does not lie here; the output
                stays open.
            StorageError: when what lies there can't be read; the output stays open.
        """

    def fail_output(self, application: ApplicationID, job_id: JobID, output: OutputID) -> None:
        """Gives up an output: what was written or finished of it goes. Nothing for an unknown one.

        An output that has been promoted stays.
        """

    def link_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        source_application: ApplicationID,
        partitions: Sequence[ResultPartitionID],
        numbers: Sequence[Index] | None = None,
    ) -> None:
        """Takes what lies here of a published dataset into an open output.

        No row is copied: each side keeps what it has for as long as it wants, whatever becomes of
        the other. The output is still to be finished and promoted.

        Args:
            application: whose output.
            job_id: the job that keeps it.
            output: which output.
            source_application: whose partitions these are: another one's, a job's that it is
                recovered from, or its own.
            partitions: of outputs of that one, of the same dataset.
            numbers: for each of them its index in the output; None: each keeps its own.

        Raises:
            UnknownJobError: when the job is not active.
            UnknownDataSetError: when the output is not open; when the other application is not
                registered here, or one of its outputs has not been promoted, or is released.
            UnknownPartitionError: when one of the partitions does not lie here.
            MalformedRequestError: when there are none, a partition or an index is given twice,
                there aren't as many numbers, a partition is of another dataset, or the output makes
                a part of another one.
            StorageError: when they aren't as they were published, or can't be linked.

        Source: FLIP-36, "Step 1: Execute JOB_1": what is cached outlives the job; FLIP-383: what
        the job is recovered from goes with it.
        """

    def promote(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication | None = None,
    ) -> None:
        """Makes an output's job partitions cluster partitions, which outlive the job.

        Its directory appears among the datasets by one rename.

        Args:
            application: whose output.
            job_id: the job that produced it.
            output: which output.
            manifest: describes the partitions that lie here, as `finish_output` returned them.
            publication: which publishing it belongs to, where a later start of the job may find it.

        Raises:
            UnknownDataSetError: when the output is not finished, or promoted already.
            UnknownPartitionError: when the manifest's partitions are not those of the output, or
                there are none.
            MalformedRequestError: when the manifest is another dataset's.
            StorageError: when it can't be published; its partitions are still the job's.
        """

    def promote_recovered(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication,
    ) -> None:
        """Publishes what an earlier start has left of an output, beside what it now is a part of.

        One that was published before belongs to the new publishing from then on.

        Args:
            application: the start that has it now.
            job_id: a job of that, which uses it.
            output: which output.
            manifest: describes the partitions that lie here, as `recovered` returned them.
            publication: which publishing it belongs to.

        Raises:
            UnknownJobError: when the job is not active.
            UnknownDataSetError: when no earlier start has left such an output.
            UnknownPartitionError: when the manifest's partitions are not those that lie here.
            MalformedRequestError: when the manifest is another dataset's, or a partition of it is
                beyond their number.
            StorageError: when it can't be published, or isn't as it was found.
        """

    def hold_output(
        self,
        application: ApplicationID,
        output: OutputID,
        catalog: CatalogIdentity,
        result: str,
    ) -> None:
        """Holds what lies here of a promoted output for the catalog as well.

        No row is copied. It is then an output of `CATALOG_APPLICATION` too, and stays until that
        releases it, or the catalog doesn't record it any more; a row of the catalog has to announce
        it before.

        Args:
            application: whose output.
            output: which output.
            catalog: the identity of the catalog that records it.
            result: what is to lie beside it, for whoever has to rebuild the catalog.

        Raises:
            HoldingRefusedError: when the executor has no catalog, or another one.
            UnknownDataSetError: when no such output has been promoted, or it has been released.
            DuplicateRegistrationError: when it is held already.
            StorageError: when it isn't as it was published, or can't be linked.

        Source: FLIP-36, phase 2: results outlive the application in an external place.
        """

    def change_catalog(self, output: OutputID, catalog: CatalogIdentity) -> None:
        """Holds what is held for one catalog for another one instead, which records it by now.

        Args:
            output: which output.
            catalog: the identity of the catalog that records it.

        Raises:
            HoldingRefusedError: when the executor has no catalog.
            UnknownDataSetError: when no such output is held.
            StorageError: when that can't be noted beside it.
        """

    def release_outputs(self, application: ApplicationID, outputs: Sequence[OutputID]) -> None:
        """Releases the cluster partitions of outputs, and what was recovered of half-done ones.

        Unknown outputs are no error.
        """

    def end_job(self, application: ApplicationID, job_id: JobID) -> None:
        """Marks a job as inactive and releases what it still has. Nothing for an unknown job."""

    def damage(self, application: ApplicationID, output: OutputID) -> str | None:
        """What is wrong with a promoted output, told from its directory without reading rows.

        Raises:
            UnknownDataSetError: when no such output has been promoted, or it has been released.
        """

    def report(self, application: ApplicationID | None) -> tuple[DataSetReport, ...]:
        """The promoted outputs that lie here.

        Args:
            application: only its own; None for those of all applications.
        """
