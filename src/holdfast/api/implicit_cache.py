"""What a session's queries reuse, read and keep without being asked to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.query_history import QueryHistory
from holdfast.api.asked_query import AskedQuery
from holdfast.api.live_answers import LiveAnswers
from holdfast.api.recurring_results import Ran, ReadLater, RecurrencePolicy, RecurringResults
from holdfast.config import (
    IMPLICIT_CACHE_ENABLED,
    IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE,
    IMPLICIT_CACHE_RESULTS_CLOSE_TIMEOUT,
    IMPLICIT_CACHE_RESULTS_ENABLED,
    IMPLICIT_CACHE_RESULTS_LIFETIME,
    IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME,
    Configuration,
)
from holdfast.errors import UnsupportedSparkError
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.job_master import JobRequest
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.live_shuffles import LiveShuffles, WatchedQueries
from holdfast.spark.plans.live_aggregates import LiveAggregates

logger = logging.getLogger(__name__)


class ImplicitCache:
    """What a session's queries reuse, read and keep without being asked to.

    Attributes:
        live: the shuffles that they reuse; None where they aren't to.
        recurring: what keeps results that they compute again and again; None for nothing.

    Args:
        live: as above.
        recurring: as above.
        answers: has queries read what aggregates have left where nothing is kept; None where
            `recurring` does.

    Source: FLIP-36, "Implementation Details", phase 3, and "Long Term Goal".
    """

    def __init__(
        self,
        live: LiveShuffles | None = None,
        recurring: RecurringResults | None = None,
        answers: LiveAnswers | None = None,
    ) -> None:
        self.live = live
        self.recurring = recurring
        self._answers = answers

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        history: QueryHistory,
        configuration: Configuration,
        produce: Callable[[Query, SessionInputs], object],
        is_stored: Callable[[Query], bool],
    ) -> ImplicitCache:
        """That of a session, as its environment is configured.

        Args:
            spark: PySpark's own session.
            bridge: reads and rewrites its plans.
            manager: what is cached and what is kept.
            history: past queries.
            configuration: of its environment.
            produce: produces a query, which is wanted, under its settings.
            is_stored: whether Spark itself has persisted a part of a query.
        """
        if not configuration.get(IMPLICIT_CACHE_ENABLED):
            return cls()
        live = _live_shuffles(spark, configuration)
        answers = None
        if live is not None:
            answers = LiveAnswers(LiveAggregates(spark, bridge, live), manager.wanted)
        if not configuration.get(IMPLICIT_CACHE_RESULTS_ENABLED):
            return cls(live, answers=answers)
        stays = configuration.get(IMPLICIT_CACHE_RESULTS_LIFETIME)
        policy = RecurrencePolicy(
            configuration.get(IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME).total_seconds(),
            None if stays is None else stays.total_seconds(),
            configuration.get(IMPLICIT_CACHE_RESULTS_CLOSE_TIMEOUT).total_seconds(),
        )

        def reused_seconds(query: Query) -> float:
            if live is None:
                return 0.0
            outlooks = live.outlook(bridge.dataframe(query.plan))
            return sum(each.seconds for each in outlooks if each.is_reused)

        recurring = RecurringResults(
            spark,
            bridge,
            manager,
            history,
            policy,
            produce,
            answers,
            reused_seconds,
            is_stored,
        )
        return cls(live, recurring)

    @property
    def looks_at_queries(self) -> bool:
        """Whether any query may be run as another one."""
        return self.recurring is not None or self._answers is not None

    def start(self) -> None:
        """Queries that no table runs are looked at as well."""
        if self.live is not None:
            self.live.start()

    def tend(self) -> None:
        """A query is about to come: what is produced in the background gives way to it."""
        if self.live is not None:
            self.live.tend()
        if self.recurring is not None:
            self.recurring.behind.give_way()

    def settle(self, seconds: float) -> bool:
        """Waits until what queries have left to be kept is kept or refused; whether it is."""
        return self.recurring is None or self.recurring.settle(seconds)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Nothing is produced in the background meanwhile."""
        if self.recurring is None:
            yield
            return
        with self.recurring.behind.answering():
            yield

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Spark computes an answer inside, and this thread waits for it."""
        if self.recurring is None:
            yield
            return
        with self.recurring.computing():
            yield

    @contextmanager
    def reusing(self) -> Iterator[WatchedQueries]:
        """Counts which shuffles of earlier queries the actions of this thread read meanwhile."""
        if self.live is None:
            yield WatchedQueries()
            return
        with self.live.watched() as reused:
            yield reused

    def asked(
        self,
        request: JobRequest[Query],
        *,
        runs: bool = True,
        keeps: bool = False,
        sources: AskedSources | None = None,
    ) -> tuple[AskedQuery | None, JobRequest[Query]]:
        """What is kept, or read, of a job's query implicitly; and the job that is run.

        Nothing is where an answer can't be computed once more: should it fail over what is kept,
        it is run as it was written.

        Args:
            request: as it was asked.
            runs: what it is to keep, or to read, is wanted by later jobs as well.
            keeps: it may keep something that isn't kept yet.
            sources: roughly what it reads; None where that isn't known.
        """
        if not request.is_repeatable:
            return None, request
        try:
            if self.recurring is None:
                if self._answers is None:
                    return None, request
                asked = self._answers.looked_at(request.query, request.inputs)
            else:
                look = self.recurring.asked if runs else self.recurring.looked_at
                asked = look(request.query, request.inputs, keeps=keeps)
        except Exception:
            logger.warning("a query is not looked at for what recurs", exc_info=True)
            return None, request
        asked = replace(asked, sources=sources)
        if asked.runs_as is request.query:
            return asked, request
        runs_as = asked.runs_as
        return asked, replace(request, query=runs_as, root=runs_as.root, as_written=request.query)

    def is_new(self, sources: AskedSources) -> bool:
        """Whether a query is run as it is written, without being read before.

        Args:
            sources: roughly what it reads.
        """
        try:
            return self.recurring is not None and self.recurring.is_new(sources)
        except Exception:
            logger.warning("it isn't known what earlier queries have read", exc_info=True)
            return False

    def ran_unread(self, read: ReadLater, sources: AskedSources, ran: Ran) -> None:
        """A query has ended well that was not read before, see `RecurringResults.ran_unread`."""
        if self.recurring is not None:
            self.recurring.ran_unread(read, sources, ran)

    def failed(self, asked: AskedQuery | None, elapsed: float) -> None:
        """A query has failed with what is kept implicitly, and has been run as it was written.

        Args:
            asked: what `asked` has given for it.
            elapsed: how long both took, in seconds.
        """
        if self.recurring is not None and asked is not None:
            self.recurring.failed(asked, elapsed)
        if self._answers is not None and asked is not None:
            self._answers.failed(asked)

    def ran(self, asked: AskedQuery | None, ran: Ran) -> None:
        """A query has ended well, and this thread is still in its block.

        Args:
            asked: what `asked` has given for it.
            ran: how it has run.
        """
        if self.recurring is not None and asked is not None:
            self.recurring.ran(asked, ran)
        if self._answers is not None and asked is not None:
            self._answers.ran(asked, ran.elapsed)

    def explained(self, asked: AskedQuery | None, runs: Callable[[], DataFrame]) -> Iterator[str]:
        """What becomes of a query's parts and shuffles, for people.

        Args:
            asked: what `asked` has given for it.
            runs: gives what would be run.
        """
        for verdict in () if asked is None else asked.verdicts:
            outcome = "not read" if verdict.is_kept else "not kept unasked"
            if asked is not None and verdict.key in asked.forms:
                outcome = "to be kept by the next job"
            yield f"{outcome}: {verdict.what}\n  {verdict.why}"
        if self.live is not None:
            yield from _explained_shuffles(self.live, runs())

    def close(self) -> None:
        """Nothing is reused or produced any more. Does nothing the second time."""
        if self.recurring is not None:
            self.recurring.close()
        if self.live is not None:
            self.live.stop()


def _live_shuffles(spark: SparkSession, configuration: Configuration) -> LiveShuffles | None:
    most = configuration.get(IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE)
    try:
        return LiveShuffles(spark, most.limit)
    except UnsupportedSparkError as error:
        logger.warning("shuffles of earlier queries are not reused: %s", error)
        return None


def _explained_shuffles(live: LiveShuffles, runs: DataFrame) -> Iterator[str]:
    """What becomes of a job's shuffles and broadcasts: those in doubt once for each reason."""
    told: set[str | None] = set()
    for each in live.outlook(runs):
        if each.is_reused:
            yield (
                f"reused: {each.what}\n"
                f"  as an earlier query left it; its tasks took {each.seconds:.1f} s"
            )
        elif each.is_held:
            yield f"to be held for later queries: {each.what}"
        elif each.why_not not in told:
            told.add(each.why_not)
            yield f"not reused: {each.what}\n  as {each.why_not}"
