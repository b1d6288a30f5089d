"""Which columns of a plan's nodes are used above them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.plan.document import EXPRESSIONS, LOGICAL
from holdfast.plan.needed_columns import NeededColumns, joins_by_equality


def operator(handle: int, name: str, inputs: int, *arguments: Any) -> Any:
    return {
        "i": handle,
        "c": LOGICAL + name,
        "n": inputs,
        "t": None,
        "f": [*arguments],
        "o": [],
    }


def column(number: int) -> dict[str, Any]:
    return {"a": number}


def call(name: str, *operands: Any) -> dict[str, Any]:
    return {"c": EXPRESSIONS + name, "f": [*operands], "o": []}


A, B, C, D = map(column, (1, 2, 3, 4))
LEAF = operator(9, "Range", 0)


def test_what_filters_sorts_and_joins_name_is_used() -> None:
    plan = [
        operator(0, "Project", 1, [A]),
        operator(1, "Sort", 1, [B], True),
        operator(2, "Join", 2, None, None, None, call("EqualTo", C, column(7))),
        LEAF,
        operator(8, "Range", 0),
    ]
    needed = NeededColumns(plan)
    assert needed.of(9, (1, 2, 3, 4)) == (1, 2, 3)
    assert needed.of(8, (7, 8)) == (7,)
    assert needed.of(2, (1, 2, 3, 4, 7, 8)) == (1, 2)


@pytest.mark.parametrize("name", ["Union", "Distinct", "Window", "Generate", "Intersect", "Expand"])
def test_what_looks_at_whole_rows_uses_all_columns(name: str) -> None:
    assert (
        NeededColumns([operator(0, "Project", 1, [A]), operator(1, name, 1), LEAF]).of(9, (1, 2))
        is None
    )


@pytest.mark.parametrize("name", ["Repartition", "GlobalLimit", "SubqueryAlias"])
def test_what_looks_at_no_column_uses_none(name: str) -> None:
    plan = [operator(0, "Project", 1, [A]), operator(1, name, 1), LEAF]
    assert NeededColumns(plan).of(9, (1, 2)) == (1,)


def test_all_columns_of_the_result_are_used() -> None:
    needed = NeededColumns([operator(0, "Filter", 1, A), LEAF])
    assert needed.of(0, (1, 2)) is None
    assert needed.of(9, (1, 2)) is None


def test_what_a_subquery_names_of_the_plan_around_it_is_used() -> None:
    inside = [operator(5, "Filter", 1, call("EqualTo", call("OuterReference", B), column(6)))]
    inside.append(operator(6, "Range", 0))
    plan = [
        operator(0, "Aggregate", 1, [A], [A]),
        operator(1, "Filter", 1, call("Exists", {"plan": inside})),
        LEAF,
    ]
    needed = NeededColumns(plan)
    assert needed.of(9, (1, 2, 3)) == (1, 2)
    assert needed.of(6, (6,)) is None


def test_what_a_node_itself_names_is_not_used_above_it() -> None:
    plan = [operator(0, "Project", 1, [A]), operator(1, "Filter", 1, B), LEAF]
    assert NeededColumns(plan).of(1, (1, 2)) == (1,)


@pytest.mark.parametrize(
    ("condition", "is_joined"),
    [
        (call("EqualTo", A, C), True),
        (call("EqualTo", call("Add", D, C), call("Add", A, B)), True),
        (call("And", call("LessThan", A, C), call("EqualNullSafe", D, B)), True),
        (call("Or", call("EqualTo", A, C), call("EqualTo", B, D)), False),
        (call("EqualTo", A, call("Literal")), False),
        (call("EqualTo", A, B), False),
        (call("EqualTo", call("Add", A, C), B), False),
        (call("LessThan", A, C), False),
        (None, False),
    ],
)
def test_rows_of_joins_without_an_equality_multiply(condition: Any, is_joined: bool) -> None:
    join = operator(0, "Join", 2, None, None, None, condition)
    assert joins_by_equality(join, (1, 2)) == is_joined
