"""Finds in a plan's document the leaves that read listed files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.plan.document import EXECUTION, OperatorDocument, Value, parts_of
from holdfast.plan.rewritten import rewritten

_RELATION = EXECUTION + "datasources.LogicalRelation"

FileListing = dict[str, Any]
"""The argument of the form `{"index": …, "files": …, "partitions": …, "roots": …}`."""


def file_listing(operator: OperatorDocument) -> FileListing | None:
    """The listing of a leaf that reads files; None for any other operator."""
    if operator["c"] != _RELATION:
        return None
    relation = operator["f"][0]
    if not isinstance(relation, dict) or not relation.get("f"):
        return None
    listing = relation["f"][0]
    return listing if isinstance(listing, dict) and "files" in listing else None


def file_sources(operators: list[OperatorDocument]) -> list[OperatorDocument]:
    """The leaves that read listed files, in pre-order, those of subqueries included."""
    return [each for each in all_operators(operators) if file_listing(each) is not None]


def all_operators(operators: list[OperatorDocument]) -> list[OperatorDocument]:
    """A plan's operators in pre-order, each followed by those of its subqueries."""
    found: list[OperatorDocument] = []

    def walk(plan: list[OperatorDocument]) -> None:
        for operator in plan:
            found.append(operator)
            for part in parts_of([operator["f"], operator["o"]]):
                if "plan" in part:
                    walk(part["plan"])

    walk(operators)
    return found


def with_listings(
    operators: list[OperatorDocument],
    relisted: Callable[[int, FileListing], FileListing | None],
    other_value: Callable[[dict[str, Any]], Value | None] = lambda value: None,
) -> list[OperatorDocument]:
    """The same plan with other listings; what is handed in stays as it is.

    Args:
        operators: a plan's operators in pre-order.
        relisted: given the handle of a leaf and its listing, another one; None to leave it.
        other_value: of operators that read no files, see `rewritten`.
    """

    def of_operator(operator: OperatorDocument) -> OperatorDocument | None:
        listing = file_listing(operator)
        if listing is None:
            return None
        other = relisted(operator["i"], listing)
        if other is None:
            return operator
        relation = operator["f"][0]
        changed = {**relation, "f": [other, *relation["f"][1:]]}
        return {**operator, "f": [changed, *operator["f"][1:]]}

    return rewritten(operators, of_operator, other_value)
