"""Knows what earlier starts of a job have left to be read, and records what this one does."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta

from holdfast.errors import HoldfastError, StaleEpochError
from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobFinished,
    JobStatus,
)
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.replay import replay
from holdfast.eventstore.store import FLUSH_INTERVAL, WRITE_BUFFER_SIZE
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.execution_events import (
    ExecutionEvent,
    VertexProduced,
    VertexReset,
)
from holdfast.runtime.recovery.coordinators import Coordinators
from holdfast.runtime.recovery.finished_partitions import finished_partitions
from holdfast.runtime.recovery.job_history import JobHistory, VertexHistory
from holdfast.runtime.recovery.job_log import JobLog
from holdfast.runtime.recovery.log_corrections import corrections
from holdfast.runtime.recovery.operator_coordinator import OperatorCoordinator
from holdfast.runtime.recovery.partial_vertex import PartialVertex, partial_vertex
from holdfast.runtime.recovery.partition_progress import PartitionProgress
from holdfast.runtime.recovery.recovered_job import RecoveredJob, RecoveredVertex, decide
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.recovery.snapshot_schedule import MIN_PAUSE
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)

logger = logging.getLogger(__name__)


class JobRecovery:
    """One start of a job that outlives its driver. For use by one thread; `progress` by any.

    `recover` comes first. Then, for each vertex: `whole`, and where that gives nothing `partial`;
    `initialized` before it runs, and `finished` when its dataset has been published, both of which
    it hears of by `notify`. In the end `end`, or `close` where the job is to be recovered later.

    A recovery that fails makes the job begin anew, with one warning. A disk that fails makes it go
    on without recording, with one warning.

    Args:
        start: this start of the job.
        storage: what earlier starts have left.
        write_buffer_size: in bytes; `job-event.store.write-buffer.size`.
        flush_interval: `job-event.store.write-buffer.flush-interval`.
        min_pause: `execution.batch.job-recovery.operator-coordinator-snapshot.min-pause`.
        clock: the time in seconds, which never goes back.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        start: JobStart,
        storage: RecoveryStorage,
        *,
        write_buffer_size: int = WRITE_BUFFER_SIZE,
        flush_interval: timedelta = FLUSH_INTERVAL,
        min_pause: timedelta = MIN_PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._storage = storage
        self._buffer_size = write_buffer_size
        self._flush_interval = flush_interval
        self._coordinators = Coordinators(min_pause, clock)
        self._recovered = RecoveredJob({})
        self._kept: dict[IntermediateDataSetID, KeptDataSet] = {}
        self._unfinished: dict[IntermediateDataSetID, RecoveredVertex] = {}
        self._present: dict[OutputID, frozenset[int]] = {}
        self._progress: dict[IntermediateDataSetID, PartitionProgress] = {}
        self._anew = True
        self._warned = False
        self._opened: JobLog | None = None

    def recover(self) -> RecoveredJob:
        """Replays the events, takes the partitions, and decides what need not run again.

        To be called once, before all else.

        Returns:
            what need not run again; nothing where the job begins anew.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        log = replay(self._start.events_directory)
        for flaw in log.damage:
            logger.debug("job %s: %s", self._start.job_id, flaw)
        history = JobHistory(log.events)
        metrics: dict[ResultPartitionID, PartitionMetrics] = {}
        try:
            # A new job has nothing to ask for.
            if history.vertices:
                metrics = self._take(history)
                self._anew = False
        except StaleEpochError:
            raise
        # Whatever it is: a job that begins anew gives the same rows.
        except Exception as error:
            self._begin_anew(error)
        if self._anew:
            self._open(START, JobHistory())
        else:
            self._open(log.position, history)
        for event in corrections(self._recovered, metrics):
            self._log.record(event)
        return self._recovered

    @property
    def anew(self) -> bool:
        """Whether the job begins anew: it is a new one, or what there was can't be recovered."""
        return self._anew

    @property
    def progress(self) -> Mapping[IntermediateDataSetID, PartitionProgress]:
        """How far each vertex has got that was initialized, by its dataset."""
        return dict(self._progress)

    def notify(self, event: ExecutionEvent) -> None:
        """Records what happens to the vertices of the job.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        match event:
            case ExecutionJobVertexInitialized(
                vertex_id, parallelism, IntermediateDataSetID() as dataset_id, split, output
            ):
                self.initialized(vertex_id, dataset_id, parallelism, split, output)
            case VertexProduced(dataset_id, kept, JobVertexID() as vertex_id):
                self.finished(vertex_id, dataset_id, kept, event.run_subtasks)
            case VertexReset(dataset_id):
                self.lost([dataset_id])

    def whole(self, dataset_id: IntermediateDataSetID) -> KeptDataSet | None:
        """A dataset that need not be computed: of an earlier start, or finished by this one.

        Args:
            dataset_id: which one.

        Returns:
            where it lies; None when it isn't there, or not as one dataset.
        """
        return self._kept.get(dataset_id)

    def partial(
        self, dataset_id: IntermediateDataSetID, split: str, parallelism: int
    ) -> PartialVertex | None:
        """Which subtasks of a vertex are to run, where others need not.

        Args:
            dataset_id: the dataset that it produces.
            split: how its subtasks split the data; empty where that isn't fixed.
            parallelism: how many they are.

        Returns:
            those; None when all are to run, since nothing is there or it is split otherwise.
        """
        vertex = self._unfinished.get(dataset_id)
        if vertex is None or not split:
            return None
        if (vertex.split, vertex.parallelism) != (split, parallelism):
            return None
        partial = partial_vertex(vertex)
        if partial is None:
            return None
        # An output is gone on with as it is: with a partition that doesn't count it is of no use.
        there = self._present.get(partial.salvaged, frozenset())
        return partial if there == set(partial.present) else None

    def coordinate(
        self, dataset_id: IntermediateDataSetID, coordinator: OperatorCoordinator
    ) -> bool:
        """A vertex has a coordinator. Comes before `partial` and `initialized`.

        It is restored from its last snapshot, and told of the subtasks that start again. From now
        on its snapshots are recorded. One that can't take any has its vertex run whole after a
        crash, or not at all.

        Args:
            dataset_id: the dataset that the vertex produces.
            coordinator: of this vertex; in the state of a new one.

        Returns:
            whether it has been restored.
        """
        # What was reset since starts from the beginning.
        recovered = self._unfinished.get(dataset_id)
        try:
            return self._coordinators.add(dataset_id, coordinator, recovered)
        except ValueError as error:
            logger.warning(
                "job %s: can't restore the source of %s; restarting it from the beginning: %s",
                self._start.job_id,
                dataset_id,
                error,
            )
            self._unfinished.pop(dataset_id, None)
            return False

    def initialized(
        self,
        vertex_id: JobVertexID,
        dataset_id: IntermediateDataSetID,
        parallelism: int,
        split: str = "",
        output: OutputID | None = None,
    ) -> bool:
        """A vertex is about to run: after a crash it is known what its partitions are.

        Args:
            vertex_id: the vertex, as this start calls it.
            dataset_id: the dataset that it produces.
            parallelism: how many subtasks it has; any number where that isn't known yet.
            split: how they split the data; empty where that isn't fixed.
            output: what its subtasks write to, where all of them run, each the partition of its own
                number. Without it no part of that is salvaged after a crash. None where only the
                missing ones run.

        Returns:
            whether that is on disk.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        self._check()
        is_coordinated = self._coordinators.has(dataset_id)
        snapshot = self._coordinators.initialized(dataset_id)
        if is_coordinated and snapshot is None:
            split = ""
        partial = self.partial(dataset_id, split, parallelism)
        if partial is None:
            self._unfinished.pop(dataset_id, None)
        done = 0 if partial is None or output is not None else parallelism - len(partial.missing)
        self._log.record(
            ExecutionJobVertexInitialized(
                vertex_id, parallelism, dataset_id, split, output, snapshot
            )
        )
        self._progress[dataset_id] = PartitionProgress(dataset_id, parallelism, done, done)
        return self._log.flush()

    def finished(
        self,
        vertex_id: JobVertexID,
        dataset_id: IntermediateDataSetID,
        kept: KeptDataSet,
        run_subtasks: Collection[int] | None = None,
    ) -> None:
        """A vertex's dataset has been published.

        Args:
            vertex_id: the vertex, as this start calls it.
            dataset_id: the dataset that it produces.
            kept: where it lies, its partitions by the numbers of the subtasks.
            run_subtasks: which subtasks have run; None: all.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            ValueError: when the dataset has no name.
        """
        self._check()
        partitions = finished_partitions(kept)
        if partitions is None:
            raise ValueError(f"dataset {dataset_id} has no name by which to find it again")
        vertex = self._decided(vertex_id, dataset_id, partitions.number)
        number = vertex.parallelism
        run = set(range(number) if run_subtasks is None else run_subtasks)
        # Partitions that were salvaged may be known by another output now.
        moved = {
            subtask
            for subtask in partitions.metrics
            if vertex.finished.get(subtask) != partitions.output
        }
        subtasks = sorted(each for each in run | moved if each < number)
        for subtask in subtasks:
            last = subtask == subtasks[-1]
            snapshot = self._coordinators.finished(dataset_id, subtask)
            metrics = partitions.metrics.get(subtask)
            output = None if metrics is None else partitions.output
            self._log.record(
                ExecutionVertexFinished(
                    vertex_id, subtask, vertex.executions - 1, output, metrics, snapshot
                ),
                cut=last,
            )
        self._kept[dataset_id] = kept
        self._unfinished.pop(dataset_id, None)
        recovered = 0 if run_subtasks is None else number - len(run)
        self._progress[dataset_id] = PartitionProgress(dataset_id, number, number, recovered)

    def lost(self, dataset_ids: Iterable[IntermediateDataSetID]) -> None:
        """Datasets are damaged or gone: their vertices run again, all of each.

        Args:
            dataset_ids: which; unknown ones are passed over.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        self._check()
        for dataset_id in dataset_ids:
            self._kept.pop(dataset_id, None)
            self._unfinished.pop(dataset_id, None)
            vertex = self._log.history.vertices.get(dataset_id)
            if vertex is None:
                continue
            subtasks = tuple(range(vertex.parallelism))
            self._log.record(ExecutionVertexReset(vertex.vertex_id, subtasks), cut=True)
            self._coordinators.reset(dataset_id, subtasks)
            self._progress[dataset_id] = PartitionProgress(dataset_id, vertex.parallelism, 0, 0)

    def end(self, status: JobStatus) -> None:
        """The job has ended: nothing of it is to be recovered.

        Args:
            status: how it ended.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        self._check()
        self._log.record(JobFinished(status), cut=True)
        self._log.flush()
        self._log.clear()
        self._kept.clear()
        self._unfinished.clear()

    def close(self) -> None:
        """Stops recording; what there is stays, for the next start. Safe to call again."""
        if self._opened is not None:
            self._opened.stop()

    @property
    def _log(self) -> JobLog:
        if self._opened is None:
            raise RuntimeError("recording events requires a preceding call of recover()")
        return self._opened

    def _take(self, history: JobHistory) -> dict[ResultPartitionID, PartitionMetrics]:
        outputs = self._storage.recovered_outputs()
        tracked = self._storage.get_all_partition_with_metrics()
        whole = {name: each.kept for name, each in outputs.items() if each.kept is not None}
        self._present = {name: each.present for name, each in outputs.items()}
        recovered = decide(history, tracked, whole)
        for dataset_id, vertex in recovered.by_dataset.items():
            if vertex.whole is not None:
                self._kept[dataset_id] = whole[vertex.whole]
            elif vertex.finished:
                self._unfinished[dataset_id] = vertex
            done = len(vertex.finished)
            self._progress[dataset_id] = PartitionProgress(
                dataset_id, vertex.parallelism, done, done
            )
        self._recovered = recovered
        return {each.partition_id: each.metrics for each in tracked}

    def _begin_anew(self, why: Exception) -> None:
        logger.warning(
            "job %s cannot be resumed; rerunning from scratch: %s: %s",
            self._start.job_id,
            type(why).__name__,
            why,
        )
        self._recovered = RecoveredJob({})
        for found in (self._kept, self._unfinished, self._progress):
            found.clear()
        try:
            self._start.take_fresh_epoch()
        except StaleEpochError:
            raise
        except (OSError, HoldfastError) as error:
            # A log that begins anew needs none.
            logger.debug("job %s continues in its epoch: %s", self._start.job_id, error)

    def _open(self, position: LogPosition, history: JobHistory) -> None:
        self._opened = JobLog(
            self._start.events_directory,
            self._start.epoch,
            position,
            history,
            self._buffer_size,
            self._flush_interval,
        )

    def _decided(
        self,
        vertex_id: JobVertexID,
        dataset_id: IntermediateDataSetID,
        number: int,
    ) -> VertexHistory:
        """The vertex, with the parallelism that it turned out to have where nothing fixes it."""
        vertex = self._log.history.vertices.get(dataset_id)
        if vertex is not None and vertex.vertex_id == vertex_id and vertex.split:
            return vertex
        if vertex is None or vertex.vertex_id != vertex_id or vertex.parallelism != number:
            self._log.record(ExecutionJobVertexInitialized(vertex_id, number, dataset_id))
        return self._log.history.vertices[dataset_id]

    def _check(self) -> None:
        try:
            self._start.check()
        except StaleEpochError:
            raise
        except (OSError, HoldfastError) as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "job %s continues without checking its epoch: %s", self._start.job_id, error
                )
