"""Which filters hold the conditions of the joins below them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import CATALYST, EXPRESSIONS, LOGICAL
from holdfast.plan.implicit_joins import ImplicitJoin, implicit_joins

# Columns of three inputs.
A, B, C = ({"a": number} for number in (10, 20, 30))
A2, B2, C2 = ({"a": number} for number in (11, 21, 31))


def call(name: str, *operands: Any) -> dict[str, Any]:
    return {"c": EXPRESSIONS + name, "f": [*operands], "o": []}


def equal(one: Any, other: Any) -> dict[str, Any]:
    return call("EqualTo", one, other)


def both(*conditions: Any) -> dict[str, Any]:
    first, *others = conditions
    return call("And", first, both(*others)) if others else first


def found(
    *conditions: Any, kind: str = "Inner$", written: Any = None, same: bool = False
) -> tuple[ImplicitJoin, ...]:
    """Of `FROM a, b, c WHERE …`, of which the inputs are called 3, 4 and 5."""
    operators: list[Any] = []

    def node(handle: int, name: str, *children: CanonicalNode, fields: Any = ()) -> CanonicalNode:
        count = len(children)
        operators.append(
            {"i": handle, "c": LOGICAL + name, "n": count, "t": None, "f": [*fields], "o": []}
        )
        output = tuple(column for each in children for column in each.output)
        if not children:
            output = (
                (10, 11) if same and handle == 4 else (10 * (handle - 2), 10 * (handle - 2) + 1)
            )
        return CanonicalNode(name, "", children, (), handle, output, False, 0, False)

    all_pairs = [None, None, {"c": f"{CATALYST}plans.{kind}"}, None]
    leaves = [node(handle, "Range") for handle in (3, 4, 5)]
    below = node(2, "Join", *leaves[:2], fields=[*all_pairs[:3], written])
    joined = node(1, "Join", below, leaves[2], fields=all_pairs)
    root = node(0, "Filter", joined, fields=[both(*conditions)])
    return implicit_joins(root, operators)


def test_each_input_agrees_with_the_one_before() -> None:
    other = call("GreaterThan", A2, B2)
    assert found(equal(A, B), other, equal(C, B2), call("IsNotNull", C)) == (
        ImplicitJoin(0, (3, 4, 5), ((0,), (2,)), (1, 3), True),
    )


def test_inputs_that_agree_with_nothing_before_come_later() -> None:
    assert found(equal(A, C), equal(B, C)) == (ImplicitJoin(0, (3, 5, 4), ((0,), (1,)), (), False),)


def test_all_that_is_said_of_an_input_and_those_before_is_its_condition() -> None:
    three = [equal(A, C), equal(B, C2), call("EqualNullSafe", A2, B2), equal(B, A)]
    assert found(*three) == (ImplicitJoin(0, (3, 4, 5), ((2, 3), (0, 1)), (), True),)


@pytest.mark.parametrize(
    "conditions",
    [
        [equal(A, B)],
        [equal(A, B), equal(C, C2)],
        [equal(A, B), equal(C, {"a": 99})],
        [equal(A, B), call("EqualTo", C, {"c": EXPRESSIONS + "Literal", "f": [1], "o": []})],
        [equal(A, B), call("EqualTo", call("Abs", C), B)],
        [equal(A, B), call("Or", equal(C, B), equal(C, A))],
        [equal(A, B), call("Not", equal(C, B))],
        [call("EqualTo", call("OuterReference", A), B), equal(B, C)],
    ],
    ids=str,
)
def test_rows_that_may_multiply(conditions: list[Any]) -> None:
    assert found(*conditions) == ()


def test_outer_joins_are_no_pairs() -> None:
    assert found(equal(A, B), equal(B, C), kind="LeftOuter$") == ()


def test_a_join_with_a_condition_is_one_input() -> None:
    [join] = found(equal(A, C), written=equal(A, B))
    assert (join.inputs, join.conditions) == ((2, 5), ((0,),))


def test_columns_that_two_inputs_share_say_nothing() -> None:
    assert found(equal(A, B), equal(A, C), same=True) == ()
