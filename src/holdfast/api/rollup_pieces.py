"""Groups of a join's rows that are kept over fewer files than there are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.file_pieces import Box, Piece, box_of, pieces, share
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.rollups import Groups, groups_of
from holdfast.api.asked_query import AskedQuery
from holdfast.plan.divisible_sources import divisible_sources
from holdfast.plan.file_sources import all_operators, file_sources
from holdfast.plan.grouped_join import GroupedJoin
from holdfast.plan.terms import digests
from holdfast.runtime.result_book import KeptResult
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.narrowed_sources import NarrowedSources
from holdfast.spark.plans.rollups import RollupPlans

# Each is a read or a join of its own; where there are more, all are computed together again.
_MOST_PIECES = 12
# Less is not worth computing the rest apart.
_LEAST_KEPT = 0.5

Kept = tuple[KeptForm, KeptResult]


@dataclass(frozen=True, slots=True)
class GroupsPiece:
    """Groups of a join's rows, over some files.

    Attributes:
        query: computes them.
        groups: what its columns are.
        dataset: what they are called that are kept; empty for others.
    """

    query: Query
    groups: Groups
    dataset: str = ""

    @staticmethod
    def of(query: Query, groups: Groups, dataset: str = "") -> GroupsPiece:
        """Groups whose columns have the same texts as others', and stand in the same order."""
        return GroupsPiece(query, groups.called(digests(query.root.columns)), dataset)


@dataclass(frozen=True, slots=True)
class GroupsInPieces:
    """Groups of a join's rows, and what they are made of.

    Attributes:
        whole: the groups over all files.
        pieces: their pieces, or they themselves.
    """

    whole: GroupsPiece
    pieces: tuple[GroupsPiece, ...]

    @property
    def kept(self) -> Sequence[GroupsPiece]:
        """The pieces that are kept."""
        return [each for each in self.pieces if each.dataset]


class RollupPieces:
    """Finds groups of a join's rows that were kept before files were added to its tables.

    They are put together with the groups of the rows that have come with these files: groups over
    all files are as those over parts of them.

    Args:
        plans: writes groups of rows.
        narrowed: has them read fewer files.

    Source: FLIP-36, "Long Term Goal"; Gupta, Mumick, Subrahmanian, "Maintaining Views
    Incrementally", SIGMOD 1993.
    """

    def __init__(self, plans: RollupPlans, narrowed: NarrowedSources) -> None:
        self._plans = plans
        self._narrowed = narrowed

    def of(
        self,
        asked: AskedQuery,
        grouped: GroupedJoin,
        join: AskedPart,
        groups: Groups,
        kept: list[Kept],
    ) -> GroupsInPieces | None:
        """The groups that an aggregate is made of, in pieces; None where that is not worth it.

        Args:
            asked: the query.
            grouped: an aggregate of it.
            join: the part that it groups.
            groups: what it asks for.
            kept: groups of the same join, over whatever files.
        """
        listed = join.node.source_files()
        fitting: dict[tuple[tuple[str, ...], ...], tuple[Groups, list[Kept]]] = {}
        for form, result in kept:
            fine = groups_of(form, result.kept)
            # Over other files the same columns may be told apart in another way.
            if result.files and result.files <= listed and fine.reads_as(groups):
                texts = tuple(sorted(fine.by.values())), tuple(sorted(fine.measures.values()))
                fitting.setdefault(texts, (fine, []))[1].append((form, result))
        # What comes with new files serves most if it is as fine as can be.
        for fine, alike in sorted(
            fitting.values(), key=lambda each: len(each[0].columns), reverse=True
        ):
            query = self._plans.groups(asked.query, grouped, fine)
            if query is None:
                continue
            whole = GroupsPiece.of(query, fine)
            found = self._filled(asked, whole, alike) if whole.groups.serve(groups) else None
            if found is not None:
                return GroupsInPieces(whole, found)
        return None

    def _filled(
        self, asked: AskedQuery, whole: GroupsPiece, kept: list[Kept]
    ) -> tuple[GroupsPiece, ...] | None:
        """The pieces of groups, of which most are kept."""
        handles, box, divisible = _sides(whole.query)
        known = [
            (part, form)
            for form, result in kept
            if (part := box_of(result.files, box, divisible)) is not None
        ]
        while known:
            found = pieces(box, [part for part, _ in known])
            if len(found) > _MOST_PIECES or _kept_share(found, box) < _LEAST_KEPT:
                return None
            made = []
            for piece in found:
                sides = dict(zip(handles, piece.box, strict=True))
                query = self._narrowed.over(whole.query, sides)
                if query is None:
                    return None
                dataset = "" if piece.kept is None else known[piece.kept][1].dataset
                if piece.kept is not None and dataset != asked.inputs.dataset_digest(query.root):
                    # It was computed of the same files in another way.
                    del known[piece.kept]
                    break
                made.append(GroupsPiece.of(query, whole.groups, dataset))
            else:
                return tuple(made)
        return None


def _sides(query: Query) -> tuple[list[int], Box, list[bool]]:
    """The sources of a query: their handles, their files, and whether these can be divided."""
    operators = {each["i"]: each for each in all_operators([*query.reading.operators])}
    may_divide = divisible_sources(query.root.children[0], operators)
    files = {node.handle: frozenset(node.files) for node in query.root.walk()}
    handles = [each["i"] for each in file_sources([*query.reading.operators])]
    return (
        handles,
        tuple(files[handle] for handle in handles),
        [handle in may_divide for handle in handles],
    )


def _kept_share(found: tuple[Piece, ...], box: Box) -> float:
    return sum(share(each.box, box) for each in found if each.kept is not None)
