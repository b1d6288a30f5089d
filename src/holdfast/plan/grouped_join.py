"""Aggregates of a join's rows, with the conditions that are between the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL, OperatorDocument

_AGGREGATE, _FILTER = LOGICAL + "Aggregate", LOGICAL + "Filter"
_JOIN, _PROJECT = LOGICAL + "Join", LOGICAL + "Project"
# They put out the columns of their input as they are.
_PASSES_ALL = frozenset(LOGICAL + name for name in ("Filter", "SubqueryAlias"))


@dataclass(frozen=True, slots=True)
class GroupedJoin:
    """An aggregate, and the join whose rows it groups.

    Attributes:
        aggregate: puts out a row for each group.
        join: what is grouped, before conditions leave rows out.
        filters: the handles of the filters in between.
    """

    aggregate: CanonicalNode
    join: CanonicalNode
    filters: tuple[int, ...]


def grouped_join(
    node: CanonicalNode, operators: Mapping[int, OperatorDocument]
) -> GroupedJoin | None:
    """A node as an aggregate of a join's rows; None where it is something else.

    Args:
        node: of a canonical plan.
        operators: those of the plan that it was made of, by their handles.

    Source: Gupta, Harinarayan, Quass, "Aggregate-Query Processing in Data Warehousing
    Environments", VLDB 1995.
    """
    if operators[node.handle]["c"] != _AGGREGATE:
        return None
    filters = []
    below = node.children[0]
    while (operator := operators[below.handle])["c"] in _PASSES_ALL or _drops(operator):
        if operator["c"] == _FILTER:
            filters.append(below.handle)
        below = below.children[0]
    if operator["c"] != _JOIN:
        return None
    return GroupedJoin(node, below, tuple(filters))


def _drops(operator: OperatorDocument) -> bool:
    """Whether an operator does nothing but leave columns out."""
    return operator["c"] == _PROJECT and all("a" in each for each in operator["f"][0])
