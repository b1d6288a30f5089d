"""The one interface behind which kept results lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.row_layout import Remainder


@dataclass(frozen=True, slots=True)
class StagedDataSet:
    """A dataset that is being written.

    Attributes:
        job_id: the job that writes it, as the storage knows it.
        dataset_id: what it is the result of.
        name: of this production of it, `<dataset>-<attempt>`.
        location: where Spark's tasks write their partitions: a path, each on its own machine.
    """

    job_id: JobID
    dataset_id: IntermediateDataSetID
    name: str
    location: str

    @property
    def directory(self) -> Path:
        """The location of a dataset that is written on this machine."""
        return Path(self.location)


@dataclass(frozen=True, slots=True)
class WrittenPartition:
    """What a task that has ended well says of the partition it wrote.

    Attributes:
        index: which subtask it was.
        host: the machine that it ran on, as Spark calls it.
        rows: how many rows it wrote.
    """

    index: int
    host: str
    rows: int


class IntermediateResultStorage(ABC):
    """Keeps the partitions of datasets. Safe for use by several threads.

    A dataset is there when its manifest is: partitions are put where they stay first, and the
    manifest last, or all of them by one rename where the place knows such a thing.

    Source: FLIP-36, "Step 1: Execute JOB_1" and phase 2.
    """

    @property
    @abstractmethod
    def spans_machines(self) -> bool:
        """Whether `publish` has to be told which machine each partition was written on."""

    @abstractmethod
    def stage(self, job_id: JobID, dataset_id: IntermediateDataSetID) -> StagedDataSet:
        """A new directory for Spark's writer, invisible to readers until it is published.

        Raises:
            StorageError: when it can't be made.
        """

    @abstractmethod
    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None = None,
    ) -> KeptDataSet:
        """Makes a fully written dataset visible, in one atomic step.

        Args:
            staged: what has been written.
            description: what it is.
            written: what the tasks say, where the storage spans machines.

        Raises:
            LocationsIncompleteError: when the location of some partition can't be collected.
            StorageError: when it can't be published; it is then still to be discarded.
        """

    @abstractmethod
    def discard(self, staged: StagedDataSet) -> None:
        """Removes what was staged and not published; what can't be removed is garbage."""

    @abstractmethod
    def end_job(self, job_id: JobID) -> None:
        """A job has ended: what it has staged and not published goes. Nothing for an unknown one.

        Source: FLINK-12612, "General Idea".
        """

    @abstractmethod
    def damage(self, kept: KeptDataSet) -> str | None:
        """What is wrong with a dataset, told without reading rows."""

    def intact(self, kept: KeptDataSet) -> frozenset[int]:
        """The indices of a dataset's partitions that are as they were published.

        Told without reading rows, but by more than `damage` goes by. Where the storage doesn't
        know of partitions one by one, there are none.
        """
        return frozenset()

    def publish_completed(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
        left: KeptDataSet,
        remainder: Remainder,
    ) -> KeptDataSet:
        """Makes what is left of a dataset visible together with what was written for the rest.

        Like `publish`, in one atomic step. What is left stays where it is, too: its files have
        second names, and no row is copied.

        Args:
            staged: the rows that were missing.
            description: what it is.
            written: what the tasks say, where the storage spans machines.
            left: a dataset with a layout that has lost partitions.
            remainder: what is left of it.

        Raises:
            LocationsIncompleteError: when the location of some partition can't be collected.
            StorageError: when there are more rows than are missing, or fewer; when what is left
                isn't as it was published any more; when it can't be published. It is then still to
                be discarded.
        """
        raise StorageError(staged.location, "its partitions can't be taken over one by one")

    @abstractmethod
    def rewritten(self, kept: KeptDataSet) -> str | None:
        """Which partition holds other rows than were published, as far as its place tells.

        To be asked by who has read it to the end: what is gone by then was there to be read.
        """

    @abstractmethod
    def remove(self, kept: KeptDataSet) -> None:
        """Removes a dataset, wherever parts of it lie; what can't be removed is garbage."""

    @abstractmethod
    def pin(self, kept: KeptDataSet) -> KeptDataSet | None:
        """The same partitions in a place of their own, where the removal of `kept` leaves them.

        Returns:
            what is to be unpinned in the end; None when they can't be had twice without a copy.
        """

    @abstractmethod
    def unpin(self, pinned: KeptDataSet) -> None:
        """Removes what `pin` gave; what can't be removed is garbage."""

    @abstractmethod
    def hit(self, kept: KeptDataSet) -> None:
        """Notes that a job reads a dataset."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything that this application kept. Does nothing the second time."""
