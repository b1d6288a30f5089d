"""Runs the vertices of a job that is recovered: what an earlier start had finished is read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import LocationsIncompleteError, StorageError
from holdfast.graph.plan_cuts import CutLimits
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.execution_events import TasksRecovered
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.vertex_runner import NotKeptError, Production, Reads
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.optimized_query import CutQuery, OptimizedQueries
from holdfast.spark.recovery.blocking_vertices import BlockingVertices
from holdfast.spark.recovery.job_engine import JobEngine
from holdfast.spark.recovery.planned_cuts import PlannedCuts
from holdfast.spark.recovery.retained_shuffles import RetainedQuery, RetainedShuffles
from holdfast.spark.recovery.task_dealing import TaskDealing
from holdfast.spark.spark_vertex_runner import is_observed
from holdfast.storage.kept_dataset import KeptDataSet

logger = logging.getLogger(__name__)

# As often as a job is resubmitted over lost data before it goes on without keeping any.
_LOSSES = 2


class RecoveringVertexRunner:
    """The engine of one start of a job that is recovered, see `VertexRunner`.

    What Spark is about to run is cut into vertices first; the result of each is kept until the job
    ends, or was kept by an earlier start already.

    Args:
        engine: runs what is left of a plan, and keeps what is to outlive the job.
        storage: where the vertices' results are kept until the job ends.
        queries: reads what Spark is about to run.
        vertices: has the vertices' results.
        shuffles: keeps what the answer's shuffles write; None where that can't be kept.
        inputs: the settings that the job runs under.
        limits: where plans are worth cutting; None where they are not cut.
        planned: where the job's own query is cut, if that is known.
        dealing: by which settings the answer's data is dealt to tasks.
        written: as many files are written as the answer has partitions.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        engine: JobEngine,
        storage: RecoveryStorage,
        queries: OptimizedQueries,
        vertices: BlockingVertices,
        shuffles: RetainedShuffles | None,
        inputs: SessionInputs,
        limits: CutLimits | None,
        planned: PlannedCuts | None,
        dealing: TaskDealing,
        written: bool,
    ) -> None:
        self._runner = engine.runner
        self._shared_with = engine.storage
        self._bridge = engine.bridge
        self._storage = storage
        self._queries = queries
        self._vertices = vertices
        self._shuffles = shuffles
        self._answer: RetainedQuery | None = None
        self._inputs = inputs
        self._limits = limits
        self._planned = planned
        self._dealing = dealing
        self._written = written

    def substituted(self, query: Query, root: CanonicalNode, reads: Reads) -> DataFrame:
        """The query with everything kept read instead of computed, and cut into vertices.

        The vertices below it are run, where no earlier start has.

        Raises:
            SubstitutionRefusedError: when Spark doesn't take the plan.
            StaleEpochError: when a newer start of the job has taken over.
        """
        noted = _NotedReads(reads)
        frame = self._runner.substituted(query, root, noted)
        planned = self._planned
        if planned is not None and planned.asked is query and not noted.kept:
            frame = self._with_vertices(frame, planned.cut)
        else:
            frame = self._cut(frame, noted)
        return self._retained(frame, query, root, noted)

    def produce(self, production: Production[Query]) -> KeptDataSet:
        """Computes a query and keeps its result beyond the job, see `VertexRunner.produce`."""
        noted = _NotedReads(production.reads)

        def prepare(plan: Any) -> Any:
            frame = self._cut(self._bridge.dataframe(plan), noted)
            return frame._jdf.queryExecution().analyzed()

        kept = self._vertices.available(production.dataset_id)
        if kept is None:
            kept = self._vertices.run(replace(production, reads=noted), prepare, stays=True)
        try:
            return self._storage.link_into(kept, self._shared_with, production.job_id)
        except LocationsIncompleteError as error:
            raise NotKeptError(Why.FAILED.of(error), incomplete=True) from error
        except StorageError as error:
            raise NotKeptError(Why.FAILED.of(error)) from error

    @contextmanager
    def watching(self, kept: Mapping[IntermediateDataSetID, KeptDataSet]) -> Iterator[None]:
        """Tells errors that come from lost data from those of the query, see `VertexRunner`."""
        with self._runner.watching(kept), self._vertices.watching():
            yield
        if self._answer is not None:
            self._vertices.listeners.publish(TasksRecovered(self._answer.recovered()))

    def answering(
        self, name: str, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> AbstractContextManager[None]:
        """Tells what an answer is read from, see `VertexRunner`."""
        return self._runner.answering(name, kept)

    def may_be_answered(self, error: Exception) -> bool:
        """Whether a failed production may be gone without, see `VertexRunner`."""
        return self._runner.may_be_answered(error)

    def _retained(
        self, frame: DataFrame, query: Query, root: CanonicalNode, noted: _NotedReads
    ) -> DataFrame:
        """The query with its shuffles kept; the very one where they can't be told from others."""
        # Who observes it waits for what Spark reports in the person's own session.
        if self._shuffles is None or root.all_doubts() or is_observed(root):
            return frame
        kept = (*noted.kept, *self._vertices.kept)
        answer = self._shuffles.query(
            self._inputs.dataset_digest(root), kept, query.reading.operators
        )
        try:
            dealt = self._dealing.of_answer(root, written=self._written)
            retaining = self._shuffles.over(frame, answer, self._inputs, dealt)
        except Py4JError:
            logger.warning("can't retain the shuffle files of a job", exc_info=True)
            return frame
        self._answer = answer
        return retaining

    def _cut(self, frame: DataFrame, noted: _NotedReads) -> DataFrame:
        """The query with its vertices read; the very one where it isn't cut."""
        if self._limits is None:
            return frame
        analyzed = frame._jdf.queryExecution().analyzed()
        cut = self._queries.cut(analyzed, self._inputs, self._limits, noted.kept)
        return frame if cut is None else self._with_vertices(frame, cut)

    def _with_vertices(self, frame: DataFrame, cut: CutQuery) -> DataFrame:
        lost_too_often = self._vertices.losses >= _LOSSES
        if lost_too_often or not cut.cuts or not _puts_out_the_same(frame, cut.query):
            return frame
        return self._vertices.substituted(cut.query, cut.cuts, self._inputs)


class _NotedReads:
    """Reads, and remembers what was read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._kept: dict[str, KeptDataSet] = {}

    def __call__(self, node: CanonicalNode) -> KeptDataSet | None:
        kept = self._reads(node)
        if kept is not None:
            self._kept[kept.manifest.dataset.dataset_id] = kept
        return kept

    @property
    def kept(self) -> tuple[KeptDataSet, ...]:
        """What was found to be kept."""
        return tuple(self._kept.values())


def _puts_out_the_same(frame: DataFrame, query: Query) -> bool:
    """Whether columns have the same names and types, apart from what is known not to be null."""
    optimized = query.plan.schema().asNullable()
    return bool(frame._jdf.schema().asNullable().equals(optimized))
