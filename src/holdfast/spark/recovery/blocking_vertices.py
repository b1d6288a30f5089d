"""The vertices that a job is cut into: each result is kept until the job ends, and found again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import find_matches
from holdfast.plan.summary import summarize
from holdfast.runtime.execution_events import (
    VertexEnded,
    VertexProduced,
    VertexRecovered,
    VertexReset,
    VertexStarted,
)
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.runtime.vertex_runner import KeptDataLost, NotKeptError, Production
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.optimized_query import Cut
from holdfast.spark.recovery.retained_shuffles import RetainedShuffles
from holdfast.spark.recovery.task_dealing import TaskDealing
from holdfast.spark.recovery.vertex_production import VertexProduction
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.storage.kept_dataset import KeptDataSet

logger = logging.getLogger(__name__)


class BlockingVertices:
    """Runs vertices and keeps what comes out as job partitions, where no earlier start has.

    Args:
        spark: the session.
        runner: the engine, over `storage`.
        storage: outlives the driver.
        recovery: what earlier starts have left.
        job_id: the job.
        shuffles: keeps what their shuffles write; None where that can't be kept.
        check: raises when a newer start of the job has taken over.
        listeners: hear what happens to the vertices.
        dealing: by which settings their data is dealt to tasks.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        spark: SparkSession,
        runner: SparkVertexRunner,
        storage: RecoveryStorage,
        recovery: JobRecovery,
        job_id: JobID,
        shuffles: RetainedShuffles | None,
        check: Callable[[], None],
        listeners: ExecutionListeners,
        dealing: TaskDealing,
    ) -> None:
        self._spark = spark
        self._runner = runner
        self._storage = storage
        self._recovery = recovery
        self.job_id = job_id
        self._shuffles = shuffles
        self._check = check
        self.listeners = listeners
        self._dealing = dealing
        self._kept: dict[IntermediateDataSetID, KeptDataSet] = {}
        self.losses = 0

    @property
    def kept(self) -> tuple[KeptDataSet, ...]:
        """Those results that are there."""
        return tuple(self._kept.values())

    def substituted(self, query: Query, cuts: Iterable[Cut], inputs: SessionInputs) -> DataFrame:
        """The query with its vertices' results read; those that aren't there are run first.

        Args:
            query: an optimized query.
            cuts: where it is cut.
            inputs: the settings that it runs under.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            SubstitutionRefusedError: when Spark doesn't take the plan.
        """
        needed = _Needed(self, cuts, inputs)
        needed.provide(query.root, below_root=False)
        return self._runner.substituted(query, query.root, needed.reads)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Tells errors inside that come from reading the vertices' results from others.

        What is lost is forgotten: its vertex runs again when it is needed.

        Raises:
            KeptDataLost: instead of an error that comes from the loss of one of them, or where the
                rows that were read may be others than were kept.
        """
        try:
            with self._runner.watching(self._kept):
                yield
                self._check_read()
        except KeptDataLost as lost:
            self.losses += 1
            for dataset_id in lost.damages:
                if self._kept.pop(dataset_id, None) is not None:
                    self.listeners.publish(VertexReset(dataset_id))
            raise

    def _check_read(self) -> None:
        changes = {key: self._storage.rewritten(kept) for key, kept in self._kept.items()}
        damages = {key: change for key, change in changes.items() if change is not None}
        if damages:
            raise KeptDataLost(damages)

    def available(self, dataset_id: IntermediateDataSetID) -> KeptDataSet | None:
        """A result that is there already."""
        kept = self._kept.get(dataset_id)
        if kept is None:
            kept = self._recovery.whole(dataset_id)
            if kept is not None:
                self._kept[dataset_id] = kept
                self.listeners.publish(VertexRecovered(dataset_id, kept))
        return kept

    def run(
        self,
        production: Production[Query],
        prepare: Callable[[Any], Any] = lambda plan: plan,
        *,
        stays: bool = False,
    ) -> KeptDataSet:
        """Runs a vertex.

        Args:
            production: what it computes, whosever job it is of.
            prepare: cuts the JVM's plan of it further.
            stays: whether the result is kept beyond the job.

        Returns:
            where its result lies.

        Raises:
            NotKeptError: when it can't be kept.
            StaleEpochError: when a newer start of the job has taken over.
        """
        query, dataset_id = production.query, production.dataset_id
        reads = _read_by(production)
        self.listeners.publish(VertexStarted(dataset_id, production.name, reads))
        vertex_id = JobVertexID.random()
        retained = None
        if self._shuffles is not None:
            retained = self._shuffles.query(
                dataset_id.hex, self._kept.values(), query.reading.operators
            )
        root, dealing = query.root, self._dealing
        dealt = dealing.of_kept(root) if stays else dealing.of_vertex(root)
        steps = VertexProduction(
            self._spark,
            self._storage,
            self._recovery,
            self.listeners.publish,
            vertex_id,
            dataset_id,
            self._kept.values,
            prepare,
            dealt if retained is None else {**dealt, **retained.settings},
            root.ambiguous,
        )
        try:
            with self.watching():
                kept = self._runner.keep(replace(production, job_id=self.job_id), steps=steps)
        except NotKeptError:
            # It may be that a newer start has taken the place where it was to be kept.
            self._check()
            raise
        self._kept[dataset_id] = kept
        self.listeners.publish(
            VertexProduced(
                dataset_id,
                kept,
                vertex_id,
                recovered=steps.recovered,
                recovered_tasks=None if retained is None else retained.recovered(),
                run_subtasks=steps.run_subtasks,
            )
        )
        return kept


def _read_by(production: Production[Query]) -> tuple[IntermediateDataSetID, ...]:
    """The datasets that a production reads instead of computing them."""
    read = production.reads
    nodes = find_matches(
        production.query.root, lambda node: read(node) is not None, below_root=True
    )
    found = [kept.manifest.dataset.dataset_id for kept in map(read, nodes) if kept is not None]
    return tuple(map(IntermediateDataSetID.from_digest, dict.fromkeys(found)))


class _Needed:
    """The vertices of one plan, each provided before what reads it."""

    def __init__(
        self, vertices: BlockingVertices, cuts: Iterable[Cut], inputs: SessionInputs
    ) -> None:
        self._vertices = vertices
        self._cuts = {cut.node.digest: cut for cut in cuts}
        self._inputs = inputs
        self._kept: dict[str, KeptDataSet] = {}

    def reads(self, node: CanonicalNode) -> KeptDataSet | None:
        """Where a node's rows lie, if they have been provided."""
        return self._kept.get(node.digest)

    def provide(self, root: CanonicalNode, *, below_root: bool) -> None:
        """Makes sure that the topmost vertices of a plan are there, as far as they can be kept."""
        topmost = find_matches(root, lambda node: node.digest in self._cuts, below_root=below_root)
        for digest in dict.fromkeys(node.digest for node in topmost):
            if digest in self._kept:
                continue
            cut = self._cuts[digest]
            dataset_id = IntermediateDataSetID.from_digest(self._inputs.dataset_digest(cut.node))
            kept = self._vertices.available(dataset_id)
            if kept is None:
                self.provide(cut.node, below_root=True)
                kept = self._run(cut, dataset_id)
            if kept is not None:
                self._kept[digest] = kept
                continue
            # Whoever reads it computes it, from what could be kept below.
            del self._cuts[digest]
            self.provide(root, below_root=below_root)
            return

    def _run(self, cut: Cut, dataset_id: IntermediateDataSetID) -> KeptDataSet | None:
        name = summarize(cut.node)
        vertices = self._vertices
        production = Production(
            cut.query,
            self._inputs,
            vertices.job_id,
            dataset_id,
            name,
            self.reads,
            vertices.listeners,
        )
        try:
            return vertices.run(production)
        except NotKeptError as error:
            logger.warning("the result of %s is not kept: %s", name, error.reason)
            vertices.listeners.publish(
                VertexEnded(dataset_id, VertexOutcome.NOT_KEPT, error.reason)
            )
            return None
