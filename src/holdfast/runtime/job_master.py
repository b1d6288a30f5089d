"""Runs a job: produces what is to be kept, answers, and starts again where kept data was lost."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from holdfast.catalog.cataloged_result import MadeFrom
from holdfast.catalog.near_misses import AskedFor
from holdfast.graph.job_graph import JobGraph, JobVertex
from holdfast.graph.job_graph_generator import JobGraphGenerator
from holdfast.graph.transformation import TableCacheTransformation
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_version import FileVersion
from holdfast.plan.outline import outline
from holdfast.plan.reasons import Reason, Why, sentences
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import find_matches
from holdfast.plan.summary import summarize
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.execution_events import (
    DataSetLost,
    LocationsIncomplete,
    PartitionsAvailable,
    VertexEnded,
    VertexMissed,
    VertexRead,
    VertexStarted,
)
from holdfast.runtime.execution_graph import ExecutionGraph
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.failed_productions import FailedProductions
from holdfast.runtime.handed_out import HandedOutReads
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.on_the_way import OnTheWay, PassFailedError, kept_on_the_way
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.result_book import Claim, KeptResult, ProductionFacts, ReadingLease
from holdfast.runtime.verification import Verification
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.runtime.vertex_runner import (
    HandingOutRunner,
    KeptDataLost,
    NotKeptError,
    Production,
    SubstitutionRefusedError,
    VertexRunner,
)
from holdfast.runtime.wanted import CachedComputation
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.kept_dataset import KeptDataSet

Q = TypeVar("Q")
D = TypeVar("D")
T = TypeVar("T")

# What passes of streams are made of: it puts rows where the plan, and the layout below, have them.
_DISTRIBUTES_AS_SAID = frozenset(
    {"MapInArrow", "Project", "Repartition", "RepartitionByExpression", "Union"}
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRequest(Generic[Q]):
    """A job to be run.

    Attributes:
        name: what the person asked for.
        query: the engine's form of the query.
        root: its canonical plan.
        inputs: the settings that it runs under.
        takes_all_rows: what computes the answer asks for all rows of the query, in whatever session
            it is; and when that fails, it can be done again.
        is_repeatable: what computes the answer can be run again, whatever it has failed with.
            Otherwise nothing is read that this program hasn't asked to be kept.
        as_written: what `query` stands for, where that is another query with the same rows.
        is_awaited: somebody waits for the answer, and not for what is deferred.
        job_id: identifies the job, over all of its starts.
        listeners: hear what happens to it.
    """

    name: str
    query: Q
    root: CanonicalNode
    inputs: SessionInputs
    takes_all_rows: bool = False
    is_repeatable: bool = True
    as_written: Q | None = None
    is_awaited: bool = True
    job_id: JobID = field(default_factory=JobID.random)
    listeners: ExecutionListeners = field(default_factory=ExecutionListeners)

    @property
    def reads_unasked(self) -> bool:
        """Whether it may read what this program hasn't asked to be kept.

        Where what the query asks readers for decides which rows they give, something kept in it has
        them asked for something else. Of what the program has cached, that is expected.
        """
        return self.is_repeatable and not self.root.scan_sensitive


@dataclass(frozen=True, slots=True)
class HandOut:
    """A plan that goes to where its jobs aren't seen.

    Attributes:
        name: identifies it.
        is_run_later: its tables are listed again each time that it is run.
    """

    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_run_later: bool = False


class JobMaster(Generic[Q, D]):
    """Runs the jobs of one environment. Safe for use by several threads, one job each.

    Args:
        manager: what is cached and what is kept.
        storage: where it lies.
        runner: the engine.
        root_of: the canonical plan of an engine's query.
        part_of: the query that computes a node of a query's canonical plan; None where none can
            do so by itself.
        changed_source: a file that is not there any more in the version that was listed, if any.
        shapes_of: for the handles of a query's nodes what they compute, whatever versions files
            have.
        saved_by: about how much time a query saves that reads a result.
        verification: of what is kept; None for none.
    """

    def __init__(
        self,
        manager: CacheServiceManager[Q],
        storage: IntermediateResultStorage,
        runner: HandingOutRunner[Q, D],
        root_of: Callable[[Q], CanonicalNode],
        part_of: Callable[[Q, CanonicalNode], Q | None],
        changed_source: Callable[[Collection[FileVersion]], str | None],
        shapes_of: Callable[[Q], Mapping[int, str]],
        saved_by: Callable[[Q, KeptResult], float],
        verification: Verification[Q] | None = None,
    ) -> None:
        self._manager = manager
        self._storage = storage
        self._runner: VertexRunner[Q, D] = runner
        self._hands_out = runner
        self._root_of = root_of
        self._part_of = part_of
        self._changed_source = changed_source
        self._shapes_of = shapes_of
        self._saved_by = saved_by
        self._verification = verification
        self._handed_out = HandedOutReads(runner.collected)
        self._failures = FailedProductions()
        self._not_in_one_pass: set[IntermediateDataSetID] = set()

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

        What is kept keeps Spark from moving conditions to below it, so that they may meet rows that
        have been left out otherwise. Where a query fails that reads something that this program
        hasn't asked to be kept, only the error counts that it fails with as it was written.

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
        self,
        job: _Job[Q, D],
        act: Callable[[D], T],
        before_retry: Callable[[], None] | None,
        hand_out: HandOut | None = None,
    ) -> tuple[T, JobResult]:
        while True:
            try:
                with job.attempt(hand_out=hand_out, one_pass=hand_out is None) as substituted:
                    answer = job.answer(lambda: act(substituted))
                    # What has been written can't be taken back; the next job finds the damage.
                    if before_retry is None:
                        job.check_read()
                return answer, job.result()
            except KeptDataLost as lost:
                job.lost(lost.damages)
                if job.acted and before_retry is not None:
                    job.reporting("can't be retried", before_retry)
            except SubstitutionRefusedError as refused:
                job.suspect(refused.suspects)
                if not job.goes_as_written():
                    job.go_without_caches(refused)
                if job.acted and before_retry is not None:
                    before_retry()
            except PassFailedError:
                if before_retry is not None:
                    before_retry()
            except Exception as error:
                if not self._runner.may_be_answered(error) or not job.goes_as_written():
                    raise
                logger.debug("job %s is run as it was written", job.run_id, exc_info=error)
                if job.acted and before_retry is not None:
                    before_retry()

    def prepare(self, request: JobRequest[Q], *, is_run_later: bool = False) -> tuple[D, JobResult]:
        """Produces what is to be kept and hands out the rest, to be run by somebody else.

        What that reads is held until nobody has it any more.

        Args:
            request: what is handed out.
            is_run_later: its tables are listed again each time that it is run.
        """
        hand_out = HandOut(is_run_later=is_run_later)
        with self._job(replace(request, is_repeatable=False)) as job:
            return self._run(job, lambda handed_out: handed_out, None, hand_out)

    def hand_out(self, request: JobRequest[Q]) -> D:
        """Hands out the query with whatever is kept already substituted. Runs nothing.

        What that reads is held until nobody has it any more.
        """
        request = replace(request, is_repeatable=False)
        hand_out = HandOut()
        with ExitStack() as stack:
            lease = stack.enter_context(self._manager.results.reading())
            reading: dict[IntermediateDataSetID, KeptDataSet] = {}
            whole = self.kept_reads(request)

            def reads(node: CanonicalNode) -> KeptDataSet | None:
                if whole(node) is None:
                    return None
                dataset_id = IntermediateDataSetID.from_digest(request.inputs.dataset_digest(node))
                entry = lease.acquire(dataset_id)
                if entry is not None and dataset_id not in reading:
                    reading[dataset_id] = self._pinned(entry.kept, stack)
                return reading.get(dataset_id)

            try:
                handed_out = self._hands_out.handed_out(
                    request.query, request.root, reads, hand_out.name, is_run_later=True
                )
            except SubstitutionRefusedError as refused:
                logger.warning("kept results are not used by the returned plan: %s", refused)
                return self._hands_out.unsubstituted(request.query)
            self._handed_out.hold(hand_out.name, stack.pop_all())
            return handed_out

    def release_collected(self, *, thorough: bool = False) -> None:
        """Releases what is held for handed-out plans that nobody has any more.

        Args:
            thorough: takes time to look for them.
        """
        self._handed_out.release_collected(thorough=thorough)

    def close(self) -> None:
        """Releases what handed-out plans read."""
        self._handed_out.close()

    def _pinned(self, kept: KeptDataSet, stack: ExitStack) -> KeptDataSet:
        """The dataset under names of its own until the stack closes, where that can be done."""
        pinned = self._storage.pin(kept)
        if pinned is None:
            return kept
        stack.callback(self._storage.unpin, pinned)
        return pinned

    def stream(
        self, request: JobRequest[Q], act: Callable[[D], Iterator[T]]
    ) -> Iterator[tuple[T | None, JobResult | None]]:
        """Like `run` for an answer that comes row by row; the job's result comes last, alone.

        A loss of kept data after the first row is raised: which rows are still to come can't be
        told then. The dataset is invalidated, so the next try computes it again. It takes more than
        the removal of the dataset, though: what is read is pinned where the storage can do that.
        So nothing is read that this program hasn't asked to be kept.

        Raises:
            KeptDataLost: when kept data is lost after the first row.
        """
        with self._job(replace(request, is_repeatable=False)) as job:
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
                    job.report("must be rerun")
                    raise
            except SubstitutionRefusedError as refused:
                if given:
                    raise (refused.__cause__ or refused) from None
                job.suspect(refused.suspects)
                job.go_without_caches(refused)

    def to_be_kept(self, request: JobRequest[Q]) -> tuple[IntermediateDataSetID, ...]:
        """What a job would leave behind, as it isn't kept yet, in order. Runs nothing."""
        if not self._manager.wanted:
            return ()
        job, entries = _Job(self, request), self._manager.results.find()
        graph = JobGraphGenerator(job.transformation, entries.__contains__).generate(
            request.job_id, request.name, request.root
        )
        return tuple(dataset_id for _, dataset_id in graph.producers())

    @contextmanager
    def _job(self, request: JobRequest[Q]) -> Iterator[_Job[Q, D]]:
        job = _Job(self, request)
        try:
            with request.listeners.listening(job.execution):
                yield job
        finally:
            job.release_left()
            self._storage.end_job(job.run_id)
            self._handed_out.release_collected()

    def substituted(self, request: JobRequest[Q]) -> D:
        """The query with whatever is kept already substituted. Runs nothing."""
        return self._runner.substituted(request.query, request.root, self.kept_reads(request))

    def kept_reads(self, request: JobRequest[Q]) -> Callable[[CanonicalNode], KeptDataSet | None]:
        """What could be read at this moment, for showing and handing out plans."""
        return self.reads_of(self.found(request))

    def near_misses(self, request: JobRequest[Q]) -> dict[str, str]:
        """Why what is like parts of a job's plan is not read, by their digests. Runs nothing."""
        if not self._manager.results.is_shared:
            return {}
        shapes = self._shapes_of(request.query)
        # What is but read from files costs nothing to compute.
        parts = [node for node in request.root.walk() if node.children and node.reach == 0]
        return self._manager.results.why_not(
            [asked_for(node, shapes, request.inputs) for node in parts]
        )

    def reasons(self, plan: CanonicalNode) -> tuple[Reason, ...]:
        """Why no other program finds what is kept of a plan; none where others do."""
        wanted = self._manager.wanted.find(plan.digest)
        return reasons_of(plan, wanted)

    def outdated(self, plan: CanonicalNode) -> str | None:
        """What has changed since a catalog listed it, of what a plan reads: then it isn't kept."""
        files = plan.catalog_files()
        return self._changed_source(files) if files else None

    def reads_of(
        self, known: Mapping[str, KeptResult]
    ) -> Callable[[CanonicalNode], KeptDataSet | None]:
        """What could be read of what was found.

        Args:
            known: the results by the digests of what they compute.
        """

        def reads(node: CanonicalNode) -> KeptDataSet | None:
            entry = known.get(node.digest)
            if entry is None or self.outdated(node) is not None:
                return None
            return None if self._damage(entry) is not None else entry.kept

        return reads

    def found(self, request: JobRequest[Q]) -> dict[str, KeptResult]:
        """What a job may read of what is kept of its plan's parts, by their digests."""
        digests = {
            IntermediateDataSetID.from_digest(request.inputs.dataset_digest(node)): node.digest
            for node in request.root.walk()
            if request.reads_unasked or self._manager.wanted.is_asked(node.digest)
        }
        found = self._manager.results.find(digests)
        return {digests[dataset_id]: result for dataset_id, result in found.items()}

    def _damage(self, entry: KeptResult) -> str | None:
        # Another program's is linked here, and looked at, before it is read.
        return None if entry.origin is not None else self._storage.damage(entry.kept)


class _Job(Generic[Q, D]):
    """One job on its way, over all of its attempts."""

    _WITH_CACHES = 2

    def __init__(self, master: JobMaster[Q, D], request: JobRequest[Q]) -> None:
        self._master = master
        self._manager = master._manager
        self._runner = master._runner
        self._request = request
        self._publish = request.listeners.publish
        self.execution = ExecutionGraph(request.job_id, request.name)
        self.run_id = JobID.random()
        """By this its storage knows it: another start of the job may still be writing there."""
        self._started = time.monotonic()
        self._attempts = 0
        self.acted = False
        self._failed_productions: dict[IntermediateDataSetID, tuple[Reason, float]] = {}
        self._reported = 0
        self._refused: SubstitutionRefusedError | None = None
        self._reads_unasked = False
        self._is_as_written = False
        self._suspects: dict[str, IntermediateDataSetID] = {}
        self._graph: JobGraph | None = None
        self._reading: dict[IntermediateDataSetID, KeptDataSet] = {}
        self._transformations: dict[str, TableCacheTransformation | None] = {}
        self._outdated: dict[frozenset[FileVersion], str | None] = {}
        # What needs no verification: it has been done, or this job has produced it itself.
        self._settled: set[IntermediateDataSetID] = set()
        self._saved: dict[IntermediateDataSetID, float] = {}
        self._queries: dict[IntermediateDataSetID, Q] = {}
        self._in_the_book: dict[str, KeptResult] = {}
        # What has lost partitions, so that the others are there to be taken over: once.
        self._left: dict[IntermediateDataSetID, KeptResult] = {}
        self._completed: set[IntermediateDataSetID] = set()

    @contextmanager
    def attempt(
        self, *, pinning: bool = False, hand_out: HandOut | None = None, one_pass: bool = False
    ) -> Iterator[D]:
        """Produces what has to be kept; yields the query with everything kept substituted.

        Args:
            pinning: what the answer is read from is pinned for as long as the attempt lasts.
            hand_out: so is that, and for longer: for as long as somebody has what is yielded.
            one_pass: the answer is computed before the attempt ends, so that something may be kept
                on the way.

        Raises:
            PassFailedError: when the answer has failed, and something was to be kept on the way.
        """
        self._attempts += 1
        self._look_again()
        self._outdated.clear()
        if self._attempts <= self._WITH_CACHES:
            self._in_the_book = self._master.found(self._request)
        with ExitStack() as stack:
            lease = stack.enter_context(self._manager.results.reading())
            try:
                self._submit(lease)
                assert self._graph is not None
                last = self._kept_on_the_way(self._graph) if one_pass else None
                for vertex, dataset_id in self._graph.producers():
                    if dataset_id != last:
                        self._produce(vertex, dataset_id, lease)
                if last is not None:
                    vertex = next(each for each in self._graph.vertices if each.produces == last)
                    on_the_way = self._begin_pass(vertex, last, lease)
                    if on_the_way is not None:
                        self._reading = _kept(lease)
                        with self._passing(on_the_way):
                            yield on_the_way.teed.dataframe
                        self._end_pass(on_the_way, lease)
                        return
                self._reading = _kept(lease)
                if pinning or hand_out is not None:
                    self._pin(stack)
                query, root = self._request.query, self._request.root
                reads = self._reads(self._reading)
                if hand_out is None:
                    yield self._runner.substituted(query, root, reads)
                elif self._refused is not None:
                    yield self._master._hands_out.unsubstituted(query)
                else:
                    yield self._master._hands_out.handed_out(
                        query, root, reads, hand_out.name, is_run_later=hand_out.is_run_later
                    )
                    self._master._handed_out.hold(hand_out.name, stack.pop_all())
            except KeptDataLost as lost:
                self._set_aside(lost.damages, lease)
                raise
            finally:
                asked = self._manager.wanted.is_asked
                self._reads_unasked = not all(asked(each.digest) for each in lease.held.values())

    def _set_aside(self, dataset_ids: Iterable[IntermediateDataSetID], lease: ReadingLease) -> None:
        """Nobody gets these any more; what is left of them stays for as long as the job lasts."""
        for result in lease.set_aside(dataset_ids):
            before = self._left.get(result.dataset_id)
            self._left[result.dataset_id] = result
            if before is not None:
                self._manager.results.release([before])

    def _left_of(self, dataset_id: IntermediateDataSetID) -> KeptResult | None:
        """What is left of a dataset; None where that has been tried once, and was lost again."""
        if dataset_id in self._completed:
            return None
        left = self._left.get(dataset_id)
        if left is not None:
            self._completed.add(dataset_id)
        return left

    def release_left(self) -> None:
        """What has lost partitions is not needed any more. Does nothing the second time."""
        left, self._left = self._left, {}
        self._manager.results.release(left.values())

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
            self._set_aside([dataset_id], lease)
            return False

        generator = JobGraphGenerator(self.transformation, kept)
        while True:
            graph = self._graph = generator.generate(
                self.execution.job_id, self._request.name, self._request.root
            )
            if self._forget_gone(graph) and all(
                self._is_good(dataset_id, lease) for dataset_id in graph.reads
            ):
                break
            self._look_again()
        self.execution.attach(graph)
        self.lost(damages)
        self.report(
            "recomputes it"
            if self._attempts <= self._WITH_CACHES
            else "is resubmitted without caching"
        )
        for dataset_id in graph.reads:
            entry = lease.held[dataset_id]
            self._master._storage.hit(entry.kept)
            self._read(dataset_id, entry)

    def _look_again(self) -> None:
        """Forgets what was wanted: others may cache and invalidate meanwhile."""
        self._transformations.clear()
        self._queries.clear()

    def _forget_gone(self, graph: JobGraph) -> bool:
        """Whether all that a job is to produce is wanted here; the rest was kept, and is gone."""
        gone = [
            vertex.plan.digest
            for vertex, dataset_id in graph.producers()
            if dataset_id not in self._queries
        ]
        for digest in gone:
            del self._in_the_book[digest]
        return not gone

    def _is_good(self, dataset_id: IntermediateDataSetID, lease: ReadingLease) -> bool:
        """Verifies a result that is to be read, where it is its turn; drops it if it is wrong."""
        verification = self._master._verification
        if verification is None or dataset_id in self._settled or dataset_id not in self._queries:
            return True
        self._settled.add(dataset_id)
        if not verification.is_due():
            return True

        def is_read(node: CanonicalNode) -> bool:
            transformation = self.transformation(node)
            return transformation is not None and transformation.dataset_id == dataset_id

        entry, made_from = lease.held[dataset_id], self._queries[dataset_id]
        found = verification.compare(
            self._request.query,
            list(find_matches(self._request.root, is_read)),
            made_from,
            self._master._root_of(made_from),
            entry.kept,
        )
        if not found.differs:
            return True
        difference = (
            f"{found.only_kept:,} of {entry.kept.rows:,} kept rows were not computed, and "
            f"{found.only_computed:,} computed rows were not kept"
        )
        self._publish(DataSetLost(dataset_id, difference))
        self._reported = len(self.execution.losses)
        logger.warning(
            "job %s (%s): verification of %s (%s) failed, its rows differ from those of its plan: "
            "%s. It and the results derived from it are invalidated and no longer kept; "
            "recomputing",
            self.execution.job_id,
            self._request.name,
            dataset_id,
            entry.kept.manifest.dataset.computes,
            difference,
        )
        self._distrust(entry.digest, lease)
        return False

    def _distrust(self, digest: str, lease: ReadingLease) -> None:
        """Drops a computation for good, and what is kept of those that may have read it."""
        made_of_it = {digest}
        for computation in self._manager.wanted.all():
            below = self._master._root_of(computation.query).walk()
            if any(node.digest == digest for node in below):
                made_of_it.add(computation.digest)
        lease.drop([key for key, entry in lease.held.items() if entry.digest in made_of_it])
        self._manager.distrust(digest)
        for each in made_of_it:
            self._in_the_book.pop(each, None)
            self._manager.invalidate(each)

    def answer(self, act: Callable[[], T]) -> T:
        """Runs the vertex that answers."""
        self._publish(VertexStarted(None, self._request.name))
        self.acted = True
        try:
            with (
                self._runner.watching(self._reading),
                self._runner.answering(self._request.name, self._reading),
            ):
                answer = act()
        except BaseException:
            self._publish(VertexEnded(None, VertexOutcome.FAILED))
            raise
        self._publish(VertexEnded(None, VertexOutcome.RUN))
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
            self._publish(DataSetLost(dataset_id, damage))

    def report(self, consequence: str) -> None:
        """Logs in one line whatever has been lost since the last report."""
        unreported = self.execution.losses[self._reported :]
        self._reported = len(self.execution.losses)
        if unreported:
            logger.warning(
                "job %s (%s) lost kept data and %s: %s",
                self.execution.job_id,
                self._request.name,
                consequence,
                "; ".join(unreported),
            )

    def go_without_caches(self, refused: SubstitutionRefusedError) -> None:
        """Makes the next attempt one in which nothing is kept and nothing kept is read."""
        self._attempts = self._WITH_CACHES
        self._refused = refused

    def suspect(self, dataset_ids: Collection[IntermediateDataSetID]) -> None:
        """Notes which kept datasets may not be readable: unless the next attempt fails, too."""
        self._suspects |= {
            digest: each.dataset_id
            for digest, each in self._transformations.items()
            if each is not None and each.dataset_id in dataset_ids
        }

    def goes_as_written(self) -> bool:
        """Makes the next attempt read nothing but what this program has asked to be kept.

        Returns:
            whether that is another attempt than the last one.
        """
        as_written = self._request.as_written
        if not self._reads_unasked and as_written is None:
            return False
        self._request = replace(self._request, is_repeatable=False)
        if as_written is not None:
            root = self._master._root_of(as_written)
            self._request = replace(self._request, query=as_written, root=root, as_written=None)
        self._is_as_written = True
        self._failed_productions.clear()
        self._attempts = min(self._attempts, self._WITH_CACHES) - 1
        return True

    def reporting(self, consequence: str, step: Callable[[], None]) -> None:
        """Takes a step towards the next attempt; should it fail, that is the last word."""
        try:
            step()
        except BaseException:
            self.report(consequence)
            raise

    def result(self) -> JobResult:
        """What became of the job."""
        for dataset_id, (why, seconds) in self._failed_productions.items():
            self._master._failures.add(dataset_id, seconds)
            self._note_why(dataset_id, why)
            logger.warning(
                "job %s (%s) succeeded, but a result could not be kept: %s",
                self.execution.job_id,
                self._request.name,
                f"{dataset_id}: {why}",
            )
        # Had it failed without caches as well, the fault would not have been theirs.
        if self._refused is not None:
            logger.warning(
                "job %s (%s) ran without kept results: %s",
                self.execution.job_id,
                self._request.name,
                self._refused,
            )
        for digest, dataset_id in self._suspects.items():
            # Kept again, it would be as unreadable.
            if dataset_id not in self._reading:
                self._manager.distrust(digest)
        return JobResult(
            self.execution.archive(),
            net_runtime=time.monotonic() - self._started,
            losses=tuple(self.execution.losses),
            is_as_written=self._is_as_written,
            is_refused=self._refused is not None,
        )

    def transformation(self, node: CanonicalNode) -> TableCacheTransformation | None:
        """What keeps a node, where somebody cached the same computation."""
        # Others may cache and invalidate meanwhile; an attempt holds on to what it has seen.
        if node.digest not in self._transformations:
            self._transformations[node.digest] = self._cached(node)
        found = self._transformations[node.digest]
        return None if found is None or self._is_outdated(node) else found

    def _is_outdated(self, node: CanonicalNode) -> bool:
        """Whether a catalog's listing is not of what is there: the engine reads what is there."""
        files = node.catalog_files()
        if files not in self._outdated:
            changed = self._outdated[files] = self._master._changed_source(files)
            if changed is not None:
                logger.warning(
                    "job %s (%s) neither reads nor keeps results of a catalog table: %s changed "
                    "after the catalog listed it. Run REFRESH TABLE to list it again",
                    self.execution.job_id,
                    self._request.name,
                    changed,
                )
        return self._outdated[files] is not None

    def _cached(self, node: CanonicalNode) -> TableCacheTransformation | None:
        if self._attempts > self._WITH_CACHES:
            return None
        computation = self._manager.wanted.find(node.digest)
        if not self._request.reads_unasked and not self._manager.wanted.is_asked(node.digest):
            return None
        if computation is None or (computation.is_deferred and self._request.is_awaited):
            result = self._in_the_book.get(node.digest)
            if result is None:
                return None
            name = result.kept.manifest.dataset.computes
            return TableCacheTransformation(result.dataset_id, node, name)
        # What is known of a version is known of the plan that is followed, not of all that agree.
        query = None if node.all_doubts() else self._part(node.digest)
        query = query or computation.query
        root = self._master._root_of(query)
        dataset_id = IntermediateDataSetID.from_digest(self._request.inputs.dataset_digest(root))
        self._queries[dataset_id] = query
        return TableCacheTransformation(dataset_id, root, computation.name)

    def _part(self, digest: str) -> Q | None:
        """The part of the job's own query that computes this, if one does by itself.

        What was cached may have been made under other settings; this one has just been asked for.
        """
        for node in self._request.root.walk():
            if node.digest == digest and node.reach == 0 and node.replaceable:
                part = self._master._part_of(self._request.query, node)
                if part is not None:
                    return part
        return None

    def _reads(
        self, reading: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> Callable[[CanonicalNode], KeptDataSet | None]:
        def reads(node: CanonicalNode) -> KeptDataSet | None:
            transformation = self.transformation(node)
            return None if transformation is None else reading.get(transformation.dataset_id)

        return reads

    def _pin(self, stack: ExitStack) -> None:
        """Pins what the answering vertex reads."""
        reads = self._reads(self._reading)
        matches = find_matches(self._request.root, lambda node: reads(node) is not None)
        transformations = filter(None, map(self.transformation, list(matches)))
        for dataset_id in dict.fromkeys(each.dataset_id for each in transformations):
            self._reading[dataset_id] = self._master._pinned(self._reading[dataset_id], stack)

    def _produce(
        self, vertex: JobVertex, dataset_id: IntermediateDataSetID, lease: ReadingLease
    ) -> None:
        claim = self._claimed(vertex, dataset_id, lease)
        if claim is not None:
            self._produce_claimed(claim, vertex, lease)

    def _claimed(
        self, vertex: JobVertex, dataset_id: IntermediateDataSetID, lease: ReadingLease
    ) -> Claim | None:
        """The right to produce a dataset; None where it is kept meanwhile, or not to be had."""
        book = self._manager.results
        if dataset_id in self._failed_productions:
            why, _ = self._failed_productions[dataset_id]
            self._ended_unkept(dataset_id, why)
            return None
        alone = bool(self._master.reasons(vertex.plan))
        claim = lease.claim(dataset_id, vertex.plan.digest, alone=alone)
        if isinstance(claim, KeptResult):
            entry = lease.acquire(dataset_id)
            if entry is not None:
                self._read(dataset_id, entry)
            return None
        if claim is None:
            self._ended_unkept(dataset_id, Why.BUSY.of())
            return None
        if not self._master._failures.may_be_tried(dataset_id):
            book.abandon(claim)
            why = Why.FAILED_BEFORE.of()
            self._ended_unkept(dataset_id, why)
            return None
        return claim

    def _production(
        self,
        vertex: JobVertex,
        claim: Claim,
        lease: ReadingLease,
        left: KeptResult | None = None,
    ) -> Production[Q]:
        return Production(
            self._queries[claim.dataset_id],
            self._request.inputs,
            self.run_id,
            claim.dataset_id,
            vertex.name,
            self._reads(_kept(lease)),
            self._request.listeners,
            None if left is None else left.kept,
        )

    def _missed(self, vertex: JobVertex, claim: Claim) -> AskedFor | None:
        """Says why what others have kept is not read; what was asked for."""
        asked = self._asked_for(vertex.plan, claim.dataset_id)
        if asked is not None:
            for why in self._manager.results.why_not([asked]).values():
                self._publish(VertexMissed(claim.dataset_id, why))
        return asked

    def _produce_claimed(self, claim: Claim, vertex: JobVertex, lease: ReadingLease) -> None:
        dataset_id = claim.dataset_id
        asked = self._missed(vertex, claim)
        started = time.monotonic()
        try:
            reading, left = _kept(lease), self._left_of(dataset_id)
            production = self._production(vertex, claim, lease, left)
            with self._runner.watching(reading):
                kept = self._runner.produce(production)
            try:
                self._check(reading)
            except KeptDataLost:
                self._master._storage.remove(kept)
                raise
            seconds = time.monotonic() - started
            if left is not None:
                # What it takes to produce all of it is what it is worth.
                seconds = max(seconds, left.seconds)
            self._commit(claim, vertex, kept, asked, seconds, lease)
            self._master._not_in_one_pass.discard(dataset_id)
        except NotKeptError as error:
            self._not_kept(dataset_id, error)
            if not error.is_answered:
                self._master._failures.add(dataset_id, time.monotonic() - started)
        except (KeptDataLost, SubstitutionRefusedError):
            self._publish(VertexEnded(dataset_id, VertexOutcome.FAILED))
            raise
        except Exception as error:
            if not self._runner.may_be_answered(error):
                self._publish(VertexEnded(dataset_id, VertexOutcome.FAILED))
                raise
            # Should the answer fail as well, its error is the one to be seen.
            why = Why.FAILED.of(_in_one_line(error))
            self._failed_productions[dataset_id] = (why, time.monotonic() - started)
            self._ended_unkept(dataset_id, why)
        except BaseException:
            self._publish(VertexEnded(dataset_id, VertexOutcome.FAILED))
            raise
        finally:
            self._manager.results.abandon(claim)

    def _commit(
        self,
        claim: Claim,
        vertex: JobVertex,
        kept: KeptDataSet,
        asked: AskedFor | None,
        seconds: float,
        lease: ReadingLease,
    ) -> None:
        dataset_id = claim.dataset_id
        wanted = self._manager.wanted.find(claim.digest) is not None
        facts = self._facts(vertex.plan, dataset_id, asked, seconds, lease)
        result = lease.commit(claim, kept, wanted=wanted, facts=facts)
        self._settled.add(dataset_id)
        if result.reasons and facts.lifetime is not None:
            what, why = kept.manifest.dataset.computes, "; ".join(sentences(result.reasons))
            logger.info("%s (%s) has a lifetime, but %s", dataset_id, what, why)
        self._note_why(dataset_id, result.refusal)
        if result.refusal is not None:
            self._ended_unkept(dataset_id, result.refusal)
            return
        available = PartitionsAvailable(dataset_id, describe_partitions(kept), result.reasons)
        self._publish(available)

    def _not_kept(self, dataset_id: IntermediateDataSetID, error: NotKeptError) -> None:
        level = logging.DEBUG if error.is_expected else logging.WARNING
        logger.log(level, "%s is not kept: %s", dataset_id, error.reason)
        self._ended_unkept(dataset_id, error.reason, is_noted=not error.is_expected)
        if error.incomplete:
            self._publish(LocationsIncomplete(dataset_id))
        if not error.is_expected:
            self._note_why(dataset_id, error.reason)

    def _ended_unkept(
        self, dataset_id: IntermediateDataSetID, why: Reason, *, is_noted: bool = True
    ) -> None:
        self._publish(VertexEnded(dataset_id, VertexOutcome.NOT_KEPT, why))
        if is_noted:
            root = self._master._root_of(self._queries[dataset_id])
            wanted = self._manager.wanted.find(root.digest)
            computes = summarize(root) if wanted is None else wanted.name
            self._manager.results.refused(dataset_id, root.digest, computes, why)

    def _note_why(self, dataset_id: IntermediateDataSetID, why: Reason | None) -> None:
        digest = self._master._root_of(self._queries[dataset_id]).digest
        wanted = self._manager.wanted.find(digest)
        if wanted is not None:
            wanted.why_not = why

    # -- what is kept while the answer is computed ------------------------------------------------

    def _kept_on_the_way(self, graph: JobGraph) -> IntermediateDataSetID | None:
        """What the answering vertex can keep while it runs, of what it reads."""
        if not self._request.takes_all_rows or self._attempts > 1:
            return None
        # Other engines run jobs in their own ways, and what is verified is what was written first.
        if self._runner is not self._master._hands_out or self._master._verification is not None:
            return None
        return kept_on_the_way(
            graph,
            self._request.root,
            lambda node: self.transformation(node) is not None,
            # Somebody else's plan of it calls the columns by other names.
            lambda dataset_id, node: (
                dataset_id not in self._master._not_in_one_pass
                # Of what has lost partitions, only these are produced.
                and dataset_id not in self._left
                and self._master._root_of(self._queries[dataset_id]) is node
            ),
        )

    def _begin_pass(
        self, vertex: JobVertex, dataset_id: IntermediateDataSetID, lease: ReadingLease
    ) -> OnTheWay[D] | None:
        """Prepares it; None where it is kept by now, or isn't going to be."""
        claim = self._claimed(vertex, dataset_id, lease)
        if claim is None:
            return None
        try:
            teed = self._master._hands_out.teed(
                self._production(vertex, claim, lease), self._request.query, self._request.root
            )
            if teed is not None:
                return OnTheWay(claim, vertex, teed, self._missed(vertex, claim))
        except NotKeptError as error:
            self._manager.results.abandon(claim)
            self._not_kept(dataset_id, error)
            return None
        self._produce_claimed(claim, vertex, lease)
        return None

    @contextmanager
    def _passing(self, on_the_way: OnTheWay[D]) -> Iterator[None]:
        """The answer is computed inside, and keeps something on the way."""
        dataset_id = on_the_way.claim.dataset_id
        started = time.monotonic()
        try:
            with on_the_way.teed.running():
                yield
        except BaseException as error:
            self._publish(VertexEnded(dataset_id, VertexOutcome.FAILED))
            if not isinstance(error, Exception) or not self._runner.may_be_answered(error):
                raise
            # Spark computes neither columns nor rows that an answer has no use for: by itself it
            # may have none of the errors that are in these.
            self._master._not_in_one_pass.add(dataset_id)
            self._failed_productions[dataset_id] = (
                Why.FAILED.of(_in_one_line(error)),
                time.monotonic() - started,
            )
            raise PassFailedError from error

    def _end_pass(self, on_the_way: OnTheWay[D], lease: ReadingLease) -> None:
        """Commits what was kept on the way; whatever happens, the answer is there."""
        claim = on_the_way.claim
        try:
            kept = on_the_way.teed.keep()
            seconds = on_the_way.teed.seconds
            self._commit(claim, on_the_way.vertex, kept, on_the_way.asked, seconds, lease)
        except NotKeptError as error:
            self._master._not_in_one_pass.add(claim.dataset_id)
            self._not_kept(claim.dataset_id, error)
        except Exception as error:
            self._master._not_in_one_pass.add(claim.dataset_id)
            self._not_kept(claim.dataset_id, NotKeptError(Why.FAILED.of(_in_one_line(error))))

    def _asked_for(self, plan: CanonicalNode, dataset_id: IntermediateDataSetID) -> AskedFor | None:
        """A computation that isn't kept; None where nobody else could have kept it."""
        if not self._manager.results.is_shared:
            return None
        shapes = self._master._shapes_of(self._queries[dataset_id])
        return asked_for(plan, shapes, self._request.inputs)

    def _facts(
        self,
        plan: CanonicalNode,
        dataset_id: IntermediateDataSetID,
        asked: AskedFor | None,
        seconds: float,
        lease: ReadingLease,
    ) -> ProductionFacts:
        """What is known of a result that has taken so long to produce."""
        below = {node.digest for node in plan.walk()} - {plan.digest}
        wanted = self._manager.wanted.find(plan.digest)
        reasons = self._master.reasons(plan)
        if (
            wanted is not None
            and wanted.lifetime is not None
            and not self._manager.results.is_shared
        ):
            reasons = (*reasons, Why.NO_CATALOG.of())
        return ProductionFacts(
            shape=plan.digest if asked is None else asked.shape,
            reasons=reasons,
            # A catalog may let somebody read a table and not its files, or the other way round.
            is_checkable=not plan.catalog_files(),
            lifetime=None if wanted is None else wanted.lifetime,
            seconds=seconds,
            cpu_seconds=self.execution.cpu_seconds(dataset_id),
            inputs=tuple(key for key, entry in lease.held.items() if entry.digest in below),
            made_from=replace(_made_from(plan, asked), plan=outline(plan)),
        )

    def _read(self, dataset_id: IntermediateDataSetID, entry: KeptResult) -> None:
        computes = entry.kept.manifest.dataset.computes
        kept_by = None if entry.origin is None else str(entry.origin)
        if dataset_id not in self._saved:
            self._saved[dataset_id] = self._master._saved_by(self._request.query, entry)
            self._manager.results.saved(entry, self._saved[dataset_id])
        self._publish(VertexRead(dataset_id, computes, kept_by, self._saved[dataset_id]))
        self._publish(
            PartitionsAvailable(dataset_id, describe_partitions(entry.kept), entry.reasons)
        )


def _in_one_line(error: BaseException) -> str:
    first, *others = (str(error).strip() or type(error).__name__).splitlines()
    # Spark announces a Python traceback, which ends with what was raised.
    return f"{first} {others[-1]}" if first.endswith(":") and others else first


def reasons_of(
    plan: CanonicalNode, wanted: CachedComputation[Any] | None = None
) -> tuple[Reason, ...]:
    """Why what is kept of a plan is not right in other programs; none where it is.

    Where several answers are, each program may have its own, unless this one is to stay: a
    `cache()` with a lifetime says so. Streams are the same ones where their digest says how they
    are distributed, as long as nothing cuts records off, or draws some.

    Args:
        plan: the canonical plan.
        wanted: who asks for it to be kept.
    """
    found, ambiguities = plan.reasons(), plan.ambiguities()
    if not ambiguities or wanted is None or wanted.is_unasked:
        return found
    if wanted.tells_layout:
        sensitive = (node for node in plan.walk() if node.ambiguous)
        is_right = all(node.operator in _DISTRIBUTES_AS_SAID for node in sensitive)
    else:
        is_right = wanted.lifetime is not None
    return tuple(each for each in found if each not in ambiguities) if is_right else found


def asked_for(plan: CanonicalNode, shapes: Mapping[int, str], inputs: SessionInputs) -> AskedFor:
    """A computation, as far as it is compared with what other programs have kept.

    Args:
        plan: its canonical plan.
        shapes: for the handles of its nodes what they compute, whatever versions files have.
        inputs: the settings that it runs under.
    """
    return AskedFor(
        IntermediateDataSetID.from_digest(inputs.dataset_digest(plan)),
        plan.digest,
        shapes.get(plan.handle, plan.digest),
        MadeFrom(tuple(sorted(plan.source_files())), inputs.counted(plan)),
    )


def _made_from(plan: CanonicalNode, asked: AskedFor | None) -> MadeFrom:
    return MadeFrom(tuple(sorted(plan.source_files()))) if asked is None else asked.made_from


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
    return {key: entry.kept for key, entry in lease.held.items()}
