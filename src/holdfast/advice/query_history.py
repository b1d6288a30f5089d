"""Past queries, and what was kept of them: what the next ones are judged by."""

from __future__ import annotations

import itertools
import statistics
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import StorageRates
from holdfast.advice.query_records import read, written
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.rollups import Rollup
from holdfast.last_used import put
from holdfast.plan.summary import summarize

_MOST_QUERIES = 1_000
_MOST_FORMS = 8
# Of a join's groups, over files as they were at some time.
_MOST_GROUPS = 100
# Of joins.
_MOST_QUESTIONS = 500
# Parts of which anything is known.
_MOST_PARTS = 5_000
# Of sources, two and two.
_MOST_SOURCES = 50_000
# How often a part's cost is remembered.
_MOST_TIMES = 9


class QueryHistory:
    """The last queries of a program, and of others like it. Safe for use by several threads.

    Args:
        application: the identifier of the program.
        program: its name.
        past: gives what programs have told of queries, in order, when it is first asked for.
        told: is told of each query of this program that has run.
    """

    def __init__(
        self,
        application: str,
        program: str,
        past: Callable[[], Iterable[bytes]] = tuple,
        told: Callable[[bytes], object] = len,
    ) -> None:
        self._application = application
        self._program = program
        self._past: Callable[[], Iterable[bytes]] | None = past
        self._told = told
        self._lock = threading.RLock()
        self._queries: deque[PastQuery] = deque(maxlen=_MOST_QUERIES)
        self._forms: dict[str, deque[KeptForm]] = {}
        self._known: dict[str, deque[PlanPart]] = {}
        self._times: Counter[str | None] = Counter()
        self._rates = LearnedRates()
        self._numbers = itertools.count(1)
        # What queries have read, roughly; and those that computed a part again, with any literals.
        self._sources: OrderedDict[str, None] = OrderedDict()
        self._recurring: OrderedDict[str, None] = OrderedDict()

    def load(self) -> Sequence[Rollup]:
        """Knows of past queries of other programs. Does nothing the second time.

        Returns:
            what they have asked of joins last, in order.
        """
        with self._lock:
            past, self._past = self._past, None
        questions: deque[Rollup] = deque(maxlen=_MOST_QUESTIONS)
        for content in () if past is None else past():
            ran = read(content)
            if ran is not None:
                self._extend(ran)
                if ran.sources is not None:
                    self.is_new(AskedSources(ran.sources))
                questions.extend(ran.questions)
                for form in ran.forms:
                    self.add_form(form)
        return questions

    def is_new(self, sources: AskedSources) -> bool:
        """Whether no query before had anything in common with one that is about to run, and none
        that differs by literals has computed a part again. The next one like it is not new.

        Args:
            sources: what it reads.
        """
        known_by, like = sources.known_by, sources.like
        with self._lock:
            is_new = self._sources.keys().isdisjoint(known_by)
            is_new = is_new and self._recurring.keys().isdisjoint(like)
            for each in known_by:
                put(self._sources, each, None, _MOST_SOURCES)
        return is_new

    @property
    def queries(self) -> Sequence[PastQuery]:
        """Those that have run, in order."""
        with self._lock:
            return list(self._queries)

    def forms_of(self, key: str) -> Sequence[KeptForm]:
        """What has been kept of a part at some time.

        Args:
            key: see `PlanPart`.
        """
        with self._lock:
            return list(self._forms.get(key, ()))

    def times(self, key: str) -> int:
        """How often a part has been asked for.

        Args:
            key: see `PlanPart`.
        """
        with self._lock:
            return self._times[key]

    def rows_of(self, key: str) -> int | None:
        """How many rows a part has; None where that isn't known.

        Args:
            key: see `PlanPart`.
        """
        with self._lock:
            known = self._known.get(key, ())
            return next((each.rows for each in reversed(known) if each.rows is not None), None)

    def is_like_others(self, part: AskedPart) -> bool:
        """Whether a part has been asked for, with any literals, over any files."""
        return bool(self._known_of(part))

    def add_form(self, form: KeptForm) -> None:
        """Something is kept, or is going to be."""
        with self._lock:
            most = _MOST_GROUPS if form.dataset else _MOST_FORMS
            forms = self._forms.setdefault(form.key, deque(maxlen=most))
            # What was used last stays longest.
            if form in forms:
                forms.remove(form)
            forms.append(form)

    def add(
        self,
        ran: RanQuery,
    ) -> None:
        """A query of this program has run.

        Args:
            ran: what it has cost, and what became of its parts.
        """
        self._extend(ran)
        self._told(written(ran))

    def past(self, root: PlanPart, what: str, started: float, elapsed: float) -> PastQuery:
        """A query of this program.

        Args:
            root: the whole of it.
            what: what ran it, for people.
            started: when, in seconds since 1970.
            elapsed: how long it took, in seconds.
        """
        number = next(self._numbers)
        return PastQuery(self._application, self._program, number, what, started, elapsed, root)

    def _extend(self, ran: RanQuery) -> None:
        query = ran.query
        with self._lock:
            for use in ran.uses:
                self._rates.noted(use)
            self._queries.append(query)
            for part in query.root.walk():
                for name in filter(None, (part.key, part.template)):
                    times = self._known.setdefault(name, deque(maxlen=_MOST_TIMES))
                    times.append(part)
            self._times.update({part.key for part in query.root.walk()})
            if ran.sources is not None and any(
                part.key is not None and self._times[part.key] > 1 for part in query.root.walk()
            ):
                for each in AskedSources(ran.sources).like:
                    put(self._recurring, each, None, _MOST_SOURCES)
            for key in list(self._known)[: max(0, len(self._known) - _MOST_PARTS)]:
                # The one that was met first of all.
                for known in (self._known, self._times, self._forms):
                    known.pop(key, None)

    def seconds_of(self, part: AskedPart) -> float:
        """What it takes to compute a part, in seconds of tasks: the median; 0 where unknown."""
        known = self._known_of(part)
        return statistics.median(each.seconds for each in known) if known else 0.0

    @property
    def rates(self) -> StorageRates:
        """How fast kept rows are written and read."""
        with self._lock:
            return self._rates.rates

    def seconds_to_read(self, part: AskedPart) -> float:
        """What it takes to read a part, in seconds of tasks; 0 where unknown."""
        known = self._known_of(part)
        if not known:
            return 0.0
        with self._lock:
            return self._rates.seconds_to_read(part.key, known[-1].bytes)

    def is_worth_reading(self, part: AskedPart) -> bool:
        """Whether it takes less to read a part than to compute it, as far as is known."""
        return not self._known_of(part) or self.seconds_to_read(part) < self.seconds_of(part)

    def _known_of(self, part: AskedPart) -> list[PlanPart]:
        """The last times that a part was computed; or those of what it is like."""
        with self._lock:
            return list(self._known.get(part.key) or self._known.get(part.template) or ())

    def expected(
        self, parts: Sequence[AskedPart], now: float, *, asked_before: int = 0
    ) -> PastQuery:
        """A query that is about to run, with what its parts may take.

        Args:
            parts: the topmost ones of it that could be kept.
            now: in seconds since 1970.
            asked_before: parts that have been asked for less often are like no others.
        """
        inputs = tuple(self._expected(part, asked_before) for part in parts)
        root = PlanPart(None, "", 0.0, 0, inputs)
        return PastQuery(self._application, self._program, 0, "", now, 0.0, root)

    def _expected(self, part: AskedPart, asked_before: int) -> PlanPart:
        inputs = tuple(self._expected(each, asked_before) for each in part.inputs)
        known, seconds = self._known_of(part), self.seconds_of(part)
        last = known[-1] if known else None
        with self._lock:
            times = self._times[part.key]
        return PlanPart(
            part.key if times >= asked_before else None,
            summarize(part.node),
            max(0.0, seconds - sum(each.seconds for each in inputs)),
            0 if last is None else last.bytes,
            inputs,
            part.columns,
            0.0 if last is None else last.extra_seconds,
            part.template,
        )
