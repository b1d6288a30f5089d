"""Questions about answers, which read what the answers' shuffles have left."""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.advice.asked_parts import asked_parts
from holdfast.advice.repeated_queries import RepeatedQueries
from holdfast.api.asked_query import AskedQuery
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.wanted import Wanted
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.live_aggregates import LiveAggregates

logger = logging.getLogger(__name__)


class LiveAnswers:
    """Has a session's queries read what the shuffles of earlier aggregates have left.

    Args:
        aggregates: that have run.
        wanted: what is to be kept, as somebody has asked for it: that is an order.
    """

    def __init__(self, aggregates: LiveAggregates, wanted: Wanted[Query]) -> None:
        self._aggregates = aggregates
        self._wanted = wanted
        self._repeated = RepeatedQueries()

    def looked_at(self, query: Query, inputs: SessionInputs) -> AskedQuery:
        """What is to run in the stead of a query.

        Args:
            query: over its analyzed plan.
            inputs: the settings that it runs under.
        """
        if self._wanted and any(self._wanted.find(node.digest) for node in query.root.walk()):
            return AskedQuery(query, inputs, (), query)
        # Nobody asks what is like it over other files.
        parts = asked_parts(query.root, query.reading.operators, inputs, lambda: query.root)
        asked = AskedQuery(query, inputs, parts, query)
        if self._repeated.forms_before(asked.digest) is not None:
            return asked
        return self.alive(asked) or asked

    def alive(self, asked: AskedQuery) -> AskedQuery | None:
        """A query that reads what is left of its aggregates' shuffles; None if nothing is.

        Args:
            asked: the query.
        """
        try:
            found = self._aggregates.of(asked.query, asked.parts)
        except Exception:
            logger.debug("a query doesn't read what is left of its aggregates", exc_info=True)
            return None
        return None if found is None else replace(asked, runs_as=found.query, alive=found.keys)

    def ran(self, asked: AskedQuery, elapsed: float) -> None:
        """A query has ended well.

        Args:
            asked: what `looked_at` has given for it.
            elapsed: how long it took, in seconds.
        """
        if not asked.alive:
            self._repeated.ran(asked.digest, {}, elapsed)
        self.left(asked)

    def left(self, asked: AskedQuery) -> None:
        """A query has left shuffles, if it isn't made of those of others.

        Args:
            asked: the query.
        """
        if asked.alive:
            return
        try:
            self._aggregates.ran(asked.query, asked.parts)
        except Exception:
            logger.debug("it isn't known what a query has left", exc_info=True)

    def failed(self, asked: AskedQuery) -> None:
        """A query has failed, and may not have without what others have left.

        Args:
            asked: what `looked_at` has given for it.
        """
        self._aggregates.forget(asked.alive)
