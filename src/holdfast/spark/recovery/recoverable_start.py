"""One start of a job that is recovered, from taking over what there is to letting go of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from py4j.protocol import Py4JError
from pydantic import JsonValue
from pyspark.sql import SparkSession

from holdfast.errors import (
    HoldfastError,
    MixedInputsError,
    SinkError,
    StaleEpochError,
    StorageError,
)
from holdfast.eventstore.events import JobStatus
from holdfast.graph.plan_cuts import CutLimits
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import JobID
from holdfast.runtime.job_master import JobRequest
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.job_sink import JobSink, SinkStart
from holdfast.runtime.recovery.recorded_progress import RecordedProgress
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.sinks.taken_back import take_back
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.optimized_query import OptimizedQueries
from holdfast.spark.recovery.blocking_vertices import BlockingVertices
from holdfast.spark.recovery.job_engine import JobEngine
from holdfast.spark.recovery.planned_cuts import PlannedCuts
from holdfast.spark.recovery.recovering_vertex_runner import RecoveringVertexRunner
from holdfast.spark.recovery.recovery_settings import RecoverySettings
from holdfast.spark.recovery.retained_shuffles import RetainedShuffles, is_retainable
from holdfast.spark.recovery.run_inputs import RunInputs
from holdfast.spark.recovery.source_snapshot import SourcesChanged, SourceSnapshots
from holdfast.spark.recovery.task_dealing import TaskDealing, task_dealing

logger = logging.getLogger(__name__)

StorageOf = Callable[[JobID, int, Collection[str]], RecoveryStorage]
"""Where the partitions of a job's start are kept: given the job, the epoch, and the names of the
task executors that may hold some of earlier starts."""


class RecoverableStart:
    """One start of a job that is recovered.

    Args:
        start: its record and its epoch.
        storage_of: where its partitions are kept.
        settings: how it is recovered.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(self, start: JobStart, storage_of: StorageOf, settings: RecoverySettings) -> None:
        self.start = start
        self._storage_of = storage_of
        self._settings = settings
        self._storage: RecoveryStorage | None = None
        self._recovery: JobRecovery | None = None
        self._shuffles: RetainedShuffles | None = None

    def with_sources(
        self,
        request: JobRequest[Query],
        snapshots: SourceSnapshots,
        inputs: RunInputs,
        sinks: Sequence[JobSink],
    ) -> JobRequest[Query]:
        """The job over the files that its first start listed, whatever has come since.

        Where these aren't there any more as they were, or other jobs of the run are done again
        from what is there now, the job starts anew.

        Args:
            request: the job.
            snapshots: takes and restores what plans read.
            inputs: those of the program's run.
            sinks: where the rows go.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            MixedInputsError: when it can neither read what other jobs have, nor these be done
                again.
        """
        previous = self.start.previous
        if previous is not None and previous.sources is not None and not self.start.changed:
            reason = inputs.change(request.query, previous)
            restored = snapshots.restore(request.query, previous.sources)
            if isinstance(restored, SourcesChanged):
                if sinks and not inputs.does_again():
                    raise MixedInputsError(request.name, restored.reason)
                self.begin_again(restored.reason, request.name, sinks)
            elif reason is not None and inputs.is_done_again():
                self.begin_again(reason, request.name, sinks)
            else:
                if reason is not None and sinks:
                    logger.warning(
                        "job %s (%s) and the following jobs read the files of the earlier start: "
                        "%s; the next run of the program reads the current files",
                        self.start.job_id,
                        request.name,
                        reason,
                    )
                    inputs.keep_first(previous)
                return replace(request, query=restored, root=restored.root)
        elif sinks:
            query = inputs.over_first(request.query, request.name)
            request = replace(request, query=query, root=query.root)
        listed: list[JsonValue] = [*snapshots.snapshot(request.query)]
        self.start.update(sources=listed)
        return request

    def begin_again(self, reason: str, name: str, sinks: Sequence[JobSink]) -> None:
        """Nothing that was left of the job counts any more, and what it has written is replaced.

        Args:
            reason: why, for people.
            name: of the job, for people.
            sinks: where the rows go.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            MixedInputsError: when what it has written can't be taken back.
        """
        logger.warning(
            "job %s is rerun from scratch and replaces its earlier output: %s",
            self.start.job_id,
            reason,
        )
        start = SinkStart(self.start.job_id, self.start.epoch, self.start.journal)
        try:
            for sink in sinks:
                sink.settle(start)
            # First: what counts as done from now on is not what is there.
            take_back(self.start.journal)
        except (SinkError, StorageError, OSError) as error:
            raise MixedInputsError(name, f"{reason}; {error}") from error
        self.start.take_fresh_epoch()

    def runner(
        self,
        engine: JobEngine,
        queries: OptimizedQueries,
        request: JobRequest[Query],
        planned: PlannedCuts | None,
        *,
        written: bool,
    ) -> RecoveringVertexRunner | None:
        """The engine that reads what earlier starts have left; None where nothing can be kept.

        Args:
            engine: what jobs are run with.
            queries: reads what Spark is about to run.
            request: the job.
            planned: where its query is cut, if that is known.
            written: whether the answer's rows go to a sink.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        previous = self.start.previous
        known = () if previous is None else previous.task_executors
        try:
            self._storage = self._storage_of(self.start.job_id, self.start.epoch, known)
        except StaleEpochError:
            raise
        except HoldfastError as error:
            logger.warning(
                "job %s continues without keeping results for recovery: %s",
                self.start.job_id,
                error,
            )
            return None
        self._shuffles = self._retained(engine.spark, self._storage)
        limits = self._limits()
        if planned is not None and limits is not None:
            planned = planned.by(limits, queries)
        dealing = self._dealing(engine, request, planned)
        self.start.update(
            dealing=dealing.settings,
            task_executors=self._storage.known_executors,
            shuffles=None if self._shuffles is None else self._shuffles.directory_here,
        )
        self._recovery = JobRecovery(
            self.start,
            self._storage,
            write_buffer_size=self._settings.write_buffer_size,
            flush_interval=self._settings.flush_interval,
            min_pause=self._settings.snapshot_min_pause,
        )
        recovery = self._recovery
        recovery.recover()
        request.listeners.add(recovery)
        request.listeners.add(RecordedProgress(self.start, lambda: recovery.progress))
        vertices = BlockingVertices(
            engine.spark,
            engine.keeping(self._storage),
            self._storage,
            recovery,
            self.start.job_id,
            self._shuffles,
            self.start.check,
            request.listeners,
            dealing,
        )
        return RecoveringVertexRunner(
            engine,
            self._storage,
            queries,
            vertices,
            self._shuffles,
            request.inputs,
            limits,
            planned,
            dealing,
            written,
        )

    def _retained(self, spark: SparkSession, storage: RecoveryStorage) -> RetainedShuffles | None:
        if not is_retainable(spark, spans_machines=storage.spans_machines):
            return None
        directory = storage.shuffle_directory()
        if directory is None:
            return None
        # A job's first start has nothing to look for.
        hosts = () if self.start.previous is None else storage.hosts
        return RetainedShuffles.of(spark, directory, hosts)

    def _limits(self) -> CutLimits | None:
        """Where plans are worth cutting, by what turned out to be kept beside the cuts."""
        limits = self._settings.limits
        if limits is None:
            return None
        keeps = self._shuffles is not None and self._shuffles.keeps_all
        return replace(limits, keeps_shuffles=keeps)

    def _dealing(
        self, engine: JobEngine, request: JobRequest[Query], planned: PlannedCuts | None
    ) -> TaskDealing:
        """By which settings the job's data is dealt to tasks: those of its first start."""
        if planned is None:
            return TaskDealing()
        effort = planned.cut.effort
        previous = self.start.previous
        if previous is not None and previous.dealing is not None:
            return TaskDealing(previous.dealing, effort.files_make_partitions)
        return task_dealing(engine.spark, request.inputs, effort, self._settings.task_time)

    def end(self, status: JobStatus, *, keep_record: bool) -> bool:
        """The job has ended: nothing of it is to be recovered, and its partitions go.

        Args:
            status: how it has ended.
            keep_record: whether it stays on record that it has, for as long as the program runs.

        Returns:
            whether it is on record: a later start will know without asking the sink.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        self._stop_retaining()
        try:
            if self._recovery is not None:
                self._recovery.end(status)
            if self._storage is not None:
                self._storage.release_all()
        except StaleEpochError:
            raise
        except (HoldfastError, OSError):
            # It goes when the retention is over.
            logger.warning(
                "can't release the partitions of job %s", self.start.job_id, exc_info=True
            )
        # The last step: a job that ends half-way is one that goes on.
        return self.start.end(status, keep=keep_record)

    def let_go(self) -> None:
        """This process has nothing to do with the job any more; another start may go on with it."""
        self._stop_retaining()
        if self._recovery is not None:
            self._recovery.close()
        if self._storage is not None:
            self._storage.leave()
        self.start.let_go()

    def _stop_retaining(self) -> None:
        try:
            if self._shuffles is not None:
                self._shuffles.close()
        except (Py4JError, OSError):
            # Spark is gone, and keeps nothing any more.
            logger.debug("shuffle files were retained until Spark stopped")
