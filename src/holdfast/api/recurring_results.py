"""Results that are kept implicitly, as queries have computed them again and again."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import AskedPart, parts_and_refusals
from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.counted_rows import RanStep, counted_rows
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.repeated_queries import RepeatedQueries
from holdfast.advice.rollups import Rollup
from holdfast.advice.worth_keeping import Verdict, worth_keeping
from holdfast.api.asked_query import AskedQuery
from holdfast.api.behind_the_answer import BehindTheAnswer
from holdfast.api.live_answers import LiveAnswers
from holdfast.api.rollup_pieces import RollupPieces
from holdfast.api.rollups import Rollups
from holdfast.errors import UnsupportedSparkError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.canonicalizer import digest_of
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.summary import summarize
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.live_shuffles import WatchedQueries
from holdfast.spark.plans.early_projection import EarlyProjections, part_with
from holdfast.spark.plans.explicit_joins import ExplicitJoins
from holdfast.spark.plans.measured_parts import QueryCost, measured_parts
from holdfast.spark.plans.narrowed_sources import NarrowedSources
from holdfast.spark.plans.rollups import RollupPlans
from holdfast.spark.plans.shapes import template
from holdfast.spark.task_costs import TaskCost, cost_of_block

# Each holds a plan in the JVM.
_MOST_WANTED = 64
# How much longer a query may take that keeps something: so many times as long as that takes.
_MOST_SLOWED = 1.0
# Which part of what a part takes is saved anyhow where the query reads what shuffles have left.
_MOSTLY_REUSED = 0.5
# Python runs one thread at a time: what is learned waits until the program waits, or idles.
_IDLE_SECONDS = 0.2
# What was asked for once may never be asked for again.
_ASKED_BEFORE = 2
# Each holds a plan in the JVM; a program that asks faster than they are read is learned of in part.
_MOST_TO_LEARN = 64
# How long the end waits for these.
_SECONDS_TO_LEARN = 2.0

ReadLater = Callable[[], tuple[Query, SessionInputs] | None]
"""Reads a query that has run, with the settings it ran under; None where they are others now."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RecurrencePolicy:
    """What is kept implicitly.

    Attributes:
        least_seconds: how much keeping it before would have saved, in seconds of tasks.
        lifetime: how long it stays after its last use, in seconds; None: as long as the program
            runs.
        patience: how long the end waits for what is being produced, in seconds.
    """

    least_seconds: float
    lifetime: float | None
    patience: float


@dataclass(frozen=True, slots=True)
class Ran:
    """How a query has run.

    Attributes:
        what: what ran it, for people.
        started: when it began, in seconds since 1970.
        elapsed: how long it took, in seconds.
        reused: what it has reused of earlier queries.
    """

    what: str
    started: float
    elapsed: float
    reused: WatchedQueries


class RecurringResults:
    """Looks at a session's queries: what they compute in common is kept, and read by later ones.

    Safe for use by several threads.

    Attributes:
        behind: what is produced while the program is idle.

    Args:
        spark: PySpark's own session.
        bridge: reads and rewrites its plans.
        manager: what is cached and what is kept.
        history: past queries.
        policy: what is kept, and for how long.
        produce: produces a query, which is wanted, under its settings.
        live: has queries read what the shuffles of aggregates have left; None for nothing.
        reused_seconds: of tasks, that shuffles of earlier queries save a query as it was asked.
        is_stored: whether Spark itself has persisted a part of a query, which it looks for by plans
            as they were written.

    Source: FLIP-36, "Implementation Details", phase 3, and "Long Term Goal".
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        history: QueryHistory,
        policy: RecurrencePolicy,
        produce: Callable[[Query, SessionInputs], object],
        live: LiveAnswers | None,
        reused_seconds: Callable[[Query], float],
        is_stored: Callable[[Query], bool],
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._manager = manager
        self._history = history
        self._policy = policy
        self._produce = produce
        self._live = live
        self._reused_seconds = reused_seconds
        self._is_stored = is_stored
        self.behind = BehindTheAnswer(spark)
        self._joins = ExplicitJoins(spark, bridge)
        self._projections = EarlyProjections(spark, bridge)
        self._rollups = _rollups(spark, bridge, manager, history, policy)
        self._cores = spark.sparkContext.defaultParallelism
        self._lock = threading.RLock()
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._repeated = RepeatedQueries()
        self._to_learn: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._learns_until = math.inf
        self._thread: threading.Thread | None = None
        self._computing = threading.Event()

    # -- before a query runs ----------------------------------------------------------------------

    def looked_at(
        self,
        query: Query,
        inputs: SessionInputs,
        *,
        keeps: bool = True,
    ) -> AskedQuery:
        """What would run in the stead of a query. Keeps nothing.

        Where that fails, the query is to be run as it was asked: aggregates may be made of finer
        ones, which are computed of rows that it leaves out as well.

        Args:
            query: over its analyzed plan.
            inputs: the settings that it runs under.
            keeps: whether it may keep something that isn't kept yet.
        """
        if self._has_cached(query.root):
            # What that saves would be taken for what its parts cost.
            return AskedQuery(query, inputs, (), query)
        if self._is_stored(query):
            why = "Spark has persisted it, or a part of it"
            verdict = Verdict(query.root.digest, summarize(query.root), None, why)
            return AskedQuery(query, inputs, (), query, verdicts=(verdict,))
        asked = self._as_asked(query, inputs)
        parts, doubts = asked.parts, asked.verdicts
        if not parts:
            return asked
        self._load_history()
        before = self._repeated.forms_before(asked.digest)
        if before is not None:
            # Plans of one digest may be written in other ways, and use other columns on the way.
            forms = self._served(parts, {key: [form] for key, form in before.items()})
            return self._running_as(asked, forms)
        alive = self._live.alive(asked) if self._live is not None else None
        if alive is not None:
            return alive
        rolled_up = self._rolled_up(asked, keeps=keeps)
        if rolled_up is not None:
            return rolled_up
        grouped = self._grouped(asked)
        kept = self._kept(asked)
        forms = self._served(parts, kept)
        query_now = self._history.expected(parts, time.time())
        verdicts = self._worth_keeping(query_now, self._history.queries, kept)
        verdicts = tuple(_in_groups(each) if each.key in grouped else each for each in verdicts)
        verdicts = self._settled(asked, verdicts, forms, keeps=keeps)
        verdicts += tuple(self._unread(asked, kept, forms))
        forms |= {each.key: each.form for each in verdicts if each.form is not None}
        return replace(self._running_as(asked, forms), verdicts=verdicts + doubts)

    def is_new(self, sources: AskedSources) -> bool:
        """Whether nothing that a query computes can be kept, or worth keeping: it was never asked.

        Args:
            sources: roughly what it reads.
        """
        self._load_history()
        return self._history.is_new(sources)

    def _as_asked(self, query: Query, inputs: SessionInputs) -> AskedQuery:
        """A query as it is run where nothing is kept of it, and the parts that could be."""
        as_asked, query = query, self._joins.of(query)
        parts, refused = self._parts_of(query, inputs)
        doubts = tuple(
            Verdict(node.digest, summarize(node), None, why) for why, node in refused.items()
        )
        return AskedQuery(query, inputs, parts, as_asked, verdicts=doubts)

    def _parts_of(
        self, query: Query, inputs: SessionInputs
    ) -> tuple[tuple[AskedPart, ...], Mapping[str, CanonicalNode]]:
        return parts_and_refusals(
            query.root,
            query.reading.operators,
            inputs,
            lambda: template(self._bridge, query),
        )

    def _load_history(self) -> None:
        questions = self._history.load()
        if questions and self._rollups is not None:
            self._rollups.remember(questions)

    def _rolled_up(self, asked: AskedQuery, *, keeps: bool) -> AskedQuery | None:
        if self._rollups is None:
            return None
        try:
            return self._rollups.of(
                asked, lambda query: self._parts_of(query, asked.inputs)[0], keeps=keeps
            )
        except Exception:
            logger.debug("a query is not made of finer groups", exc_info=True)
            return None

    def _grouped(self, asked: AskedQuery) -> frozenset[str]:
        """The keys of joins of which groups are kept."""
        if self._rollups is None:
            return frozenset()
        try:
            return self._rollups.joins(asked)
        except Exception:
            logger.debug("it isn't known how joins are grouped", exc_info=True)
            return frozenset()

    def failed(self, asked: AskedQuery, elapsed: float) -> None:
        """A query has failed with what is kept, and not as it was written: so it is run next time.

        Args:
            asked: what `asked` has given for it.
            elapsed: how long both took, in seconds.
        """
        as_written = replace(asked, rolled_up=None, alive=frozenset())
        self._repeated.ran(as_written.digest, {}, elapsed)
        if self._live is not None:
            self._live.failed(asked)
        if self._rollups is not None:
            self._rollups.failed(asked)

    def asked(
        self,
        query: Query,
        inputs: SessionInputs,
        *,
        keeps: bool = True,
    ) -> AskedQuery:
        """What is to run in the stead of a query; what is worth it is kept by later jobs.

        Args:
            query: over its analyzed plan.
            inputs: the settings that it runs under.
            keeps: whether it may keep something that isn't kept yet.
        """
        asked = self.looked_at(query, inputs, keeps=keeps)
        # What is kept for the first time may be made of what is kept below it.
        for part in (each for top in asked.parts for each in top.walk()):
            if part.key in asked.forms:
                self._want(asked, part, asked.forms[part.key])
        return asked

    def _worth_keeping(
        self,
        query: PastQuery,
        past: Sequence[PastQuery],
        kept: Mapping[str, Sequence[KeptForm]],
    ) -> tuple[Verdict, ...]:
        return worth_keeping(
            query, past, kept, self._history.rates, least_seconds=self._policy.least_seconds
        )

    def _unread(
        self,
        asked: AskedQuery,
        kept: Mapping[str, Sequence[KeptForm]],
        read: Mapping[str, KeptForm],
    ) -> Iterator[Verdict]:
        """What is kept of a query's parts and not read, as computing it takes less."""
        parts = {each.key: each for top in asked.parts for each in top.walk()}
        for key, part in parts.items():
            if key in kept and key not in read and not self._history.is_worth_reading(part):
                reads, seconds = self._history.seconds_to_read(part), self._history.seconds_of(part)
                why = f"takes {seconds:,.1f} s to compute, and {reads:,.1f} s to read"
                yield Verdict(key, summarize(part.node), None, why, seconds=seconds, is_kept=True)

    def _settled(
        self,
        asked: AskedQuery,
        verdicts: Sequence[Verdict],
        read: Mapping[str, KeptForm],
        *,
        keeps: bool,
    ) -> tuple[Verdict, ...]:
        """What is kept while the query runs, of what is worth it."""
        reused: float | None = None
        settled: list[Verdict] = []
        taken = dict(read)
        for verdict in verdicts:
            form, why = verdict.form, None
            if form is not None and not keeps:
                why = "it isn't asked for all of its rows at once: when the program is idle"
            elif form is not None:
                if reused is None:
                    # It is planned for this, so only where something is worth keeping.
                    reused = self._reused_seconds(asked.runs_as)
                if verdict.costs > verdict.seconds * _MOST_SLOWED:
                    why = "keeping it takes longer than the query: when the program is idle"
                elif reused > verdict.seconds * _MOSTLY_REUSED:
                    why = "shuffles of an earlier query are reused"
                elif not self._stands_alone(asked, form.key, taken):
                    why = "something above or below it is kept"
                else:
                    taken[form.key] = form
            settled.append(verdict if why is None else replace(verdict, form=None, why=why))
        return tuple(settled)

    def _has_cached(self, root: CanonicalNode) -> bool:
        """Whether somebody has asked for a part of a plan to be cached: that is an order."""
        wanted = self._manager.wanted
        if not wanted:
            return False
        found = filter(None, (wanted.find(node.digest) for node in root.walk()))
        return any(
            not isinstance(handle, RecurringResults) for each in found for handle in each.handles
        )

    def _kept(self, asked: AskedQuery) -> dict[str, list[KeptForm]]:
        """What is kept of a query's parts, by keys."""
        named = {
            _dataset(part, form, asked.inputs): form
            for top in asked.parts
            for part in top.walk()
            for form in self._history.forms_of(part.key)
        }
        kept: dict[str, list[KeptForm]] = {}
        if named:
            for dataset_id in self._manager.results.find(list(named)):
                form = named[dataset_id]
                kept.setdefault(form.key, []).append(form)
        return kept

    def _served(
        self, parts: Sequence[AskedPart], kept: Mapping[str, Sequence[KeptForm]]
    ) -> dict[str, KeptForm]:
        """What parts of a query are to be read of, by keys."""
        places: dict[str, list[AskedPart]] = {}
        for part in (each for top in parts for each in top.walk()):
            places.setdefault(part.key, []).append(part)
        found = {}
        for key, forms in kept.items():
            if key not in places:
                continue
            columns = {column for part in places[key] for column in part.columns}
            fitting = [form for form in forms if form.serves(key, columns)]
            if fitting and self._history.is_worth_reading(places[key][0]):
                found[key] = min(fitting, key=lambda form: len(form.columns))
        return found

    @staticmethod
    def _stands_alone(asked: AskedQuery, key: str, forms: Mapping[str, KeptForm]) -> bool:
        """Whether nothing above or below a part is read or kept already."""
        for top in asked.parts:
            for part in top.walk():
                below = {each.key for each in part.walk()}
                if (part.key == key and below & forms.keys()) or (
                    part.key in forms and key in below
                ):
                    return False
        return True

    def _running_as(self, asked: AskedQuery, forms: Mapping[str, KeptForm]) -> AskedQuery:
        parts = list(_topmost(asked.parts, forms))
        if not parts:
            return asked
        query = self._projections.of(
            asked.query, [(part, forms[part.key].columns) for part in parts]
        )
        found = {part.key: forms[part.key] for part in parts}
        return replace(asked, runs_as=query, forms=found)

    def _want(
        self, asked: AskedQuery, part: AskedPart, form: KeptForm, *, is_deferred: bool = False
    ) -> Query | None:
        """From now on jobs keep a part; None where it can't be computed by itself."""
        node = part_with(asked.runs_as.root, part.node, form.columns)
        query = None if node is None else self._bridge.part(asked.runs_as, node)
        if node is None or query is None:
            logger.debug("%s can't be computed by itself", summarize(part.node))
            return None
        self._history.add_form(form)
        name = f"recurring: {summarize(node)}"
        computation = CachedComputation(
            node.digest,
            query,
            name,
            self._policy.lifetime,
            is_deferred=is_deferred,
            is_unasked=True,
        )
        self._manager.wanted.register(computation, self)
        with self._lock:
            self._wanted[node.digest] = None
            self._wanted.move_to_end(node.digest)
            over = list(self._wanted)[:-_MOST_WANTED]
            for digest in over:
                del self._wanted[digest]
        # What was kept of them stays for its time.
        for digest in over:
            self._manager.wanted.release(digest, self)
        return query

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Spark computes an answer inside, and this thread waits for it."""
        self._computing.set()
        try:
            yield
        finally:
            self._computing.clear()

    # -- after it has run -------------------------------------------------------------------------

    def ran(self, asked: AskedQuery, ran: Ran) -> None:
        """A query has ended well; what it has cost is found out in the background.

        Its tasks are those of the block that this thread is in.

        Args:
            asked: what `asked` has given for it.
            ran: how it has run.
        """
        if not asked.is_made_of_others:
            self._repeated.ran(asked.digest, asked.forms, ran.elapsed)
        if asked.parts or asked.verdicts:
            self._learn_later(partial(self._learn_of, asked, ran), ran.what)

    def ran_unread(self, read: ReadLater, sources: AskedSources, ran: Ran) -> None:
        """A query that is new has ended well: it is read in the background.

        Args:
            read: reads it.
            sources: roughly what it reads.
            ran: how it has run.
        """

        def learn(cost: TaskCost | None) -> None:
            found = read()
            if found is None:
                return
            asked = replace(self._as_asked(*found), sources=sources)
            self._repeated.ran(asked.digest, {}, ran.elapsed)
            if asked.parts:
                now = self._history.expected(asked.parts, ran.started)
                verdicts = self._worth_keeping(now, self._history.queries, {})
                unkept = tuple(replace(each, form=None) for each in verdicts)
                asked = replace(asked, verdicts=unkept + asked.verdicts)
            if asked.parts or asked.verdicts:
                self._learn_of(asked, ran, cost)

        self._learn_later(learn, ran.what)

    def _learn_later(self, learn: Callable[[TaskCost | None], None], what: str) -> None:
        if self._to_learn.qsize() >= _MOST_TO_LEARN:
            logger.debug("what %s has cost is not learned, as too much waits for that", what)
            return
        cost = cost_of_block()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._learn, name="holdfast-history", daemon=True
                )
                self._thread.start()
        # It is asked for in any case: until then something stays in the JVM.
        self._to_learn.put(lambda: learn(cost()))

    def close(self) -> None:
        """Nothing is learned or produced any more. Does nothing the second time."""
        self._learns_until = time.monotonic() + _SECONDS_TO_LEARN
        try:
            self.settle(self._policy.patience)
        finally:
            self.behind.close()

    def settle(self, seconds: float) -> bool:
        """Waits until all that queries have left is learned and produced; whether it is.

        Args:
            seconds: how long it waits for what is produced.
        """
        self.learn_all()
        return self.behind.settle(seconds)

    def learn_all(self) -> None:
        """Waits until it is known what all queries that have ended tell."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._to_learn.put(None)
            with self.computing():
                thread.join()

    def _learn(self) -> None:
        while (learn := self._to_learn.get()) is not None:
            self._computing.wait(_IDLE_SECONDS)
            if time.monotonic() > self._learns_until:
                continue
            try:
                learn()
            except Exception:
                # Estimates of Spark's fail for plans that it runs, and sessions are stopped.
                logger.debug("the cost of a query isn't known", exc_info=True)
            finally:
                # It holds on to a plan.
                del learn

    def _learn_of(self, asked: AskedQuery, ran: Ran, cost: TaskCost | None) -> None:
        seconds = {
            part.key: self._history.seconds_of(part) for part in _topmost(asked.parts, asked.forms)
        }
        # Groups that are kept for the first time have never been computed without being kept.
        known = {key: took for key, took in seconds.items() if took or asked.rolled_up is None}
        known |= {
            part.key: self._history.seconds_of(part)
            for part in _topmost(asked.parts, dict.fromkeys(asked.alive))
        }
        kept = frozenset(each.key for each in asked.verdicts if each.form is not None)
        spent = ran.elapsed * self._cores if cost is None else cost.seconds
        # What is there already costs nothing now, and as much as ever when it is gone.
        in_all = QueryCost(spent + ran.reused.task_seconds, known, kept)
        measured = measured_parts(
            self._spark, asked.query, asked.parts, in_all, self._counted(asked, ran)
        )
        query = self._history.past(measured.root, ran.what, ran.started, ran.elapsed)
        query = replace(query, reused=ran.reused.number, reused_seconds=ran.reused.task_seconds)
        if cost is not None:
            query = replace(query, bytes_read=cost.bytes_read, shuffle_bytes=cost.shuffle_bytes)
        forms = tuple(asked.forms.values())
        questions = self._asked_of_joins(asked)
        sources = None if asked.sources is None else asked.sources.text
        self._history.add(
            RanQuery(query, asked.digest, forms, asked.verdicts, measured.uses, questions, sources)
        )
        if self._live is not None:
            self._live.left(asked)
        if not asked.is_made_of_others:
            self._offer(asked)

    def _counted(self, asked: AskedQuery, ran: Ran) -> Mapping[int, int]:
        """How many rows nodes of a query have, by their handles, as far as that is known."""
        parts = [each for top in asked.parts for each in top.walk()]
        told = {each.node.handle: self._history.rows_of(each.key) for each in parts}
        known = {handle: rows for handle, rows in told.items() if rows is not None}
        kept = {
            _dataset(each, asked.forms[each.key], asked.inputs): each.node.handle
            for each in parts
            if each.key in asked.forms and each.node.handle not in known
        }
        if kept:
            found = self._manager.results.find(list(kept))
            known |= {kept[each.dataset_id]: each.kept.rows for each in found.values()}
        if asked.is_made_of_others:
            return known
        steps = map(RanStep.read, ran.reused.steps)
        return {
            **known,
            **counted_rows(asked.query.root, asked.query.reading.operators, steps),
        }

    def _asked_of_joins(self, asked: AskedQuery) -> tuple[Rollup, ...]:
        if self._rollups is None:
            return ()
        try:
            return self._rollups.ran(asked)
        except Exception:
            logger.debug("it isn't known what a query has asked of joins", exc_info=True)
            return ()

    def _offer(self, asked: AskedQuery) -> None:
        """What would have to be kept if the query were asked twice more is kept before that."""
        unread = replace(asked, forms={})
        again = self._history.expected(asked.parts, time.time(), asked_before=_ASKED_BEFORE)
        verdicts = self._worth_keeping(again, [*self._history.queries, again], self._kept(asked))
        grouped = self._grouped(asked)
        for verdict in verdicts:
            form = verdict.form
            if form is not None and form.key not in {*asked.forms, *grouped}:
                self.behind.offer(form.key, partial(self._keep_behind, unread, form))

    def _keep_behind(self, asked: AskedQuery, form: KeptForm) -> None:
        if form.key in self._kept(asked):
            return
        running = self._running_as(asked, {form.key: form})
        for part in _topmost(running.parts, running.forms):
            query = self._want(running, part, form, is_deferred=True)
            if query is not None:
                started = time.time()
                self._produce(query, asked.inputs)
                self._produced(asked, form, part, started)

    def _produced(self, asked: AskedQuery, form: KeptForm, part: AskedPart, started: float) -> None:
        """Other programs know what has been kept, before any query has read it."""
        what = summarize(part.node)
        root = PlanPart(None, what, 0.0, 0)
        past = self._history.past(root, "while idle", started, time.time() - started)
        verdict = Verdict(form.key, what, form, "produced while the program was idle")
        sources = None if asked.sources is None else asked.sources.text
        self._history.add(RanQuery(past, asked.digest, (form,), (verdict,), sources=sources))


def _rollups(
    spark: SparkSession,
    bridge: CatalystBridge,
    manager: CacheServiceManager[Query],
    history: QueryHistory,
    policy: RecurrencePolicy,
) -> Rollups | None:
    try:
        plans = RollupPlans(spark, bridge)
        pieces = RollupPieces(plans, NarrowedSources(spark, bridge))
        return Rollups(plans, pieces, bridge, manager, history, policy.least_seconds)
    except UnsupportedSparkError as error:
        logger.warning("aggregates are not made of finer ones: %s", error)
        return None


def _in_groups(verdict: Verdict) -> Verdict:
    """A join's verdict where groups of its rows are kept."""
    if verdict.form is None:
        return verdict
    return replace(verdict, form=None, why="groups of its rows are kept instead")


def _topmost(parts: Sequence[AskedPart], chosen: Mapping[str, object]) -> Iterator[AskedPart]:
    """The topmost ones of parts whose keys are chosen."""
    waiting = list(reversed(parts))
    while waiting:
        part = waiting.pop()
        if part.key in chosen:
            yield part
        else:
            waiting.extend(reversed(part.inputs))


def _dataset(part: AskedPart, form: KeptForm, inputs: SessionInputs) -> IntermediateDataSetID:
    """What a form of a part is called, once it is kept."""
    digest = digest_of(part.node.rows, sorted(form.columns))
    return IntermediateDataSetID.from_digest(
        inputs.dataset_digest(replace(part.node, digest=digest))
    )
