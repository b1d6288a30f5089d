"""The one interface behind which kept results lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from holdfast.ids import IntermediateDataSetID
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet


class IntermediateResultStorage(ABC):
    """Keeps the partitions of datasets. Safe for use by several threads.

    Source: FLIP-36, "Step 1: Execute JOB_1" and phase 2.
    """

    @abstractmethod
    def stage(self, dataset_id: IntermediateDataSetID) -> Path:
        """A new directory for Spark's writer, invisible to readers until it is published.

        Raises:
            StorageError: when it can't be made.
        """

    @abstractmethod
    def publish(self, staged: Path, description: DataSetDescription) -> KeptDataSet:
        """Makes a fully written directory visible, in one atomic step.

        Raises:
            StorageError: when it can't be; what was staged is then still to be discarded.
        """

    @abstractmethod
    def discard(self, staged: Path) -> None:
        """Removes what was staged and not published; what can't be removed is garbage."""

    @abstractmethod
    def damage(self, kept: KeptDataSet) -> str | None:
        """What is wrong with a dataset, told from its directory without reading rows."""

    @abstractmethod
    def rewritten(self, kept: KeptDataSet) -> str | None:
        """Which partition holds other rows than were published, as far as its directory tells.

        To be asked by who has read it to the end: what is gone by then was there to be read.
        """

    @abstractmethod
    def remove(self, kept: KeptDataSet) -> None:
        """Removes a dataset; what can't be removed is garbage."""

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
    def close(self) -> None:
        """Releases everything that this application kept. Does nothing the second time."""
