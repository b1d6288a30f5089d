"""Aggregates of a join that are made of finer ones, which are kept unasked."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.rollups import AskedRollups, Groups, Rollup
from holdfast.advice.worth_keeping import Verdict
from holdfast.api.asked_query import AskedQuery
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_sources import all_operators
from holdfast.plan.grouped_join import GroupedJoin, grouped_join
from holdfast.plan.hashing import hash_parts
from holdfast.plan.summary import summarize
from holdfast.plan.terms import digests
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.result_book import KeptResult
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.rollups import RollupPlans
from holdfast.storage.kept_dataset import KeptDataSet

_MOST_KNOWN = 1_000
# Each holds a plan in the JVM.
_MOST_FIRST = 64
# How much longer it may take to compute all of a join than the rows that a query uses, as guessed:
# one equality is little enough.
_MOST_EXTRA = 5.0
_BY = "by "


class Rollups:
    """Has aggregates read finer groups that are kept, or keep them.

    A join that has been grouped before is likely to be grouped again, by something else. Groups by
    all that it was asked by are few beside its rows, and cost next to nothing to keep. Safe for use
    by several threads.

    Args:
        plans: writes aggregates in another way.
        bridge: reads and rewrites plans.
        manager: what is cached and what is kept.
        history: past queries.
        least_seconds: what a join takes at least of which groups are kept, in seconds of tasks.

    Source: FLIP-36, "Long Term Goal".
    """

    def __init__(
        self,
        plans: RollupPlans,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        history: QueryHistory,
        least_seconds: float,
    ) -> None:
        self._plans = plans
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
        fine: dict[str, tuple[CanonicalNode, Rollup]] = {}
        for part, grouped, join in _grouped_joins(asked):
            if part.node.handle in below or not self._history.times(join.key):
                continue
            self._note_first(join.key)
            groups = self._groups(asked, part, grouped)
            chosen = None if groups is None else self._chosen(grouped, join, groups, keeps)
            if chosen is None or chosen.fine is None:
                continue
            plans = self._plans.rolled_up(asked.query, grouped, chosen.fine)
            if plans is None:
                continue
            node = self._bridge.read(plans[1]).root
            if not _is(node, chosen.fine) or (
                chosen.is_read and chosen.dataset != self._dataset(asked, node)
            ):
                # Their text means something else in this query, whose columns are called otherwise.
                continue
            made[grouped.aggregate.handle] = plans[0]
            below.update(node.handle for node in grouped.join.walk())
            fine[node.digest] = node, chosen
        if not made:
            return None
        query = self._bridge.read(self._bridge.substitute(asked.query, made))
        parts = parts_of(query)
        forms: dict[str, KeptForm] = {}
        verdicts = []
        for part in (each for top in parts for each in top.walk()):
            if part.node.digest not in fine or part.key in forms:
                continue
            node, chosen = fine[part.node.digest]
            form = KeptForm(part.key, frozenset(digests(node.columns)))
            forms[part.key] = form
            told = self._told(asked, chosen, node)
            forms[told.key] = told
            if not chosen.is_read:
                verdicts.append(Verdict(part.key, summarize(node), form, _why(chosen)))
        if not forms:
            return None
        rollups = tuple(chosen for _, chosen in fine.values())
        return replace(
            asked,
            query=query,
            parts=parts,
            runs_as=query,
            forms=forms,
            verdicts=tuple(verdicts),
            rolled_up=asked.query.root,
            rollups=rollups,
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

    def _chosen(
        self, grouped: GroupedJoin, join: AskedPart, asked: Groups, keeps: bool
    ) -> Rollup | None:
        kept = [
            (_groups_of(form, result.kept), form, result.kept.rows)
            for form, result in self._kept(join)
        ]
        serving = [each for each in kept if each[0].serve(asked)]
        if serving:
            fewest, form, _ = min(serving, key=lambda each: each[2])
            return Rollup(join.key, asked, fewest, form.dataset)
        if not keeps or not self._is_worth_it(join):
            return None
        with self._lock:
            fine = self._asked.worth_keeping(
                join.key,
                asked,
                [(groups, rows) for groups, _, rows in kept],
                leaves_rows_out=bool(grouped.filters),
            )
        return None if fine is None else Rollup(join.key, asked, fine)

    def _is_worth_it(self, join: AskedPart) -> bool:
        """Whether a join takes long, and all of it little longer than what a query uses of it."""
        takes_long = self._history.seconds_of(join) >= self._least_seconds
        return takes_long and join.extra <= _MOST_EXTRA

    def _kept(self, join: AskedPart) -> Iterator[tuple[KeptForm, KeptResult]]:
        """The groups of a join that are kept."""
        forms = {
            IntermediateDataSetID.from_digest(form.dataset): form
            for form in self._history.forms_of(_of_groups(join.key))
        }
        for dataset_id, result in self._manager.results.find(list(forms)).items():
            yield forms[dataset_id], result

    def _told(self, asked: AskedQuery, chosen: Rollup, node: CanonicalNode) -> KeptForm:
        """How later queries find what is kept."""
        assert chosen.fine is not None
        columns = {*(_BY + each for each in chosen.fine.by), *chosen.fine.measures}
        return KeptForm(_of_groups(chosen.join), frozenset(columns), self._dataset(asked, node))

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


def _is(node: CanonicalNode, groups: Groups) -> bool:
    return {*digests(node.columns)} == groups.by.keys() | groups.measures.keys()


def _of_groups(join: str) -> str:
    return hash_parts("groups of", join)


def _groups_of(form: KeptForm, kept: KeptDataSet) -> Groups:
    """What is kept, as its own columns tell."""
    texts = {column.identity: column.name for column in kept.manifest.dataset.columns}
    by = [each.removeprefix(_BY) for each in form.columns if each.startswith(_BY)]
    measures = [each for each in form.columns if not each.startswith(_BY)]
    return Groups(
        {each: texts[each] for each in sorted(by) if each in texts},
        {each: texts[each] for each in sorted(measures) if each in texts},
    )


def _why(chosen: Rollup) -> str:
    fine = chosen.fine
    assert fine is not None
    by, measures = len(fine.by), len(fine.measures)
    return f"the join was grouped before; other groups are made of it: by {by}, {measures} measures"
