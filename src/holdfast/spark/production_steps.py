"""The steps of a production that may be done in another way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet


class ProductionSteps:
    """How a plan becomes a kept dataset: all of it is written, and published by itself.

    Attributes:
        writes_everything: whether what is written is all of the dataset, by the query's own plan,
            so that nobody knows its partitions by their indices yet.

    Args:
        storage: where it is kept.
    """

    writes_everything = True

    def __init__(self, storage: IntermediateResultStorage) -> None:
        self._storage = storage

    def prepared(self, plan: Any) -> Any:
        """The plan to be run in place of the JVM's `plan`, with the same rows."""
        return plan

    def stage(
        self,
        plan: Any,
        session: Any,
        job_id: JobID,
        dataset_id: IntermediateDataSetID,
        description: DataSetDescription,
    ) -> StagedDataSet | KeptDataSet:
        """Where the partitions of the prepared plan are to be written.

        Args:
            plan: the JVM's plan.
            session: the JVM's session that runs it.
            job_id: whose vertex it is.
            dataset_id: what the result is.
            description: how it is kept.

        Returns:
            that; or the dataset itself, where nothing is left to be written.

        Raises:
            StorageError: when there is no such place.
        """
        return self._storage.stage(job_id, dataset_id)

    def written(self, plan: Any) -> Any:
        """The plan whose rows are written: those of the prepared plan, or of a part of it."""
        return plan

    def settings(self) -> Mapping[str, str]:
        """What is set while they are written, beside the person's own settings."""
        return {}

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
    ) -> KeptDataSet:
        """Makes what was written visible.

        Raises:
            LocationsIncompleteError: when the location of some partition can't be collected.
            StorageError: when it can't be published.
        """
        return self._storage.publish(staged, description, written)
