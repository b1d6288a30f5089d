"""What the queries of a program have asked of joins, in groups."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.rollups import AskedRollups, Groups, Rollup
from holdfast.api.asked_query import AskedQuery
from holdfast.last_used import put
from holdfast.plan.file_sources import all_operators
from holdfast.plan.grouped_join import GroupedJoin, grouped_join
from holdfast.plan.hashing import hash_parts
from holdfast.spark.catalyst_bridge import CatalystBridge
from holdfast.spark.plans.rollups import RollupPlans
from holdfast.spark.plans.shapes import shapes

_MOST_KNOWN = 1_000
# Each may hold a plan in the JVM.
_MOST_FIRST = 64
# Each query tells of a few.
_MOST_UNTOLD = 64


@dataclass(frozen=True, slots=True)
class JoinAggregate:
    """An aggregate of a query that groups a join's rows.

    Attributes:
        asked: the query.
        part: the aggregate.
        grouped: the same, with what is between it and the join.
        join: the join.
    """

    asked: AskedQuery
    part: AskedPart
    grouped: GroupedJoin
    join: AskedPart


@dataclass(frozen=True, slots=True)
class JoinQuestion:
    """What an aggregate asks for.

    Attributes:
        rows: of which rows, over whatever files; the same if their columns are called the same.
        groups: the groups.
        digest: that of the aggregate.
        leaves_rows_out: it is of some of the rows only.
    """

    rows: str
    groups: Groups
    digest: str
    leaves_rows_out: bool

    def made_of(self, fine: Groups | None = None, dataset: str = "") -> Rollup:
        """What becomes of it, in words that other questions about the rows use as well.

        Args:
            fine: the groups that are read, or kept, for it.
            dataset: what those are called that are kept already.
        """
        return Rollup(
            self.rows, self.groups.by_text(), self.digest, self.leaves_rows_out, fine, dataset
        )


class JoinQuestions:
    """Knows what has been asked of joins, whatever has become of their files since.

    What is never grouped again isn't looked at: the first question about a join is understood when
    the second one comes. Safe for use by several threads.

    Args:
        plans: understands aggregates.
        bridge: reads their plans.
        history: past queries, also those of other programs.

    Source: FLIP-36, "Long Term Goal".
    """

    def __init__(self, plans: RollupPlans, bridge: CatalystBridge, history: QueryHistory) -> None:
        self._plans = plans
        self._bridge = bridge
        self._history = history
        self._lock = threading.RLock()
        self._asked = AskedRollups()
        self._questions: OrderedDict[str, JoinQuestion | None] = OrderedDict()
        self._rows: OrderedDict[str, str] = OrderedDict()
        # By rows; None where what was asked first is understood.
        self._first: OrderedDict[str, AskedQuery | None] = OrderedDict()
        self._untold: deque[Rollup] = deque(maxlen=_MOST_UNTOLD)

    def is_known(self, aggregate: JoinAggregate) -> bool:
        """Whether its join has been grouped before, over whatever files."""
        if self._history.times(aggregate.join.key):
            return True
        if not self._history.is_like_others(aggregate.join):
            return False
        rows = self._rows_of(aggregate)
        with self._lock:
            return rows in self._first

    def of(self, aggregate: JoinAggregate) -> JoinQuestion | None:
        """What an aggregate asks for; None where that can't be made of groups."""
        key = aggregate.asked.inputs.dataset_digest(aggregate.part.node)
        with self._lock:
            if key in self._questions:
                self._questions.move_to_end(key)
                return self._questions[key]
        grouped = aggregate.grouped
        groups = self._plans.asked(aggregate.asked.query, grouped)
        found = None
        if groups is not None:
            rows = self._rows_of(aggregate)
            found = JoinQuestion(rows, groups, key, leaves_rows_out=bool(grouped.filters))
        with self._lock:
            put(self._questions, key, found, _MOST_KNOWN)
        return found

    def understand_first(self, aggregate: JoinAggregate) -> None:
        """What was asked of its join the first time counts from now on."""
        rows = self._rows_of(aggregate)
        with self._lock:
            first = self._first.get(rows)
            put(self._first, rows, None, _MOST_FIRST)
        for each in aggregates(first) if first is not None else ():
            if self._rows_of(each) == rows:
                self._understand(each)

    def asked(self, query: AskedQuery) -> None:
        """A query has run whose aggregates were not made of groups."""
        for each in aggregates(query):
            if self.is_known(each):
                self.understand_first(each)
                self._understand(each)
            else:
                rows = self._rows_of(each)
                with self._lock:
                    put(self._first, rows, query, _MOST_FIRST)

    def noted(self, rollups: Iterable[Rollup]) -> None:
        """Questions have been asked.

        Args:
            rollups: what has become of each.
        """
        with self._lock:
            for each in rollups:
                self._asked.noted(each)
                self._untold.append(each)

    def remember(self, rollups: Iterable[Rollup]) -> None:
        """Questions have been asked by other programs.

        Args:
            rollups: what has become of each, in order.
        """
        with self._lock:
            for each in rollups:
                self._asked.noted(each)
                put(self._first, each.rows, None, _MOST_FIRST)

    def take_untold(self) -> tuple[Rollup, ...]:
        """The questions of this program that it hasn't told others yet."""
        with self._lock:
            untold = tuple(self._untold)
            self._untold.clear()
        return untold

    def failed(self, rollups: Iterable[Rollup]) -> None:
        """No groups of these joins are kept any more, as that didn't work."""
        with self._lock:
            for each in rollups:
                self._asked.failed(each.rows)

    def are_kept_instead(self, question: JoinQuestion) -> bool:
        """Whether groups of a join are to be kept, and not its rows."""
        with self._lock:
            return self._asked.are_kept_instead(question.rows, question.groups.by_text())

    def worth_keeping(
        self, question: JoinQuestion, kept: Sequence[tuple[Groups, int]]
    ) -> Groups | None:
        """What is to be kept while a question is answered, see `AskedRollups.worth_keeping`.

        Args:
            question: about a join.
            kept: groups of it that are kept, each with how many there are.
        """
        by_text = [(groups.by_text(), number) for groups, number in kept]
        with self._lock:
            return self._asked.worth_keeping(question.made_of(), by_text)

    def _understand(self, aggregate: JoinAggregate) -> None:
        question = self.of(aggregate)
        if question is not None:
            self.noted([question.made_of()])

    def _rows_of(self, aggregate: JoinAggregate) -> str:
        """The same for a join's rows over whatever files, if its columns are called the same."""
        query, join = aggregate.asked.query, aggregate.join
        names = self._plans.names(query, join.node)
        key = hash_parts(join.key, *names)
        with self._lock:
            known = self._rows.get(key)
        if known is not None:
            return known
        found = hash_parts("rows", shapes(self._bridge, query)[join.node.handle], *names)
        with self._lock:
            put(self._rows, key, found, _MOST_KNOWN)
        return found


def aggregates(asked: AskedQuery) -> Iterator[JoinAggregate]:
    """The aggregates of a query that group a join's rows, upper ones first."""
    operators = {each["i"]: each for each in all_operators([*asked.query.reading.operators])}
    for part in (each for top in asked.parts for each in top.walk()):
        grouped = grouped_join(part.node, operators)
        if grouped is None:
            continue
        for below in part.inputs:
            if below.node.handle == grouped.join.handle:
                yield JoinAggregate(asked, part, grouped, below)
