"""Which rows an operator gives, in whichever columns and however they are written.

Rows and columns are kept separate: a projection gives the rows of its input, and a column is a term
over them. So it is the same whether columns are chosen before or after rows are filtered, or in
which order. The seeds' digest is of both: `holdfast.plan.canonical_plan.CanonicalNode.digest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.plan.hashing import hash_parts
from holdfast.plan.terms import Canonical, Term, digests, in_one_order, term


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a plan.

    Attributes:
        digest: 64 hexadecimal digits; the same rows, in any order.
        dealt: the same rows, dealt to tasks in the same order as well: what is written in another
            way has another one where Spark may deal its rows in another order.
        filtered: the rows that conditions have left these of, if it is conditions alone.
        conditions: those conditions.
    """

    digest: str
    dealt: str
    filtered: Rows | None = field(default=None, repr=False)
    conditions: tuple[Term, ...] = ()


UNKNOWN_ROWS = Rows("", "")
"""Those of a node that nobody has made canonical."""


def rows_of(*parts: Canonical) -> Rows:
    """Rows that nothing is known of but what makes them."""
    digest = hash_parts(*parts)
    return Rows(digest, digest)


def rows_over(inputs: Sequence[tuple[Rows, Sequence[Term]]], *parts: Canonical) -> Rows:
    """Rows that come of all columns of their inputs, in their order.

    Args:
        inputs: the rows and columns of each.
        parts: what is done with them.
    """
    return Rows(
        hash_parts(*parts, tuple((rows.digest, digests(columns)) for rows, columns in inputs)),
        hash_parts(*parts, tuple((rows.dealt, digests(columns)) for rows, columns in inputs)),
    )


def as_dealt(rows: Rows) -> Rows:
    """Rows of which it counts how they are distributed."""
    return Rows(rows.dealt, rows.dealt)


def distributed(rows: Rows, how: str) -> Rows:
    """The same rows in other tasks.

    Args:
        rows: those that are distributed.
        how: the digest of what the plan says of that.
    """
    dealt = hash_parts("distributed", how, rows.dealt)
    if rows.filtered is None:
        return Rows(rows.digest, dealt)
    return Rows(rows.digest, dealt, replace(rows.filtered, dealt=dealt), rows.conditions)


def filtered(rows: Rows, conditions: Iterable[Term]) -> Rows:
    """The rows that fulfil all of some conditions; it is one filter that is above another one.

    But which of a filter's conditions and a join's is evaluated first, Spark decides.
    """
    conditions = tuple(conditions)
    if any(each.throws for each in conditions):
        written = digests(in_one_order(conditions))
        return Rows(
            hash_parts("filtered as written", rows.digest, written),
            hash_parts("filtered as written", rows.dealt, written),
        )
    base = rows.filtered or rows
    ordered = in_one_order((*rows.conditions, *conditions))
    if not ordered:
        return rows
    return Rows(
        hash_parts("filtered", base.digest, digests(ordered)),
        hash_parts("filtered", base.dealt, digests(ordered)),
        base,
        ordered,
    )


def sorted_rows(rows: Rows, orders: Canonical) -> Rows:
    """Rows in an order; how those that tie are dealt decides theirs."""
    return rows_of("sorted", orders, rows.dealt)


def grouped(rows: Rows, keys: Sequence[Term], written: Canonical) -> Rows:
    """One row for each group.

    Args:
        rows: what is grouped.
        keys: by which values; their order and number don't matter.
        written: by which the groups may come out in another order.
    """
    return Rows(
        hash_parts("grouped", tuple(sorted(set(digests(keys)))), rows.digest),
        hash_parts("grouped", digests(keys), written, rows.dealt),
    )


def of_group(column: Term) -> Term:
    """A term over the rows of a group, as a column of the one row that is left of it."""
    return term("of group", column)


def ranks(kind: str, sides: Sequence[Rows]) -> tuple[int, int]:
    """For each side of a join which side it is to its columns, whichever way it is written.

    Args:
        kind: the type of join.
        sides: the left rows and the right ones.
    """
    left, right = sides
    if kind in _MIRRORED:
        return (1, 0)
    if kind in _SYMMETRIC and right.digest < left.digest:
        return (1, 0)
    return (0, 1)


def of_side(rank: int, column: Term) -> Term:
    """A column of one side, as a column of the join."""
    return term("of side", rank, column)


def joined(kind: str, sides: Sequence[Rows], conditions: Sequence[Term]) -> Rows:
    """The rows of a join.

    An inner join is the product of its sides with conditions on it, wherever these are written.

    Args:
        kind: the type of join.
        sides: the left rows and the right ones.
        conditions: that all have to hold, over columns as `of_side` gives them.
    """
    order = ranks(kind, sides)
    first, second = (sides[order.index(rank)] for rank in (0, 1))
    what = _SAME_AS.get(kind, kind)
    product = Rows(
        hash_parts("joined", what, first.digest, second.digest),
        hash_parts("joined", what, order, sides[0].dealt, sides[1].dealt),
    )
    if what == _INNER:
        return filtered(product, conditions)
    together = digests(in_one_order(conditions))
    return Rows(
        hash_parts(product.digest, together),
        hash_parts(product.dealt, together),
    )


_INNER = "Inner$"
_MIRRORED = frozenset({"RightOuter$"})
_SYMMETRIC = frozenset({_INNER, "Cross$", "FullOuter$"})
_SAME_AS = {"Cross$": _INNER, "RightOuter$": "LeftOuter$"}
