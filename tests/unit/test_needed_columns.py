"""Which columns of a plan's nodes are used above them, and how joins are written as filters."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import CATALYST, EXPRESSIONS, LOGICAL
from holdfast.plan.implicit_joins import ImplicitJoin, implicit_joins
from holdfast.plan.needed_columns import NeededColumns, joins_by_equality


def operator(handle: int, name: str, inputs: int, *fields: Any) -> Any:
    return {"i": handle, "c": LOGICAL + name, "n": inputs, "t": None, "f": [*fields], "o": []}


def column(number: int) -> dict[str, Any]:
    return {"a": number}


def call(name: str, *operands: Any) -> dict[str, Any]:
    return {"c": EXPRESSIONS + name, "f": [*operands], "o": []}


def equal(one: Any, other: Any) -> dict[str, Any]:
    return call("EqualTo", one, other)


A, B, C, D = map(column, (1, 2, 3, 4))
LEAF = operator(9, "Range", 0)


def test_what_filters_sorts_and_joins_name_is_used() -> None:
    join = operator(2, "Join", 2, None, None, None, equal(C, column(7)))
    sort = operator(1, "Sort", 1, [B], True)
    plan = [operator(0, "Project", 1, [A]), sort, join, LEAF, operator(8, "Range", 0)]
    needed = NeededColumns(plan)
    assert needed.of(9, (1, 2, 3, 4)) == (1, 2, 3)
    assert needed.of(8, (7, 8)) == (7,)
    # What a node itself names is not used above it.
    assert needed.of(2, (1, 2, 3, 4, 7, 8)) == (1, 2)
    assert needed.of(0, (1, 2)) is None, "all columns of the result are used"


WHOLE_ROWS = "Union Distinct Window Generate Intersect Expand".split()


@pytest.mark.parametrize("name", [*WHOLE_ROWS, "Repartition", "GlobalLimit", "SubqueryAlias"])
def test_what_looks_at_whole_rows_uses_all_columns(name: str) -> None:
    plan = [operator(0, "Project", 1, [A]), operator(1, name, 1), LEAF]
    assert NeededColumns(plan).of(9, (1, 2)) == (None if name in WHOLE_ROWS else (1,))


def test_what_a_subquery_names_of_the_plan_around_it_is_used() -> None:
    condition = equal(call("OuterReference", B), column(6))
    inside = [operator(5, "Filter", 1, condition), operator(6, "Range", 0)]
    exists = operator(1, "Filter", 1, call("Exists", {"plan": inside}))
    needed = NeededColumns([operator(0, "Aggregate", 1, [A], [A]), exists, LEAF])
    assert needed.of(9, (1, 2, 3)) == (1, 2)
    assert needed.of(6, (6,)) is None


@pytest.mark.parametrize(
    ("condition", "is_joined"),
    [
        (equal(A, C), True),
        (equal(call("Add", D, C), call("Add", A, B)), True),
        (call("And", call("LessThan", A, C), call("EqualNullSafe", D, B)), True),
        (call("Or", equal(A, C), equal(B, D)), False),
        (equal(A, call("Literal")), False),
        (equal(A, B), False),
        (equal(call("Add", A, C), B), False),
        (call("LessThan", A, C), False),
        (None, False),
    ],
)
def test_rows_of_joins_without_an_equality_multiply(condition: Any, is_joined: bool) -> None:
    join = operator(0, "Join", 2, None, None, None, condition)
    assert joins_by_equality(join, (1, 2)) == is_joined


# -- filters that hold the conditions of the joins below them --------------------------------------

# Columns of three inputs.
L, M, N = map(column, (10, 20, 30))
L2, M2, N2 = map(column, (11, 21, 31))


def found(
    *conditions: Any, kind: str = "Inner$", written: Any = None, same: bool = False
) -> tuple[ImplicitJoin, ...]:
    """Of `FROM l, m, n WHERE …`, of which the inputs are called 3, 4 and 5."""
    operators: list[Any] = []

    def node(handle: int, name: str, *children: CanonicalNode, fields: Any = ()) -> CanonicalNode:
        operators.append(operator(handle, name, len(children), *fields))
        output = tuple(column for each in children for column in each.output)
        if not children:
            first = 10 if same and handle == 4 else 10 * (handle - 2)
            output = (first, first + 1)
        return CanonicalNode(name, "", children, (), handle, output, False, 0, False)

    condition, *others = conditions
    for each in others:
        condition = call("And", condition, each)
    join_kind = {"c": f"{CATALYST}plans.{kind}"}
    leaves = [node(handle, "Range") for handle in (3, 4, 5)]
    below = node(2, "Join", *leaves[:2], fields=[None, None, join_kind, written])
    joined = node(1, "Join", below, leaves[2], fields=[None, None, join_kind, None])
    return implicit_joins(node(0, "Filter", joined, fields=[condition]), operators)


@pytest.mark.parametrize(
    ("conditions", "joins"),
    [
        # Each input agrees with the one before.
        (
            (equal(L, M), call("GreaterThan", L2, M2), equal(N, M2), call("IsNotNull", N)),
            ImplicitJoin(0, (3, 4, 5), ((0,), (2,)), (1, 3), True),
        ),
        # What agrees with nothing before comes later.
        ((equal(L, N), equal(M, N)), ImplicitJoin(0, (3, 5, 4), ((0,), (1,)), (), False)),
        # All that is said of an input and those before is its condition.
        (
            (equal(L, N), equal(M, N2), call("EqualNullSafe", L2, M2), equal(M, L)),
            ImplicitJoin(0, (3, 4, 5), ((2, 3), (0, 1)), (), True),
        ),
        # Rows may multiply.
        ((equal(L, M),), None),
        ((equal(L, M), equal(N, N2)), None),
        ((equal(L, M), equal(N, call("Literal", 1))), None),
        ((equal(L, M), equal(call("Abs", N), M)), None),
        ((equal(L, M), call("Or", equal(N, M), equal(N, L))), None),
        ((equal(L, M), call("Not", equal(N, M))), None),
        ((equal(call("OuterReference", L), M), equal(M, N)), None),
    ],
)
def test_joins_are_found_in_filters(conditions: Any, joins: ImplicitJoin | None) -> None:
    assert found(*conditions) == (() if joins is None else (joins,))


def test_only_inner_joins_of_separate_columns_are_found() -> None:
    assert found(equal(L, M), equal(M, N), kind="LeftOuter$") == ()
    assert found(equal(L, M), equal(L, N), same=True) == ()
    [join] = found(equal(L, N), written=equal(L, M))
    assert (join.inputs, join.conditions) == ((2, 5), ((0,),))
