"""Aggregates of a join that are made of finer ones, which are kept unasked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.rollups import Rollup, groups_of
from holdfast.advice.worth_keeping import Verdict
from holdfast.api.asked_query import AskedQuery
from holdfast.api.join_questions import (
    JoinAggregate,
    JoinQuestion,
    JoinQuestions,
    aggregates,
)
from holdfast.api.rollup_pieces import GroupsInPieces, GroupsPiece, Kept, RollupPieces
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.stand_ins import standing_in
from holdfast.plan.summary import summarize
from holdfast.plan.terms import digests
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.rollups import RollupPlans

# How much longer it may take to compute all of a join than the rows that a query uses, as guessed:
# one equality is little enough.
_MOST_EXTRA = 5.0
# Each is a plan of its own, so more are written together: they are few rows.
_MOST_APART = 2


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
        self._questions = JoinQuestions(plans, bridge, history)

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
        for each in aggregates(asked):
            grouped, join = each.grouped, each.join
            if grouped.aggregate.handle in below:
                continue
            found = self._made_of(each, keeps)
            if found is None:
                continue
            chosen, groups = found
            pieces: Sequence[GroupsPiece] = groups.pieces
            queries, together = [piece.query for piece in pieces], None
            if keeps and len(pieces) > _MOST_APART:
                together = self._plans.together(groups.whole.query, queries)
            if together is not None:
                stand_ins[together.root.digest] = groups.whole.query.root
                pieces, queries = [groups.whole, *groups.kept], [together]
            are_read = together is None and all(piece.dataset for piece in pieces)
            merged = self._plans.merged(asked.query, grouped, queries, are_read=are_read)
            if merged is None:
                continue
            rollups.append(chosen)
            made[grouped.aggregate.handle] = merged
            below.update(node.handle for node in grouped.join.walk())
            why = _why(chosen, is_together=together is not None)
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
        for each in aggregates(asked):
            if not self._is_worth_it(each.join) or not self._questions.is_known(each):
                continue
            question = self._questions.of(each)
            if question is not None and self._questions.are_kept_instead(question):
                found.add(each.join.key)
        return frozenset(found)

    def remember(self, questions: Sequence[Rollup]) -> None:
        """Other programs have asked joins for groups.

        Args:
            questions: what `ran` has given there, in order.
        """
        self._questions.remember(questions)

    def ran(self, asked: AskedQuery) -> tuple[Rollup, ...]:
        """A query has run: what it has asked for is known to later ones.

        Args:
            asked: what `of` has given, or what it was given.

        Returns:
            what later programs are to know.
        """
        if asked.rollups:
            self._questions.noted(asked.rollups)
        else:
            self._questions.asked(asked)
        for form in asked.forms.values():
            if form.dataset:
                self._history.add_form(form)
        return self._questions.take_untold()

    def failed(self, asked: AskedQuery) -> None:
        """A query that was made of finer groups has failed, and may not have without."""
        self._questions.failed(asked.rollups)

    def _made_of(
        self, aggregate: JoinAggregate, keeps: bool
    ) -> tuple[Rollup, GroupsInPieces] | None:
        """The finer groups that an aggregate is made of: kept ones, or those that are to be."""
        asked, grouped, join = aggregate.asked, aggregate.grouped, aggregate.join
        is_known = self._questions.is_known(aggregate)
        if not (is_known or self._history.forms_of(_of_groups(join.template))):
            return None
        if is_known:
            self._questions.understand_first(aggregate)
        question = self._questions.of(aggregate)
        if question is None:
            return None
        kept = self._kept(join.key)
        chosen = _fewest(question, kept)
        if chosen is None:
            over_other_files = self._kept(join.template)
            found = self._pieces.of(asked, grouped, join, question.groups, over_other_files)
            if found is not None:
                read = found.kept[0]
                return question.made_of(read.groups, read.dataset), found
            if is_known and keeps:
                chosen = self._chosen(aggregate, question, kept)
        if chosen is None or chosen.fine is None:
            return None
        fine = chosen.fine
        query = self._plans.groups(asked.query, grouped, fine)
        if query is None and chosen.is_made_finer and not question.leaves_rows_out:
            # What others have asked for may mean nothing here.
            fine = question.groups.by_text()
            chosen = question.made_of(fine)
            query = self._plans.groups(asked.query, grouped, fine)
        if query is None or (chosen.is_read and chosen.dataset != self._dataset(asked, query.root)):
            return None
        whole = GroupsPiece.of(query, fine, chosen.dataset)
        is_whole = len(whole.groups.columns) == len(fine.columns)
        is_fit = is_whole and whole.groups.serve(question.groups)
        return (chosen, GroupsInPieces(whole, (whole,))) if is_fit else None

    def _chosen(
        self, aggregate: JoinAggregate, question: JoinQuestion, kept: Sequence[Kept]
    ) -> Rollup | None:
        """Groups that are to be kept while an aggregate is computed."""
        if not self._is_worth_it(aggregate.join):
            return None
        fine = self._questions.worth_keeping(
            question,
            [(groups_of(form, result.kept), result.kept.rows) for form, result in kept],
        )
        return None if fine is None else question.made_of(fine)

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


def _fewest(question: JoinQuestion, kept: Sequence[Kept]) -> Rollup | None:
    """The fewest groups that are kept, of those that others can be made of."""
    found = [(groups_of(form, result.kept), form, result.kept.rows) for form, result in kept]
    serving = [each for each in found if each[0].serve(question.groups)]
    if not serving:
        return None
    fewest, form, _ = min(serving, key=lambda each: each[2])
    return question.made_of(fewest, form.dataset)


def _of_groups(join: str) -> str:
    return hash_parts("groups of", join)


def _why(chosen: Rollup, *, is_together: bool) -> str:
    if is_together:
        return "files were added several times: the groups of all of them are kept together"
    if chosen.is_read:
        return "files were added: their groups are kept beside those of the others"
    assert chosen.fine is not None
    if not chosen.is_made_finer:
        return "the join was grouped before: what is asked for takes next to nothing to keep"
    by, measures = len(chosen.fine.by), len(chosen.fine.measures)
    return f"the join was grouped before; other groups are made of it: by {by}, {measures} measures"
