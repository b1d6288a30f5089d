"""Aggregates whose shuffles earlier queries have left, with more columns than are asked for.

Spark leaves out what nothing uses before it plans a query, so that a question about an answer's
columns has another shuffle than the answer had. Here the aggregate is planned as it was, and what
is asked about it is planned above that.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import AskedPart
from holdfast.last_used import put
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.live_shuffles import LiveShuffles

_AGGREGATE = "Aggregate"
# Each holds a plan in the JVM.
_MOST = 64


@dataclass(frozen=True, slots=True)
class _Ran:
    """An aggregate that a query has run.

    Attributes:
        plan: the JVM's analyzed plan, which puts out what the query has used.
        columns: what those columns are of the rows, in order.
    """

    plan: Any
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AliveQuery:
    """A query that reads what the shuffles of aggregates have left.

    Attributes:
        query: over the analyzed plan.
        keys: of the aggregates.
    """

    query: Query
    keys: frozenset[str]


class LiveAggregates:
    """The aggregates that a session's queries have run. Safe for use by several threads.

    Args:
        spark: the session that runs the queries.
        bridge: reads and rewrites its plans.
        live: what their shuffles have left.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge, live: LiveShuffles) -> None:
        self._bridge = bridge
        self._live = live
        self._jvm = JvmMembers.of(spark)
        self._session = cast(Any, spark)._jsparkSession
        self._lock = threading.RLock()
        self._ran: OrderedDict[str, _Ran] = OrderedDict()

    def ran(self, query: Query, parts: Sequence[AskedPart]) -> None:
        """A query has run.

        Args:
            query: over its analyzed plan, as it was run.
            parts: the topmost ones of it that could be kept.
        """
        for part in (each for top in parts for each in top.walk()):
            if part.node.operator == _AGGREGATE:
                plan = self._project(query, part, self._jvm)
                with self._lock:
                    known = self._ran.get(part.key)
                    if known is None or not {*part.columns} <= {*known.columns}:
                        known = _Ran(plan, _used(part))
                    put(self._ran, part.key, known, _MOST)

    def of(self, query: Query, parts: Sequence[AskedPart]) -> AliveQuery | None:
        """A query that reads what the shuffles of aggregates have left; None where none has.

        Args:
            query: over its analyzed plan.
            parts: the topmost ones of it that could be kept.
        """
        made: dict[int, tuple[Any, Any]] = {}
        keys = set()
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            with self._lock:
                ran = self._ran.get(part.key)
            if ran is None or not {*part.columns} <= {*ran.columns}:
                if not part.inputs:
                    # It is to be computed, and may be worth keeping.
                    return None
                waiting += part.inputs
                continue
            keys.add(part.key)
            made[part.top.handle] = self._as_it_was(query, part, ran)
        if not made:
            return None
        if not all(self._is_there(each) for _, each in made.values()):
            self.forget(keys)
            return None
        plans = {handle: plan for handle, (plan, _) in made.items()}
        plan = self._bridge.substitute_upwards(query, plans)
        return AliveQuery(self._bridge.read(plan), frozenset(keys))

    def forget(self, keys: Iterable[str]) -> None:
        """Aggregates are computed from now on.

        Args:
            keys: theirs.
        """
        with self._lock:
            for key in keys:
                self._ran.pop(key, None)

    def _as_it_was(self, query: Query, part: AskedPart, ran: _Ran) -> tuple[Any, Any]:
        """The columns that a query uses, of an aggregate as it was; and that alone."""
        dataframe = self._bridge.dataframe(ran.plan)
        planned = cast(Any, dataframe)._jdf.queryExecution()
        leaf = self._jvm.query_stage(ran.plan, planned.sparkPlan())
        columns, top = leaf.output(), query.reading.node(part.top.handle).output()
        nothing = self._jvm.to_seq([])
        aliases = []
        for place, what in zip(part.used, _used(part), strict=True):
            old = top.apply(place)
            aliases.append(
                self._jvm.alias(
                    columns.apply(ran.columns.index(what)),
                    old.name(),
                    old.exprId(),
                    old.qualifier(),
                    self._jvm.some(old.metadata()),
                    nothing,
                )
            )
        return self._jvm.project(self._jvm.to_seq(aliases), leaf), dataframe

    def _is_there(self, dataframe: Any) -> bool:
        """Whether nothing below the aggregate would be run."""
        outlooks = self._live.outlook(dataframe)
        return bool(outlooks) and all(each.is_reused for each in outlooks)

    @staticmethod
    def _project(query: Query, part: AskedPart, jvm: JvmMembers) -> Any:
        plan = query.reading.node(part.node.handle)
        output = plan.output()
        return jvm.project(jvm.to_seq([output.apply(place) for place in part.places]), plan)


def _used(part: AskedPart) -> tuple[str, ...]:
    """What each of the columns that a query uses is of the part's rows."""
    return tuple(part.node.columns[place].digest for place in part.places)
