"""Aggregates of a join that are made of finer ones, which are kept unasked."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.rollups import AskedRollups, Groups, Rollup, groups_of
from holdfast.advice.worth_keeping import Verdict
from holdfast.api.asked_query import AskedQuery
from holdfast.api.rollup_pieces import GroupsPiece, Kept, RollupPieces
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_sources import all_operators
from holdfast.plan.grouped_join import GroupedJoin, grouped_join
from holdfast.plan.hashing import hash_parts
from holdfast.plan.summary import summarize
from holdfast.plan.terms import digests
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.rollups import RollupPlans

_MOST_KNOWN = 1_000
# Each holds a plan in the JVM.
_MOST_FIRST = 64
# How much longer it may take to compute all of a join than the rows that a query uses, as guessed:
# one equality is little enough.
_MOST_EXTRA = 5.0


@dataclass(frozen=True, slots=True)
class _Fine:
    """Groups that an aggregate is made of, in part or as a whole.

    Attributes:
        groups: the groups.
        rollup: what is made of them.
        join: whose rows they are of.
    """

    groups: GroupsPiece
    rollup: Rollup
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
        self._known: OrderedDict[str, Groups | None] = OrderedDict()
        self._first: OrderedDict[str, AskedQuery] = OrderedDict()

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
        below: set[int] = set()
        fine: dict[str, _Fine] = {}
        rollups = []
        for part, grouped, join in _grouped_joins(asked):
            if part.node.handle in below:
                continue
            found = self._made_of(asked, part, grouped, join, keeps)
            if found is None:
                continue
            chosen, pieces = found
            merged = self._plans.merged(asked.query, grouped, [each.query for each in pieces])
            if merged is None:
                continue
            rollups.append(chosen)
            made[grouped.aggregate.handle] = merged
            below.update(node.handle for node in grouped.join.walk())
            for each in pieces:
                fine[each.query.root.digest] = _Fine(each, chosen, join)
        if not made:
            return None
        query = self._bridge.read(self._bridge.substitute(asked.query, made))
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
                verdicts.append(Verdict(part.key, what, form, _why(one.rollup)))
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
        for part, grouped, join in _grouped_joins(asked):
            if not self._is_worth_it(join):
                continue
            groups = self._groups(asked, part, grouped) if self._history.times(join.key) else None
            with self._lock:
                if groups is not None and self._asked.are_kept_instead(join.key, groups):
                    found.add(join.key)
        return frozenset(found)

    def ran(self, asked: AskedQuery) -> None:
        """A query has run: what it has asked for is known to later ones.

        Args:
            asked: what `of` has given, or what it was given.
        """
        if asked.rollups:
            self._note(asked.rollups)
        else:
            for part, grouped, join in _grouped_joins(asked):
                with self._lock:
                    is_known = join.key in self._first or self._asked.knows(join.key)
                if is_known or self._history.times(join.key) > 1:
                    self._note_first(join.key)
                    self._note_groups(asked, part, grouped, join)
                    continue
                # What is never grouped again isn't looked at.
                with self._lock:
                    self._first[join.key] = asked
                    if len(self._first) > _MOST_FIRST:
                        self._first.popitem(last=False)
        for form in asked.forms.values():
            if form.dataset:
                self._history.add_form(form)

    def failed(self, asked: AskedQuery) -> None:
        """A query that was made of finer groups has failed, and may not have without."""
        with self._lock:
            for each in asked.rollups:
                self._asked.failed(each.join)

    def _note_first(self, key: str) -> None:
        """What was asked of a join the first time is known from now on."""
        with self._lock:
            first = self._first.pop(key, None)
        if first is None:
            return
        for part, grouped, join in _grouped_joins(first):
            if join.key == key:
                self._note_groups(first, part, grouped, join)

    def _note_groups(
        self, asked: AskedQuery, part: AskedPart, grouped: GroupedJoin, join: AskedPart
    ) -> None:
        groups = self._groups(asked, part, grouped)
        if groups is not None:
            self._note([Rollup(join.key, groups)])

    def _note(self, rollups: Iterable[Rollup]) -> None:
        with self._lock:
            for each in rollups:
                self._asked.noted(each)

    def _groups(self, asked: AskedQuery, part: AskedPart, grouped: GroupedJoin) -> Groups | None:
        key = asked.inputs.dataset_digest(part.node)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        found = self._plans.asked(asked.query, grouped)
        with self._lock:
            self._known[key] = found
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found

    def _made_of(
        self,
        asked: AskedQuery,
        part: AskedPart,
        grouped: GroupedJoin,
        join: AskedPart,
        keeps: bool,
    ) -> tuple[Rollup, Sequence[GroupsPiece]] | None:
        """The finer groups that an aggregate is made of: kept ones, or those that are to be."""
        over_other_files = self._kept(join.template)
        is_known = bool(self._history.times(join.key))
        if not (over_other_files or is_known):
            return None
        if is_known:
            self._note_first(join.key)
        groups = self._groups(asked, part, grouped)
        if groups is None:
            return None
        kept = self._kept(join.key)
        chosen = _fewest(join, groups, kept)
        if chosen is None:
            found = self._pieces.of(asked, grouped, join, groups, over_other_files)
            if found is not None:
                read = next(each for each in found if each.dataset)
                return Rollup(join.key, groups, read.groups, read.dataset), found
            if is_known and keeps:
                chosen = self._chosen(grouped, join, groups, kept)
        if chosen is None or chosen.fine is None:
            return None
        query = self._plans.groups(asked.query, grouped, chosen.fine)
        if query is None or (chosen.is_read and chosen.dataset != self._dataset(asked, query.root)):
            return None
        whole = GroupsPiece.of(query, chosen.fine, chosen.dataset)
        # Their text means something else in this query, whose columns are called otherwise.
        return (chosen, [whole]) if whole.groups.columns == chosen.fine.columns else None

    def _chosen(
        self, grouped: GroupedJoin, join: AskedPart, asked: Groups, kept: Sequence[Kept]
    ) -> Rollup | None:
        """Groups that are to be kept while an aggregate is computed."""
        if not self._is_worth_it(join):
            return None
        with self._lock:
            fine = self._asked.worth_keeping(
                join.key,
                asked,
                [(groups_of(form, result.kept), result.kept.rows) for form, result in kept],
                leaves_rows_out=bool(grouped.filters),
            )
        return None if fine is None else Rollup(join.key, asked, fine)

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


def _grouped_joins(asked: AskedQuery) -> Iterator[tuple[AskedPart, GroupedJoin, AskedPart]]:
    """The aggregates of a query that group a join's rows, each with the join's part."""
    operators = {each["i"]: each for each in all_operators([*asked.query.reading.operators])}
    for part in (each for top in asked.parts for each in top.walk()):
        grouped = grouped_join(part.node, operators)
        if grouped is None:
            continue
        for below in part.inputs:
            if below.node.handle == grouped.join.handle:
                yield part, grouped, below


def _fewest(join: AskedPart, asked: Groups, kept: Sequence[Kept]) -> Rollup | None:
    """The fewest groups that are kept, of those that others can be made of."""
    found = [(groups_of(form, result.kept), form, result.kept.rows) for form, result in kept]
    serving = [each for each in found if each[0].serve(asked)]
    if not serving:
        return None
    fewest, form, _ = min(serving, key=lambda each: each[2])
    return Rollup(join.key, asked, fewest, form.dataset)


def _of_groups(join: str) -> str:
    return hash_parts("groups of", join)


def _why(chosen: Rollup) -> str:
    fine = chosen.fine
    assert fine is not None
    if chosen.is_read:
        return "files were added: their groups are kept beside those of the others"
    by, measures = len(fine.by), len(fine.measures)
    return f"the join was grouped before; other groups are made of it: by {by}, {measures} measures"
