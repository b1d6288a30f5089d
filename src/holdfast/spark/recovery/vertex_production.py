"""How a vertex's result is produced so that the next start of its job can go on with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from holdfast.eventstore.events import ExecutionJobVertexInitialized
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.hashing import hash_parts
from holdfast.runtime.execution_events import ExecutionEvent
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.partial_vertex import PartialVertex
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.spark.production_steps import ProductionSteps
from holdfast.spark.recovery.partial_production import some_partitions
from holdfast.spark.recovery.split_signature import Split, split_of
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID


class VertexProduction(ProductionSteps):
    """One run of a vertex: of those partitions that an earlier start hasn't left.

    It is on record where its subtasks write before the first one does.

    Args:
        spark: the session that runs it.
        storage: outlives the driver.
        recovery: what earlier starts have left.
        publish: tells whoever listens, who records it, that the subtasks are about to run.
        vertex_id: this run of the vertex.
        dataset_id: what it produces.
        kept: the datasets that it may read.
        prepare: cuts its plan further.
        settings: what is set while it runs.
        ambiguous: several answers are right.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", steps 1, 2 and 4.
    """

    writes_everything = False

    def __init__(
        self,
        spark: SparkSession,
        storage: RecoveryStorage,
        recovery: JobRecovery,
        publish: Callable[[ExecutionEvent], None],
        vertex_id: JobVertexID,
        dataset_id: IntermediateDataSetID,
        kept: Callable[[], Collection[KeptDataSet]],
        prepare: Callable[[Any], Any],
        settings: Mapping[str, str],
        ambiguous: bool,
    ) -> None:
        super().__init__(storage)
        self._spark = spark
        self._recoverable = storage
        self._recovery = recovery
        self._publish = publish
        self._vertex_id = vertex_id
        self._dataset_id = dataset_id
        self._kept = kept
        self._prepare = prepare
        self._settings = settings
        self._ambiguous = ambiguous
        self._split: Split | None = None
        self._partial: PartialVertex | None = None
        self._coordinator = FileSplitCoordinator()

    @property
    def run_subtasks(self) -> Sequence[int] | None:
        """Which subtasks have run; None: all."""
        return None if self._partial is None else self._partial.missing

    @property
    def recovered(self) -> int:
        """How many partitions an earlier start had left."""
        return 0 if self._partial is None else len(self._partial.present)

    def prepared(self, plan: Any) -> Any:
        return self._prepare(plan)

    def stage(
        self,
        plan: Any,
        session: Any,
        job_id: JobID,
        dataset_id: IntermediateDataSetID,
        description: DataSetDescription,
    ) -> StagedDataSet | KeptDataSet:
        # Which rows a task has depends on all others, where these are in order.
        if not description.is_ordered:
            split = split_of(
                self._spark,
                plan,
                self._kept(),
                ambiguous=self._ambiguous,
                session=session,
            )
            # Files whose columns are called otherwise don't belong together.
            columns = tuple(each.model_dump_json() for each in description.columns)
            self._split = split and replace(split, text=hash_parts(split.text, columns))
        split = self._split
        if split is not None:
            self._coordinator.deal(split.settings, split.assignment)
            self._partial = self._recovery.partial(dataset_id, split.text, split.parallelism)
        partial = self._partial
        if split is None or partial is None:
            staged = super().stage(plan, session, job_id, dataset_id, description)
            self._record(dataset_id, staged)
            return staged
        self._record(dataset_id, None)
        if not partial.missing:
            return self._recoverable.publish_salvaged(
                job_id, partial.salvaged, description, split.parallelism
            )
        return self._recoverable.stage_missing(
            job_id, partial.salvaged, partial.missing, split.parallelism
        )

    def written(self, plan: Any) -> Any:
        split = self._split
        if split is None or (self._partial is None and not split.broadcasts):
            return plan
        subtasks = range(split.parallelism) if self._partial is None else self._partial.missing
        return some_partitions(self._spark, split, subtasks)

    def settings(self) -> Mapping[str, str]:
        # Its files are dealt to its subtasks as the earlier start has dealt them.
        self._recovery.coordinate(self._dataset_id, self._coordinator)
        return {**self._settings, **self._coordinator.settings}

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
    ) -> KeptDataSet:
        number = None
        if self._split is not None and self._partial is None:
            number = self._split.parallelism
        return self._recoverable.publish(staged, description, written, number_of_partitions=number)

    def _record(
        self, dataset_id: IntermediateDataSetID, staged: StagedDataSet | KeptDataSet | None
    ) -> None:
        split = self._split
        self._publish(
            ExecutionJobVertexInitialized(
                self._vertex_id,
                1 if split is None else split.parallelism,
                dataset_id,
                "" if split is None else split.text,
                OutputID.parse(staged.name) if isinstance(staged, StagedDataSet) else None,
            )
        )
