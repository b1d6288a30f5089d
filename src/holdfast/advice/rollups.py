"""Which groups of a join's rows are worth keeping, to make coarser ones of."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.advice.kept_forms import Columns, KeptForm
from holdfast.last_used import put
from holdfast.plan.group_counts import product
from holdfast.plan.hashing import hash_parts
from holdfast.storage.kept_dataset import KeptDataSet

_MOST_GROUPS = 100_000
# So many times as expected: the guess was no use.
_FAR_MORE = 5.0
_MOST_JOINS = 256
_MOST_ASKED = 16
_MOST_QUESTIONS = 64
# Finer groups take up to twice as long, and may never be read: a join is computed so often before,
# and twice as often for each time that they weren't.
_PRICE = 2
# They are made of all of its rows, also for a query that needs some only.
_PRICE_OF_ALL_ROWS = 6
_MOST_UNREAD = 20
# Fewer questions tell nothing; of more, so many must be answered by groups that others asked for.
_FEW = 4
_OFTEN = 0.25
_BY = "by "
# No SQL begins with it.
_NAMED = "#"
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups.

    Attributes:
        by: what they are grouped by: SQL over columns, by what it is of the rows.
        measures: what is computed of each group, in the same way.
        counts: how many values each of `by` has, and of what is compared, as far as is known.
        compares: what decides on conditions, by what they are of the rows: expressions, in the
            same way. To group by those serves other conditions as well. The conditions are grouped
            by, or those of an earlier program, whose literals nobody knows.
    """

    by: Mapping[str, str]
    measures: Mapping[str, str]
    counts: Mapping[str, float | None] = field(default_factory=dict)
    compares: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def number(self) -> float | None:
        """How many groups there are at most, about; None where nobody knows."""
        return product(self.counts.get(each) for each in self.by)

    @property
    def columns(self) -> Columns:
        """What the columns of the groups are of the rows."""
        return frozenset({*(_BY + each for each in self.by), *self.measures})

    def serve(self, asked: Groups) -> bool:
        """Whether other groups can be made of these.

        >>> fine = Groups({"1": "city", "2": "year(day)"}, {"3": "sum(n)"})
        >>> fine.serve(Groups({"1": "city"}, {"3": "sum(n)"}))
        True
        >>> fine.serve(Groups({"4": "street"}, {"3": "sum(n)"}))
        False
        >>> coarse = Groups({"5": "year(day) > 2020"}, {}, compares={"5": {"2": "year(day)"}})
        >>> fine.serve(coarse)
        True
        """
        by = self.by.keys()
        return self.measures.keys() >= asked.measures.keys() and all(
            each in by or (each in asked.compares and by >= asked.compares[each].keys())
            for each in asked.by
        )

    def reads_as(self, asked: Groups) -> bool:
        """Whether these serve others as far as the SQL tells, which may mean something else."""
        by = {*self.by.values()}
        return {*self.measures.values()} >= {*asked.measures.values()} and all(
            text in by or (each in asked.compares and by >= {*asked.compares[each].values()})
            for each, text in asked.by.items()
        )

    def by_text(self) -> Groups:
        """The same, by the SQL itself: what it is of rows whose columns are called the same.

        >>> Groups({"1": "city"}, {"3": "sum(n)"}, {"1": 10.0}).by_text().counts
        {'city': 10.0}
        """
        texts = {
            each: text for what in (self.by, *self.compares.values()) for each, text in what.items()
        }
        return Groups(
            {text: text for text in self.by.values()},
            {text: text for text in self.measures.values()},
            {texts[each]: values for each, values in self.counts.items() if each in texts},
            {
                texts[condition]: {text: text for text in what.values()}
                for condition, what in self.compares.items()
                if condition in self.by
            },
        )

    def comparing(self, condition: str) -> Groups:
        """The same, grouped by what a condition compares, instead of by the condition.

        Args:
            condition: one of `compares`.
        """
        by = {each: text for each, text in self.by.items() if each != condition}
        compares = {each: what for each, what in self.compares.items() if each != condition}
        return replace(self, by=by | {**self.compares[condition]}, compares=compares)

    def called(self, columns: Sequence[str]) -> Groups:
        """The same by what the columns are of other rows.

        Args:
            columns: that, for what is grouped by and what is measured, in order.

        >>> Groups({"1": "city"}, {"3": "sum(n)"}).called(["7", "8"]).measures
        {'8': 'sum(n)'}
        """
        by, measures = columns[: len(self.by)], columns[len(self.by) :]
        return Groups(
            dict(zip(by, self.by.values(), strict=True)),
            dict(zip(measures, self.measures.values(), strict=True)),
        )

    def with_those_of(self, other: Groups) -> Groups:
        """Groups that serve whatever these or the others do."""
        by = {**self.by, **other.by}
        compares = {**self.compares, **other.compares}
        told = {each for each, what in compares.items() if by.keys() >= what.keys()}
        return Groups(
            {each: text for each, text in by.items() if each not in told},
            {**self.measures, **other.measures},
            {**self.counts, **other.counts},
            {each: what for each, what in compares.items() if each not in told},
        )


def condition_name(condition: str) -> str:
    """What a condition is called where its literals aren't to be known; it again, if it is that.

    >>> name = condition_name("size < 7")
    >>> condition_name(name) == name != condition_name("size < 8")
    True
    """
    is_name = condition.startswith(_NAMED)
    return condition if is_name else f"{_NAMED}{hash_parts(condition)[:_DIGITS]}"


def groups_of(form: KeptForm, kept: KeptDataSet) -> Groups:
    """What is kept, as its own columns tell.

    Args:
        form: of groups.
        kept: the groups.
    """
    texts = {column.identity: column.name for column in kept.manifest.dataset.columns}
    by = [each.removeprefix(_BY) for each in form.columns if each.startswith(_BY)]
    measures = [each for each in form.columns if not each.startswith(_BY)]
    return Groups(
        {each: texts[each] for each in sorted(by) if each in texts},
        {each: texts[each] for each in sorted(measures) if each in texts},
    )


@dataclass(frozen=True, slots=True)
class Rollup:
    """Groups of a join's rows that an aggregate of a query asks for.

    Attributes:
        rows: the same for the join's rows over whatever files.
        asked: the groups, by their SQL.
        digest: of the aggregate: what it leaves is there when it is asked for again.
        leaves_rows_out: it is of some of the join's rows only.
        fine: those that are read, or kept, for them; None where they are computed of the join.
        dataset: what those are called that are kept already; empty for others.
    """

    rows: str
    asked: Groups
    digest: str
    leaves_rows_out: bool = False
    fine: Groups | None = None
    dataset: str = ""

    @property
    def is_read(self) -> bool:
        """Whether the groups are kept already."""
        return bool(self.dataset)

    @property
    def price(self) -> int:
        """How often its join has to be computed before finer groups are made the first time."""
        return _PRICE_OF_ALL_ROWS if self.leaves_rows_out else _PRICE

    @property
    def is_made_finer(self) -> bool:
        """Whether more is computed than what is asked for."""
        if self.fine is None or self.is_read:
            return False
        return self.leaves_rows_out or not self.asked.serve(self.fine)


class AskedRollups:
    """What has been asked of joins, in groups. Not safe for use by several threads.

    Nobody knows whether finer groups will be read, so they are made as who rents skis buys some:
    when the rents have come to their price, which doubles for what is never read: because nobody
    asks for it, or because there is no room for it.

    Source: FLIP-36, "Long Term Goal"; Harinarayan, Rajaraman, Ullman, "Implementing Data Cubes
    Efficiently", SIGMOD 1996, whose lattice of views this has a path of.

    >>> asked = AskedRollups()
    >>> by_city = Groups({"1": "city"}, {"3": "sum(n)"}, {"1": 10.0})
    >>> by_year = Groups({"2": "year(day)"}, {"3": "sum(n)"}, {"2": 7.0})
    >>> for digest in ("q1", "q2"):
    ...     asked.noted(Rollup("join", by_city, digest))
    >>> sorted(asked.worth_keeping(Rollup("join", by_year, "q3"), []).by.values())
    ['city', 'year(day)']
    """

    def __init__(self) -> None:
        self._rows: OrderedDict[str, _Asked] = OrderedDict()

    def noted(self, rollup: Rollup) -> None:
        """Groups of a join have been asked for.

        Args:
            rollup: which, and what was made of that.
        """
        one = self._rows.get(rollup.rows, _Asked())
        put(self._rows, rollup.rows, one, _MOST_JOINS)
        asked = one.for_other_conditions(rollup.asked)
        if not rollup.is_read and rollup.digest not in one.answered:
            one.computed = min(_PRICE_OF_ALL_ROWS << one.unread, one.computed + 1)
        put(one.answered, rollup.digest, None, _MOST_QUESTIONS)
        if rollup.is_made_finer:
            one.made(rollup)
        elif rollup.is_read:
            one.read(rollup)
        question = replace(rollup.asked, compares={})
        # What is asked again, or about an answer, tells nothing of other groups.
        if not any(each.serve(question) for each in one.questions):
            one.asked += 1
            one.served += rollup.is_read or one.covers(asked)
        one.compared(rollup.asked)
        _add(one.last, asked)
        _add(one.questions, question)

    def failed(self, rows: str) -> None:
        """No groups of a join are kept any more, as that didn't work."""
        self._rows.setdefault(rows, _Asked()).is_hopeless = True

    def are_kept_instead(self, rows: str, asked: Groups) -> bool:
        """Whether groups of a join are to be kept, and not its rows.

        Not where most of what is asked of it are groups that nobody has asked for before.

        Args:
            rows: the join's, see `Rollup`.
            asked: the groups.
        """
        one = self._rows.get(rows, _Asked())
        is_likely = one.asked < _FEW or one.served >= one.asked * _OFTEN
        return is_likely and _are_few(asked.number) and not one.is_hopeless

    def worth_keeping(self, rollup: Rollup, kept: Sequence[tuple[Groups, int]]) -> Groups | None:
        """What is to be kept while groups are computed that aren't kept.

        As fine as may be of use, once that is paid for; what is asked for until then.

        Args:
            rollup: what is asked for.
            kept: groups that are kept, each with how many there are.
        """
        one = self._rows.get(rollup.rows, _Asked())
        if one.is_hopeless or not _are_few(rollup.asked.number):
            return None
        if one.computed < one.price_of(rollup):
            # What is asked for takes next to nothing to keep, unless that is some rows only.
            return None if rollup.leaves_rows_out else rollup.asked
        asked = one.for_other_conditions(rollup.asked)
        if any(number > _MOST_GROUPS * _FAR_MORE for _, number in kept):
            return None
        chosen, number = asked, asked.number
        for other, others in one.recent(kept):
            both = chosen.with_those_of(other)
            bound = both.number
            if bound is None and others is not None and number is not None:
                bound = number * others
            if _are_few(bound):
                chosen, number = both, bound
        return chosen


def _add(last: deque[Groups], asked: Groups) -> None:
    for each in list(last):
        if asked.serve(each):
            last.remove(each)
    last.append(asked)


def _are_few(number: float | None) -> bool:
    return number is not None and number <= _MOST_GROUPS


@dataclass
class _Asked:
    """What has been asked of a join.

    Attributes:
        last: the last groups, in order, by what conditions compare where other ones have come.
        questions: the same as they were asked.
        computed: how often it has been computed for groups that nothing was kept for, less what was
            spent on finer ones.
        finest: the last finer groups that were made.
        unread: how often such were made since some were read.
        answered: the digests of the last aggregates.
        asked: how many groups have been asked for that no others had.
        served: how many of them were kept, or could have been.
        is_hopeless: nothing is kept.
        conditions: names of those that have been asked for, by what they compare; None for several.
    """

    last: deque[Groups] = field(default_factory=lambda: deque(maxlen=_MOST_ASKED))
    questions: deque[Groups] = field(default_factory=lambda: deque(maxlen=_MOST_QUESTIONS))
    computed: int = 0
    finest: Groups | None = None
    unread: int = 0
    answered: OrderedDict[str, None] = field(default_factory=OrderedDict)
    asked: int = 0
    served: int = 0
    is_hopeless: bool = False
    conditions: OrderedDict[frozenset[str], str | None] = field(default_factory=OrderedDict)

    def price_of(self, rollup: Rollup) -> int:
        """How often it has to be computed before finer groups are made of it."""
        return rollup.price << self.unread

    def made(self, rollup: Rollup) -> None:
        """Finer groups have been made of it."""
        assert rollup.fine is not None
        self.computed -= self.price_of(rollup)
        self.unread = min(self.unread + 1, _MOST_UNREAD)
        self.finest = rollup.fine.by_text()

    def read(self, rollup: Rollup) -> None:
        """Groups of it have been read."""
        assert rollup.fine is not None
        if self.finest is not None and rollup.fine.reads_as(self.finest):
            self.unread = 0

    def covers(self, asked: Groups) -> bool:
        """Whether groups would have been kept that serve these."""
        every = Groups({}, {})
        for each in self.last:
            every = every.with_those_of(each)
        return every.serve(asked)

    def compared(self, asked: Groups) -> None:
        """Conditions have been asked for."""
        for condition, what in asked.compares.items():
            key, name = frozenset(what), condition_name(condition)
            is_new = key not in self.conditions or self.conditions[key] == name
            put(self.conditions, key, name if is_new else None, _MOST_ASKED)

    def for_other_conditions(self, asked: Groups) -> Groups:
        """Groups that serve other conditions too, where such have been asked for before."""
        for condition, what in asked.compares.items():
            name = condition_name(condition)
            if self.conditions.get(frozenset(what), name) != name:
                finer = asked.comparing(condition)
                asked = finer if _are_few(finer.number) else asked
        return asked

    def recent(self, kept: Iterable[tuple[Groups, int]]) -> Iterable[tuple[Groups, float | None]]:
        yield from ((each, each.number) for each in reversed(self.last))
        yield from ((groups, float(number)) for groups, number in kept)
