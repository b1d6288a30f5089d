"""Aggregates of a join that are made of finer ones, which are kept unasked."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.rollups import AskedRollups, Groups, Rollup, groups_of
from holdfast.advice.worth_keeping import Verdict
from holdfast.api.asked_query import AskedQuery
from holdfast.api.rollup_pieces import GroupsInPieces, GroupsPiece, Kept, RollupPieces
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_sources import all_operators
from holdfast.plan.grouped_join import GroupedJoin, grouped_join
from holdfast.plan.hashing import hash_parts
from holdfast.plan.stand_ins import standing_in
from holdfast.plan.summary import summarize
from holdfast.plan.terms import digests
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.rollups import RollupPlans
from holdfast.spark.plans.shapes import shapes

_MOST_KNOWN = 1_000
# Each may hold a plan in the JVM.
_MOST_FIRST = 64
# How much longer it may take to compute all of a join than the rows that a query uses, as guessed:
# one equality is little enough.
_MOST_EXTRA = 5.0
# Each is a plan of its own, so more are written together: they are few rows.
_MOST_APART = 2

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Aggregate:
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
class _Question:
    """What an aggregate asks for.

    Attributes:
        rows: of which rows, over whatever files; the same if their columns are called the same.
        groups: the groups.
    """

    rows: str
    groups: Groups

    @property
    def by_text(self) -> tuple[str, Groups]:
        """The same in words that other questions about the rows use as well."""
        return self.rows, self.groups.by_text()


@dataclass(frozen=True, slots=True)
class _Fine:
    """Groups that an aggregate is made of, in part or as a whole.

    Attributes:
        groups: the groups.
        why: they are kept, if they aren't yet.
        join: whose rows they are of.
    """

    groups: GroupsPiece
    why: str
    join: AskedPart


class Rollups:
    """Has aggregates read finer groups that are kept, or keep them.

    A join that has been grouped before is likely to be grouped again, by something else. Groups by
    all that it was asked by are few beside its rows, and cost next to nothing to keep. Safe for use
    by several threads.

    Args:
        plans: writes aggregates in another way.
        pieces: finds groups that were kept before files were added.
        bridge: reads and rewrites plans.
        manager: what is cached and what is kept.
        history: past queries.
        least_seconds: what a join takes at least of which groups are kept, in seconds of tasks.

    Source: FLIP-36, "Long Term Goal".
    """

    def __init__(
        self,
        plans: RollupPlans,
        pieces: RollupPieces,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        history: QueryHistory,
        least_seconds: float,
    ) -> None:
        self._plans = plans
        self._pieces = pieces
        self._bridge = bridge
        self._manager = manager
        self._history = history
        self._least_seconds = least_seconds
        self._lock = threading.Lock()
        self._asked = AskedRollups()
        self._known: OrderedDict[str, _Question | None] = OrderedDict()
        # By keys of joins.
        self._rows: OrderedDict[str, str] = OrderedDict()
        # Those that this program has grouped; None where what was asked first is known to `_asked`.
        self._first: OrderedDict[str, AskedQuery | None] = OrderedDict()
        self._templates: OrderedDict[str, None] = OrderedDict()

    def of(
        self, asked: AskedQuery, parts_of: Callable[[Query], tuple[AskedPart, ...]], *, keeps: bool
    ) -> AskedQuery | None:
        """A query whose aggregates are made of finer ones; None where that is of no use.

        Args:
            asked: the query.
            parts_of: gives the parts of another one that could be kept.
            keeps: whether it may keep something that isn't kept yet.
        """
        made: dict[int, object] = {}
        stand_ins: dict[str, CanonicalNode] = {}
        below: set[int] = set()
        fine: dict[str, _Fine] = {}
        rollups = []
        for each in _aggregates(asked):
            grouped, join = each.grouped, each.join
            if grouped.aggregate.handle in below:
                continue
            found = self._made_of(each, keeps)
            if found is None:
                continue
            chosen, groups = found
            pieces: Sequence[GroupsPiece] = groups.pieces
            queries = [piece.query for piece in pieces]
            if keeps and len(groups.pieces) > _MOST_APART:
                together = self._plans.together(groups.whole.query, queries)
                if together is not None:
                    stand_ins[together.root.digest] = groups.whole.query.root
                    pieces, queries = [groups.whole, *groups.kept], [together]
            merged = self._plans.merged(asked.query, grouped, queries)
            if merged is None:
                continue
            rollups.append(chosen)
            made[grouped.aggregate.handle] = merged
            below.update(node.handle for node in grouped.join.walk())
            why = _why(chosen, is_together=queries != [piece.query for piece in pieces])
            for piece in pieces:
                fine[piece.query.root.digest] = _Fine(piece, why, join)
        if not made:
            return None
        query = self._bridge.read(self._bridge.substitute(asked.query, made))
        query = replace(query, root=standing_in(query.root, stand_ins))
        parts = parts_of(query)
        forms: dict[str, KeptForm] = {}
        verdicts = []
        for part in (each for top in parts for each in top.walk()):
            one = fine.get(part.node.digest)
            if one is None or part.key in forms or not (keeps or one.groups.dataset):
                continue
            form = KeptForm(part.key, frozenset(digests(one.groups.query.root.columns)))
            forms[part.key] = form
            for told in self._told(asked, one):
                forms[f"{told.key} {told.dataset}"] = told
            if not one.groups.dataset:
                what = summarize(one.groups.query.root)
                verdicts.append(Verdict(part.key, what, form, one.why))
        if not forms:
            return None
        return replace(
            asked,
            query=query,
            parts=parts,
            runs_as=query,
            forms=forms,
            verdicts=tuple(verdicts),
            rolled_up=asked.query.root,
            rollups=tuple(rollups),
        )

    def joins(self, asked: AskedQuery) -> frozenset[str]:
        """The keys of joins of a query whose groups are to be kept, and not their rows.

        Args:
            asked: the query.
        """
        found = set()
        for each in _aggregates(asked):
            if not self._is_worth_it(each.join) or not self._is_known(each):
                continue
            question = self._question(each)
            with self._lock:
                if question is not None and self._asked.are_kept_instead(*question.by_text):
                    found.add(each.join.key)
        return frozenset(found)

    def ran(self, asked: AskedQuery) -> None:
        """A query has run: what it has asked for is known to later ones.

        Args:
            asked: what `of` has given, or what it was given.
        """
        if asked.rollups:
            self._note(asked.rollups)
        else:
            for each in _aggregates(asked):
                rows = self._rows_of(each)
                with self._lock:
                    is_known = rows in self._first
                    _put(self._templates, each.join.template, None, _MOST_KNOWN)
                if is_known or self._history.times(each.join.key) > 1:
                    self._note_first(rows)
                    self._note_groups(each)
                    continue
                # What is never grouped again isn't looked at.
                self._remember(rows, asked)
        for form in asked.forms.values():
            if form.dataset:
                self._history.add_form(form)

    def failed(self, asked: AskedQuery) -> None:
        """A query that was made of finer groups has failed, and may not have without."""
        with self._lock:
            for each in asked.rollups:
                self._asked.failed(each.rows)

    def _is_known(self, aggregate: _Aggregate) -> bool:
        """Whether a join has been grouped before, over whatever files."""
        if self._history.times(aggregate.join.key):
            return True
        with self._lock:
            if aggregate.join.template not in self._templates:
                return False
        rows = self._rows_of(aggregate)
        with self._lock:
            return rows in self._first

    def _remember(self, rows: str, first: AskedQuery | None) -> None:
        with self._lock:
            _put(self._first, rows, first, _MOST_FIRST)

    def _note_first(self, rows: str) -> None:
        """What was asked of a join the first time is known from now on."""
        with self._lock:
            first = self._first.get(rows)
        self._remember(rows, None)
        for each in _aggregates(first) if first is not None else ():
            if self._rows_of(each) == rows:
                self._note_groups(each)

    def _note_groups(self, aggregate: _Aggregate) -> None:
        question = self._question(aggregate)
        if question is not None:
            self._note([Rollup(*question.by_text)])

    def _note(self, rollups: Iterable[Rollup]) -> None:
        with self._lock:
            for each in rollups:
                self._asked.noted(each)

    def _question(self, aggregate: _Aggregate) -> _Question | None:
        key = self._dataset(aggregate.asked, aggregate.part.node)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        groups = self._plans.asked(aggregate.asked.query, aggregate.grouped)
        found = None if groups is None else _Question(self._rows_of(aggregate), groups)
        with self._lock:
            _put(self._known, key, found, _MOST_KNOWN)
        return found

    def _rows_of(self, aggregate: _Aggregate) -> str:
        """The same for a join's rows over whatever files, if its columns are called the same."""
        query, join = aggregate.asked.query, aggregate.join
        names = self._plans.names(query, join.node)
        key = hash_parts(join.key, *names)
        with self._lock:
            if key in self._rows:
                return self._rows[key]
        found = hash_parts("rows", shapes(self._bridge, query)[join.node.handle], *names)
        with self._lock:
            _put(self._rows, key, found, _MOST_KNOWN)
        return found

    def _made_of(self, aggregate: _Aggregate, keeps: bool) -> tuple[Rollup, GroupsInPieces] | None:
        """The finer groups that an aggregate is made of: kept ones, or those that are to be."""
        asked, grouped, join = aggregate.asked, aggregate.grouped, aggregate.join
        over_other_files = self._kept(join.template)
        is_known = self._is_known(aggregate)
        if not (over_other_files or is_known):
            return None
        if is_known:
            self._note_first(self._rows_of(aggregate))
        question = self._question(aggregate)
        if question is None:
            return None
        groups = question.groups
        kept = self._kept(join.key)
        chosen = _fewest(question, kept)
        if chosen is None:
            found = self._pieces.of(asked, grouped, join, groups, over_other_files)
            if found is not None:
                read = found.kept[0]
                return Rollup(*question.by_text, read.groups, read.dataset), found
            if is_known and keeps:
                chosen = self._chosen(aggregate, question, kept)
        if chosen is None or chosen.fine is None:
            return None
        query = self._plans.groups(asked.query, grouped, chosen.fine)
        if query is None or (chosen.is_read and chosen.dataset != self._dataset(asked, query.root)):
            return None
        whole = GroupsPiece.of(query, chosen.fine, chosen.dataset)
        is_whole = len(whole.groups.columns) == len(chosen.fine.columns)
        is_fit = is_whole and whole.groups.serve(groups)
        return (chosen, GroupsInPieces(whole, (whole,))) if is_fit else None

    def _chosen(
        self, aggregate: _Aggregate, question: _Question, kept: Sequence[Kept]
    ) -> Rollup | None:
        """Groups that are to be kept while an aggregate is computed."""
        if not self._is_worth_it(aggregate.join):
            return None
        others = [(groups_of(form, result.kept), result.kept.rows) for form, result in kept]
        with self._lock:
            fine = self._asked.worth_keeping(
                *question.by_text,
                [(groups.by_text(), number) for groups, number in others],
                leaves_rows_out=bool(aggregate.grouped.filters),
            )
        return None if fine is None else Rollup(*question.by_text, fine)

    def _is_worth_it(self, join: AskedPart) -> bool:
        """Whether a join takes long, and all of it little longer than what a query uses of it."""
        takes_long = self._history.seconds_of(join) >= self._least_seconds
        return takes_long and join.extra <= _MOST_EXTRA

    def _kept(self, join: str) -> list[Kept]:
        """The groups that are kept of a join, or of a template over whatever files."""
        forms = {
            IntermediateDataSetID.from_digest(form.dataset): form
            for form in self._history.forms_of(_of_groups(join))
        }
        if not forms:
            return []
        found = self._manager.results.find(list(forms))
        return [(forms[dataset_id], result) for dataset_id, result in found.items()]

    def _told(self, asked: AskedQuery, one: _Fine) -> Iterator[KeptForm]:
        """How later queries find what is kept."""
        node, columns = one.groups.query.root, one.groups.groups.columns
        dataset = self._dataset(asked, node)
        if node.source_files() == one.join.node.source_files():
            yield KeptForm(_of_groups(one.join.key), columns, dataset)
        yield KeptForm(_of_groups(one.join.template), columns, dataset)

    @staticmethod
    def _dataset(asked: AskedQuery, node: CanonicalNode) -> str:
        return asked.inputs.dataset_digest(node)


def _put(known: OrderedDict[str, V], key: str, value: V, most: int) -> None:
    """Remembers the last ones."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)


def _aggregates(asked: AskedQuery) -> Iterator[_Aggregate]:
    """The aggregates of a query that group a join's rows."""
    operators = {each["i"]: each for each in all_operators([*asked.query.reading.operators])}
    for part in (each for top in asked.parts for each in top.walk()):
        grouped = grouped_join(part.node, operators)
        if grouped is None:
            continue
        for below in part.inputs:
            if below.node.handle == grouped.join.handle:
                yield _Aggregate(asked, part, grouped, below)


def _fewest(question: _Question, kept: Sequence[Kept]) -> Rollup | None:
    """The fewest groups that are kept, of those that others can be made of."""
    found = [(groups_of(form, result.kept), form, result.kept.rows) for form, result in kept]
    serving = [each for each in found if each[0].serve(question.groups)]
    if not serving:
        return None
    fewest, form, _ = min(serving, key=lambda each: each[2])
    return Rollup(*question.by_text, fewest, form.dataset)


def _of_groups(join: str) -> str:
    return hash_parts("groups of", join)


def _why(chosen: Rollup, *, is_together: bool) -> str:
    if is_together:
        return "files were added several times: the groups of all of them are kept together"
    if chosen.is_read:
        return "files were added: their groups are kept beside those of the others"
    assert chosen.fine is not None
    by, measures = len(chosen.fine.by), len(chosen.fine.measures)
    return f"the join was grouped before; other groups are made of it: by {by}, {measures} measures"
