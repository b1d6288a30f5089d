"""Runs jobs that outlive their driver: each start goes on with what the earlier ones have left."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import MixedInputsError, StaleEpochError, StorageError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.runtime.job_master import JobMaster, JobRequest
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.recovery.job_sink import JobSink, SinkStart, write_once
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.failures import is_cancelled
from holdfast.spark.plans.optimized_query import OptimizedQueries
from holdfast.spark.recovery.ended_program import has_raised
from holdfast.spark.recovery.job_digest import job_digest
from holdfast.spark.recovery.job_engine import JobEngine
from holdfast.spark.recovery.planned_cuts import PlannedCuts
from holdfast.spark.recovery.recoverable_start import RecoverableStart, StorageOf
from holdfast.spark.recovery.recovery_settings import RecoverySettings
from holdfast.spark.recovery.run_inputs import RunInputs
from holdfast.spark.recovery.source_snapshot import SourceSnapshots
from holdfast.spark.recovery.started_job import StartedJob, done_before
from holdfast.spark.recovery.stream_identity import StreamIdentity

T = TypeVar("T")

logger = logging.getLogger(__name__)


class RecoverableJobs:
    """Runs the jobs of an environment whose jobs are recovered. Safe for use by several threads.

    A job with nothing to recover, which is neither cut nor written, is run as if there were no
    recovery.

    Args:
        engine: what jobs are run with.
        master: runs jobs.
        storage_of: where the partitions of a start are kept.
        records: where jobs are recorded.
        settings: how they are recovered.
        on_end: called once the program has ended, and no next start goes on with it.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        engine: JobEngine,
        master: JobMaster[Query, DataFrame],
        storage_of: StorageOf,
        records: HighAvailabilityStorage,
        settings: RecoverySettings,
        on_end: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._master = master
        self._storage_of = storage_of
        self._records = records
        self._settings = settings
        self._on_end = on_end
        self._queries = OptimizedQueries(engine.spark, engine.bridge)
        self._snapshots = SourceSnapshots(engine.spark, engine.bridge)
        self._inputs = RunInputs(self._snapshots, records.done_jobs)
        self._owner = os.getpid()
        self._interrupted = False
        self._unrecorded: list[tuple[Sequence[JobSink], SinkStart]] = []
        self._failed: list[tuple[RecoverableStart, JobStatus]] = []
        self._occurrences: Counter[tuple[str, str, str | None]] = Counter()
        self._lock = threading.RLock()
        # A program that ends by itself has not been killed, whether it closes anything or not.
        atexit.register(self.close)

    def run(
        self,
        request: JobRequest[Query],
        act: Callable[[DataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
    ) -> tuple[T, JobResult]:
        """Runs a job whose answer goes back to the program, see `JobMaster.run`.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        with self.started(request) as job:
            return job.master.run(job.request, act, before_retry=before_retry)

    def write(
        self, request: JobRequest[Query], act: Callable[[DataFrame, str], object], sink: JobSink
    ) -> JobResult:
        """Runs a job whose rows go to a sink, exactly once over all of its starts.

        Args:
            request: what to run.
            act: writes rows to a path.
            sink: where they go.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            SinkError: when the target can't be written.
        """
        with self.started(request, sinks=[sink]) as job:
            return _written(job, act, sink)

    def stream(
        self, request: JobRequest[Query], act: Callable[[DataFrame], Iterator[T]]
    ) -> Iterator[tuple[T | None, JobResult | None]]:
        """Like `run` for an answer that comes row by row, see `JobMaster.stream`."""
        with self.started(request) as job:
            yield from job.master.stream(job.request, act)

    @contextmanager
    def started(
        self,
        request: JobRequest[Query],
        *,
        sinks: Sequence[JobSink] = (),
        stream: StreamIdentity | None = None,
    ) -> Iterator[StartedJob]:
        """Begins a job, or goes on with it; ends it, unless another start can go on with it.

        Args:
            request: what to run.
            sinks: where its rows go; none where they go back to the program.
            stream: what the job is known by, where it is one of streams, whose vertices are marked
                already.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        begun = self._begun(request, "; ".join(each.identity for each in sinks) or None, stream)
        if begun is None:
            job = StartedJob.unrecorded(request, self._master)
            yield job
            _forget(sinks, job.sink_start)
            return
        recoverable, planned = begun
        record = recoverable.start
        request = replace(request, job_id=record.job_id)
        if record.already_done and not self._is_done_again(recoverable, request, sinks):
            sink_start = SinkStart(record.job_id, record.epoch, record.journal)
            yield StartedJob(request, self._master, sink_start, record.check, already_done=True)
            _forget(sinks, sink_start)
            return
        with self._lasting(recoverable, sinks):
            try:
                restored, master = self._prepared(recoverable, request, planned, sinks)
            except (StaleEpochError, MixedInputsError):
                raise
            except Exception:
                logger.warning(
                    "job %s (%s) cannot be resumed; rerunning from scratch",
                    record.job_id,
                    request.name,
                    exc_info=True,
                )
                restored, master = request, self._master
            # Of the epoch that it has by now.
            sink_start = SinkStart(record.job_id, record.epoch, record.journal)
            yield StartedJob(restored, master, sink_start, record.check)

    def close(self) -> None:
        """The program ends: that its jobs have ended need not be known any more.

        Does nothing the second time, and nothing in a process that was forked off.
        """
        atexit.unregister(self.close)
        if os.getpid() == self._owner:
            interrupted = (
                self._interrupted
                or self._has_lost_jvm()
                or (self._settings.after_errors and has_raised())
            )
            with self._lock:
                unrecorded, self._unrecorded = self._unrecorded, []
                failed, self._failed = self._failed, []
            for recoverable, status in failed:
                if interrupted:
                    recoverable.let_go()
                else:
                    self._end(recoverable, status)
            for sinks, start in () if interrupted else unrecorded:
                _forget(sinks, start)
            if self._records.close(interrupted=interrupted):
                self._on_end()

    def _begun(
        self, request: JobRequest[Query], sink: str | None, stream: StreamIdentity | None
    ) -> tuple[RecoverableStart, PlannedCuts | None] | None:
        """A start of the job; None where there is nothing to recover, or no way to do so."""
        planned = None
        if stream is None:
            planned = self._planned(request)
            vertices = self._vertices(request, planned)
            if sink is None and not vertices and not self._retains(planned):
                return None
            digest = job_digest(self._engine.bridge, request.query, request.inputs)
        else:
            digest, vertices = stream.digest, stream.vertices
        identity = self._identity(request.name, digest, sink, vertices)
        if identity is None:
            logger.warning(
                "job %s can't be recovered, as it would not be recognized after a restart: %s. "
                "Name the program by the key pipeline.name",
                request.name,
                "; ".join(map(str, request.root.reasons())),
            )
            return None
        try:
            start = self._records.begin(identity, request.name)
        except StorageError as error:
            logger.warning("job %s continues unrecorded: %s", request.name, error)
            return None
        settings = self._settings
        if stream is not None:
            settings = replace(settings, limits=None)
        return RecoverableStart(start, self._storage_of, settings), planned

    def _retains(self, planned: PlannedCuts | None) -> bool:
        """Whether what a job's shuffles write is kept, if nothing else is."""
        return planned is not None and planned.cut.retains and planned.limits.keeps_shuffles

    def _planned(self, request: JobRequest[Query]) -> PlannedCuts | None:
        limits = self._settings.limits
        assert limits is not None
        cut = self._queries.cut(request.query.plan, request.inputs, limits)
        return None if cut is None else PlannedCuts(request.query, cut, limits)

    def _vertices(self, request: JobRequest[Query], planned: PlannedCuts | None) -> tuple[str, ...]:
        """The datasets that a table's job is cut at, and those that it is to leave behind."""
        cuts = () if planned is None else planned.cut.cuts
        cut = [request.inputs.dataset_digest(each.node) for each in cuts]
        return tuple(dict.fromkeys(cut + [each.hex for each in self._master.to_be_kept(request)]))

    def _identity(
        self, action: str, digest: str | None, sink: str | None, vertices: tuple[str, ...]
    ) -> JobIdentity | None:
        """What a job is known by; None where nothing tells it."""
        name = self._settings.name
        known_by = name or digest
        if known_by is None:
            return None
        with self._lock:
            occurrence = self._occurrences[known_by, action, sink]
            self._occurrences[known_by, action, sink] += 1
        return JobIdentity(
            digest=digest,
            name=name,
            occurrence=occurrence,
            action=action,
            sink=sink,
            vertices=vertices,
        )

    def _is_done_again(
        self, recoverable: RecoverableStart, request: JobRequest[Query], sinks: Sequence[JobSink]
    ) -> bool:
        """Whether a job that an earlier start of the program has done is done again."""
        start = recoverable.start
        what = (
            f"job {start.job_id} ({request.name}) was completed by an earlier run of this program"
        )
        assert start.previous is not None
        try:
            reason = self._inputs.change(request.query, start.previous)
            if reason is not None and self._inputs.does_again():
                recoverable.begin_again(reason, request.name, sinks)
                return True
        except (StaleEpochError, MixedInputsError):
            self._let_go(recoverable)
            raise
        except Exception:
            logger.warning(
                "can't determine whether the inputs of job %s have changed",
                start.job_id,
                exc_info=True,
            )
            reason = None
        if reason is None:
            logger.warning("%s, which was killed before it ended; not rerunning it", what)
            return False
        logger.warning(
            "%s from other inputs (%s). It can't be rerun, because its output can't be "
            "distinguished from other rows or has been read by the program: the remaining jobs "
            "read the files of the earlier run. Run the program once more to process the others",
            what,
            reason,
        )
        return False

    def _prepared(
        self,
        recoverable: RecoverableStart,
        request: JobRequest[Query],
        planned: PlannedCuts | None,
        sinks: Sequence[JobSink],
    ) -> tuple[JobRequest[Query], JobMaster[Query, DataFrame]]:
        """The job over its first start's files, and what runs it over what there is of it."""
        restored = recoverable.with_sources(request, self._snapshots, self._inputs, sinks)
        previous = recoverable.start.previous
        has_left = previous is not None and bool(previous.known_datasets())
        vertices = recoverable.start.identity.vertices
        if planned is not None and not (vertices or has_left or self._retains(planned)):
            return restored, self._master
        runner = recoverable.runner(
            self._engine, self._queries, restored, planned, written=bool(sinks)
        )
        if runner is None:
            return restored, self._master
        return restored, self._master.with_runner(lambda _: runner)

    @contextmanager
    def _lasting(self, recoverable: RecoverableStart, sinks: Sequence[JobSink]) -> Iterator[None]:
        """Ends the job, unless it can be gone on with by another start."""
        try:
            yield
        except (StaleEpochError, MixedInputsError):
            # What the program has done so far is not to be done again.
            self._let_go(recoverable)
            raise
        except Exception as error:
            if self._is_lost():
                self._let_go(recoverable)
            else:
                self._fail(recoverable, is_cancelled=is_cancelled(error))
            raise
        except BaseException:
            self._fail(recoverable, is_cancelled=True)
            raise
        if not sinks:
            self._end(recoverable, JobStatus.FINISHED)
            return
        start = recoverable.start
        sink_start = SinkStart(start.job_id, start.epoch, start.journal)
        try:
            recorded = recoverable.end(JobStatus.FINISHED, keep_record=True)
        except StaleEpochError:
            self._let_go(recoverable)
            raise
        if recorded:
            _forget(sinks, sink_start)
        else:
            # As long as the program runs, a start that takes over has nothing else to go by.
            with self._lock:
                self._unrecorded.append((sinks, sink_start))

    def _fail(self, recoverable: RecoverableStart, *, is_cancelled: bool) -> None:
        status = JobStatus.CANCELED if is_cancelled else JobStatus.FAILED
        if self._settings.after_errors:
            # How the program ends says whether its next start goes on with the job.
            with self._lock:
                self._failed.append((recoverable, status))
        else:
            self._end(recoverable, status)

    def _end(self, recoverable: RecoverableStart, status: JobStatus) -> None:
        try:
            recoverable.end(status, keep_record=False)
        except StaleEpochError as error:
            # What there is to be said of the job, its answer or its error, is said all the same.
            logger.warning("%s", error)
            self._let_go(recoverable)

    def _let_go(self, recoverable: RecoverableStart) -> None:
        self._interrupted = True
        recoverable.let_go()

    def _has_lost_jvm(self) -> bool:
        """Whether Spark's process is gone, other than by being told to stop."""
        try:
            jvm: Any = self._engine.spark._jvm
            jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return True
        return False

    def _is_lost(self) -> bool:
        """Whether Spark is gone, which is no fault of the job's."""
        try:
            return bool(self._engine.spark.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):
            return True


def _forget(sinks: Iterable[JobSink], start: SinkStart) -> None:
    for sink in sinks:
        sink.forget(start)


def _written(job: StartedJob, act: Callable[[DataFrame, str], object], sink: JobSink) -> JobResult:
    """Runs a job over its sink, unless an earlier start has written all of it."""
    results: list[JobResult] = []

    def write(path: str) -> None:
        attempts = 0

        def write_anew(dataframe: DataFrame) -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                sink.clear()
            act(dataframe, path)

        _, result = job.master.run(job.request, write_anew)
        results.append(result)

    if not job.already_done and write_once(sink, job.sink_start, job.check, write):
        return results[0]
    return done_before(job)
