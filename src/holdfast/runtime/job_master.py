"""Runs a job: produces what is to be kept, answers, and starts again where kept data was lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Generic, TypeVar

from holdfast.graph.job_graph import JobGraph, JobVertex
from holdfast.graph.job_graph_generator import JobGraphGenerator
from holdfast.graph.transformation import CacheTransformation
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import find_matches
from holdfast.runtime.cache_service_manager import CacheServiceManager, ReadingLease
from holdfast.runtime.execution_graph import ExecutionGraph, VertexOutcome
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.vertex_runner import (
    KeptDataLost,
    NotKeptError,
    SubstitutionRefusedError,
    VertexRunner,
)
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.kept_dataset import KeptDataSet

Q = TypeVar("Q")
D = TypeVar("D")
T = TypeVar("T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRequest(Generic[Q]):
    """A job to be run.

    Attributes:
        name: what the person asked for.
        query: the engine's form of the query.
        root: its canonical plan.
        inputs: the settings that it runs under.
    """

    name: str
    query: Q
    root: CanonicalNode
    inputs: SessionInputs


class JobMaster(Generic[Q, D]):
    """Runs the jobs of one environment. Safe for use by several threads, one job each.

    Args:
        manager: what is cached and what is kept.
        storage: where it lies.
        runner: the engine.
        root_of: the canonical plan of an engine's query.
    """

    def __init__(
        self,
        manager: CacheServiceManager[Q],
        storage: IntermediateResultStorage,
        runner: VertexRunner[Q, D],
        root_of: Callable[[Q], CanonicalNode],
    ) -> None:
        self._manager = manager
        self._storage = storage
        self._runner = runner
        self._root_of = root_of

    def with_runner(
        self, changed: Callable[[VertexRunner[Q, D]], VertexRunner[Q, D]]
    ) -> JobMaster[Q, D]:
        """A master of the same environment whose vertices run in another way.

        Args:
            changed: makes the runner of this master's.
        """
        other = copy(self)
        other._runner = changed(self._runner)
        return other

    def run(
        self,
        request: JobRequest[Q],
        act: Callable[[D], T],
        *,
        before_retry: Callable[[], None] | None = None,
    ) -> tuple[T, JobResult]:
        """Runs a job to its end.

        Where kept data is lost, before the job or while it runs, the impacted datasets are
        invalidated and the original plan is resubmitted once with its caches re-created. Should
        that fail as well, the answer is computed with nothing kept.

        Source: FLIP-36, "If a Task Manager instance fails".

        Args:
            request: what to run.
            act: computes the answer from what it is given.
            before_retry: called before `act` is called another time; what it raises ends the job.

        Returns:
            the answer, and what became of the job.
        """
        with self._job(request) as job:
            return self._run(job, act, before_retry)

    def _run(
        self, job: _Job[Q, D], act: Callable[[D], T], before_retry: Callable[[], None] | None
    ) -> tuple[T, JobResult]:
        while True:
            try:
                with job.attempt() as substituted:
                    answer = job.answer(lambda: act(substituted))
                    # What has been written can't be taken back; the next job finds the damage.
                    if before_retry is None:
                        job.check_read()
                return answer, job.result()
            except KeptDataLost as lost:
                job.lost(lost.damages)
                if job.acted and before_retry is not None:
                    job.reporting("can't be resubmitted", before_retry)
            except SubstitutionRefusedError as refused:
                job.go_without_caches(refused)
                if job.acted and before_retry is not None:
                    before_retry()

    def prepare(self, request: JobRequest[Q]) -> tuple[D, JobResult]:
        """Produces what is to be kept and hands out the rest, to be run by somebody else."""
        answer, result = self.run(request, lambda substituted: substituted)
        return answer, result

    def stream(
        self, request: JobRequest[Q], act: Callable[[D], Iterator[T]]
    ) -> Iterator[tuple[T | None, JobResult | None]]:
        """Like `run` for an answer that comes row by row; the job's result comes last, alone.

        A loss of kept data after the first row is raised: which rows are still to come can't be
        told then. The dataset is invalidated, so the next try computes it again. It takes more than
        the removal of the dataset, though: what is read is pinned where the storage can do that.

        Raises:
            KeptDataLost: when kept data is lost after the first row.
        """
        with self._job(request) as job:
            yield from self._stream(job, act)

    def _stream(
        self, job: _Job[Q, D], act: Callable[[D], Iterator[T]]
    ) -> Iterator[tuple[T | None, JobResult | None]]:
        given = False
        while True:
            try:
                with job.attempt(pinning=True) as substituted:
                    rows = job.answer(lambda: act(substituted))
                    for row in job.watched(rows):
                        given = True
                        yield row, None
                yield None, job.result()
                return
            except KeptDataLost as lost:
                job.lost(lost.damages)
                if given:
                    job.report("has to be run again")
                    raise
            except SubstitutionRefusedError as refused:
                if given:
                    raise
                job.go_without_caches(refused)

    def to_be_kept(self, request: JobRequest[Q]) -> tuple[IntermediateDataSetID, ...]:
        """What a job would leave behind, as it isn't kept yet, in order. Runs nothing."""
        if not self._manager.has_computations():
            return ()
        job, entries = _Job(self, request), self._manager.entries()
        graph = JobGraphGenerator(job.transformation, entries.__contains__).generate(
            job.job_id, request.name, request.root
        )
        return tuple(dataset_id for _, dataset_id in graph.producers())

    @contextmanager
    def _job(self, request: JobRequest[Q]) -> Iterator[_Job[Q, D]]:
        job = _Job(self, request)
        try:
            yield job
        finally:
            self._storage.end_job(job.job_id)

    def substituted(self, request: JobRequest[Q]) -> D:
        """The query with whatever is kept already substituted. Runs nothing."""
        return self._runner.substituted(
            request.query, request.root, self.kept_reads(request.inputs)
        )

    def kept_reads(self, inputs: SessionInputs) -> Callable[[CanonicalNode], KeptDataSet | None]:
        """What could be read at this moment, for showing and handing out plans."""

        def reads(node: CanonicalNode) -> KeptDataSet | None:
            if self._manager.computation(node.digest) is None:
                return None
            dataset_id = IntermediateDataSetID.from_digest(inputs.dataset_digest(node))
            entry = self._manager.entries().get(dataset_id)
            if entry is None or self._storage.damage(entry.kept) is not None:
                return None
            return entry.kept

        return reads


class _Job(Generic[Q, D]):
    """One job on its way, over all of its attempts."""

    _WITH_CACHES = 2

    def __init__(self, master: JobMaster[Q, D], request: JobRequest[Q]) -> None:
        self._master = master
        self._manager = master._manager
        self._runner = master._runner
        self._request = request
        self._execution = ExecutionGraph(JobID.random(), request.name)
        self._started = time.monotonic()
        self._attempts = 0
        self.acted = False
        self._losses: list[str] = []
        self._reported = 0
        self._refused: SubstitutionRefusedError | None = None
        self._graph: JobGraph | None = None
        self._reading: dict[IntermediateDataSetID, KeptDataSet] = {}
        self._transformations: dict[str, CacheTransformation | None] = {}
        self._queries: dict[IntermediateDataSetID, Q] = {}

    @property
    def job_id(self) -> JobID:
        """Identifies the job, over all of its attempts."""
        return self._execution.job_id

    @contextmanager
    def attempt(self, *, pinning: bool = False) -> Iterator[D]:
        """Produces what has to be kept; yields the query with everything kept substituted.

        Args:
            pinning: what the answer is read from is pinned for as long as the attempt lasts.
        """
        self._attempts += 1
        self._transformations.clear()
        with ExitStack() as stack:
            lease = stack.enter_context(self._manager.reading())
            try:
                self._submit(lease)
                assert self._graph is not None
                for vertex, dataset_id in self._graph.producers():
                    self._produce(vertex, dataset_id, lease)
                self._reading = _kept(lease)
                if pinning:
                    self._pin(stack)
                yield self._runner.substituted(
                    self._request.query, self._request.root, self._reads(self._reading)
                )
            except KeptDataLost as lost:
                lease.drop(lost.damages)
                raise

    def _submit(self, lease: ReadingLease) -> None:
        """Makes the job graph; everything in it that is kept already is leased, and whole."""
        damages: dict[IntermediateDataSetID, str] = {}

        def kept(dataset_id: IntermediateDataSetID) -> bool:
            entry = None if dataset_id in damages else lease.acquire(dataset_id)
            if entry is None:
                return False
            damage = self._master._storage.damage(entry.kept)
            if damage is None:
                return True
            damages[dataset_id] = damage
            lease.drop([dataset_id])
            return False

        graph = self._graph = JobGraphGenerator(self.transformation, kept).generate(
            self._execution.job_id, self._request.name, self._request.root
        )
        self._execution.attach(graph)
        self.lost(damages)
        self.report(
            "computes it again"
            if self._attempts <= self._WITH_CACHES
            else "is resubmitted without keeping anything"
        )
        for dataset_id in graph.reads:
            kept_dataset = lease.entries[dataset_id].kept
            self._master._storage.hit(kept_dataset)
            self._available(dataset_id, kept_dataset, VertexOutcome.READ)

    def answer(self, act: Callable[[], T]) -> T:
        """Runs the vertex that answers."""
        assert self._graph is not None
        vertex = self._graph.answering
        self._execution.started(vertex)
        self.acted = True
        try:
            with self._runner.watching(self._reading):
                answer = act()
        except BaseException:
            self._execution.ended(vertex, VertexOutcome.FAILED)
            raise
        self._execution.ended(vertex, VertexOutcome.RUN)
        return answer

    def watched(self, rows: Iterator[T]) -> Iterator[T]:
        """`rows`, with a loss of kept data told as such."""
        with self._runner.watching(self._reading):
            yield from rows
        self.check_read()

    def check_read(self) -> None:
        """Makes sure that what the answer was read from has not been replaced meanwhile.

        Raises:
            KeptDataLost: when it has, in which case the rows may be wrong.
        """
        self._check(self._reading)

    def _check(self, read: Mapping[IntermediateDataSetID, KeptDataSet]) -> None:
        changes = {key: self._master._storage.rewritten(kept) for key, kept in read.items()}
        damages = {key: change for key, change in changes.items() if change is not None}
        if damages:
            raise KeptDataLost(damages)

    def lost(self, damages: Mapping[IntermediateDataSetID, str]) -> None:
        """Notes what has been lost, and invalidated."""
        for dataset_id, damage in damages.items():
            self._execution.lost(dataset_id)
            self._losses.append(f"{dataset_id}: {damage}")

    def report(self, consequence: str) -> None:
        """Logs in one line whatever has been lost since the last report."""
        unreported = self._losses[self._reported :]
        self._reported = len(self._losses)
        if unreported:
            logger.warning(
                "job %s (%s) lost kept data and %s: %s",
                self._execution.job_id,
                self._request.name,
                consequence,
                "; ".join(unreported),
            )

    def go_without_caches(self, refused: SubstitutionRefusedError) -> None:
        """Makes the next attempt one in which nothing is kept and nothing kept is read."""
        self._attempts = self._WITH_CACHES
        self._refused = refused

    def reporting(self, consequence: str, step: Callable[[], None]) -> None:
        """Takes a step towards the next attempt; should it fail, that is the last word."""
        try:
            step()
        except BaseException:
            self.report(consequence)
            raise

    def result(self) -> JobResult:
        """What became of the job."""
        # Had it failed without caches as well, the fault would not have been theirs.
        if self._refused is not None:
            logger.warning(
                "job %s (%s) was run without reading what is kept: %s",
                self._execution.job_id,
                self._request.name,
                self._refused,
            )
        return JobResult(
            self._execution.archive(),
            net_runtime=time.monotonic() - self._started,
            losses=tuple(self._losses),
        )

    def transformation(self, node: CanonicalNode) -> CacheTransformation | None:
        """What keeps a node, where somebody cached the same computation."""
        # Others may cache and invalidate meanwhile; an attempt holds on to what it has seen.
        if node.digest not in self._transformations:
            self._transformations[node.digest] = self._cached(node)
        return self._transformations[node.digest]

    def _cached(self, node: CanonicalNode) -> CacheTransformation | None:
        if self._attempts > self._WITH_CACHES:
            return None
        computation = self._manager.computation(node.digest)
        if computation is None:
            return None
        root = self._master._root_of(computation.query)
        dataset_id = IntermediateDataSetID.from_digest(self._request.inputs.dataset_digest(root))
        self._queries[dataset_id] = computation.query
        return CacheTransformation(dataset_id, root, computation.name)

    def _reads(
        self, reading: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> Callable[[CanonicalNode], KeptDataSet | None]:
        def reads(node: CanonicalNode) -> KeptDataSet | None:
            transformation = self.transformation(node)
            return None if transformation is None else reading.get(transformation.dataset_id)

        return reads

    def _pin(self, stack: ExitStack) -> None:
        """Pins what the answering vertex reads."""
        storage = self._master._storage
        reads = self._reads(self._reading)
        matches = find_matches(self._request.root, lambda node: reads(node) is not None)
        transformations = filter(None, map(self.transformation, list(matches)))
        for dataset_id in dict.fromkeys(each.dataset_id for each in transformations):
            pinned = storage.pin(self._reading[dataset_id])
            if pinned is not None:
                stack.callback(storage.unpin, pinned)
                self._reading[dataset_id] = pinned

    def _produce(
        self, vertex: JobVertex, dataset_id: IntermediateDataSetID, lease: ReadingLease
    ) -> None:
        if self._manager.claim(dataset_id, vertex.plan.digest) is not None:
            entry = lease.acquire(dataset_id)
            if entry is not None:
                self._available(dataset_id, entry.kept, VertexOutcome.READ)
            return
        published = False
        try:
            self._execution.started(vertex)
            reading = _kept(lease)
            with self._runner.watching(reading):
                kept = self._runner.produce(
                    self._queries[dataset_id],
                    self._execution.job_id,
                    dataset_id,
                    vertex.name,
                    self._reads(reading),
                )
            try:
                self._check(reading)
            except KeptDataLost:
                self._master._storage.remove(kept)
                raise
            lease.publish(dataset_id, kept)
            published = True
        except NotKeptError as error:
            logger.warning("%s is not kept: %s", dataset_id, error.reason)
            self._execution.ended(vertex, VertexOutcome.NOT_KEPT, error.reason)
            if error.incomplete:
                self._execution.incomplete(dataset_id)
            return
        except BaseException:
            self._execution.ended(vertex, VertexOutcome.FAILED)
            raise
        finally:
            if not published:
                self._manager.abandon(dataset_id)
        self._available(dataset_id, kept, VertexOutcome.PRODUCED)

    def _available(
        self, dataset_id: IntermediateDataSetID, kept: KeptDataSet, outcome: VertexOutcome
    ) -> None:
        self._execution.available(
            dataset_id, kept.manifest.dataset.computes, outcome, describe_partitions(kept)
        )


def describe_partitions(kept: KeptDataSet) -> tuple[ResultPartitionDescriptor, ...]:
    """Where the partitions of a kept dataset lie."""
    dataset_id = IntermediateDataSetID.from_digest(kept.manifest.dataset.dataset_id)
    return tuple(
        ResultPartitionDescriptor(
            dataset_id,
            partition.index,
            location,
            partition.bytes,
            partition.rows,
        )
        for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True)
    )


def _kept(lease: ReadingLease) -> dict[IntermediateDataSetID, KeptDataSet]:
    return {key: entry.kept for key, entry in lease.entries.items()}
