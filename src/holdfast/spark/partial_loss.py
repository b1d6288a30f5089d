"""The production of a dataset of which partitions are left: those that are lost, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.spark.production_steps import ProductionSteps
from holdfast.spark.recovery.partial_production import some_partitions
from holdfast.spark.recovery.split_signature import Split, split_of
from holdfast.spark.row_layouts import rows_of_slots
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.row_layout import HashedRows, Remainder, RowLayout, SplitFiles

_FEWEST_PARTITIONS = "spark.sql.adaptive.coalescePartitions.minPartitionNum"


class LostPartitions(ProductionSteps):
    """Produces the rows of the partitions that a dataset has lost, and takes over the others.

    Args:
        spark: the session that runs it.
        storage: where it is kept.
        left: the dataset that has lost partitions.
        layout: which rows each of its partitions holds.
        remainder: what is left of it.
        kept: the datasets that the production may read.

    Source: FLIP-36, "If a Task Manager instance fails"; FLIP-383, "The Whole Workflow of Job
    Recovery", step 4.
    """

    writes_everything = False

    def __init__(
        self,
        spark: SparkSession,
        storage: IntermediateResultStorage,
        left: KeptDataSet,
        layout: RowLayout,
        remainder: Remainder,
        kept: Iterable[KeptDataSet],
    ) -> None:
        super().__init__(storage)
        self._spark = spark
        self._left = left
        self._layout = layout
        self._remainder = remainder
        self._kept = tuple(kept)
        self._split: Split | None = None

    def settings(self) -> Mapping[str, str]:
        by = self._layout.by
        if isinstance(by, SplitFiles):
            # Files are split as they were, whatever the settings and the cores have become.
            return by.settings
        lost = len(self._left.manifest.partitions) - len(self._remainder.partitions)
        # Of a few rows Spark would make as many partitions as of all.
        return {_FEWEST_PARTITIONS: str(lost)}

    def stage(
        self,
        plan: Any,
        session: Any,
        job_id: JobID,
        dataset_id: IntermediateDataSetID,
        description: DataSetDescription,
    ) -> StagedDataSet | KeptDataSet:
        before = self._left.manifest.dataset
        # Of another way to write the computation, columns may be called otherwise.
        same = {"layout": None, "computes": before.computes}
        if description.model_copy(update=same) != before.model_copy(update=same):
            raise StorageError(str(self._left.name), "its columns were kept in another way")
        by = self._layout.by
        if isinstance(by, SplitFiles):
            self._split = split_of(self._spark, plan, self._kept, session=session)
            if self._split is None or self._split.text != by.split:
                raise StorageError(str(self._left.name), "its files are split in another way now")
        return super().stage(plan, session, job_id, dataset_id, description)

    def written(self, plan: Any) -> Any:
        by, slots = self._layout.by, self._remainder.each_slot
        if isinstance(by, HashedRows):
            return rows_of_slots(self._spark, plan, by, slots)
        assert self._split is not None
        return some_partitions(self._spark, self._split, slots)

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
    ) -> KeptDataSet:
        return self._storage.publish_completed(
            staged, description, written, self._left, self._remainder
        )
