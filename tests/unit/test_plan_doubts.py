"""What a plan is doubted for that no query of the tests leads to."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.plan.canonicalizer import Canonicalizer
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.value_digest import Undigestible

CATALYST = "org.apache.spark.sql.catalyst."
LOGICAL = f"{CATALYST}plans.logical."
ODD = {"f": [], "o": []}
ROWS = {"c": f"{LOGICAL}LocalRelation", "s": {"fields": []}, "rows": None, "out": []}


def leaf(argument: Any) -> dict[str, Any]:
    return {"c": f"{LOGICAL}Range", "f": [argument, 0, 0, 0, []], "out": []}


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (leaf({"opaque": "a.b.Relation"}), Why.OPAQUE.of("Relation")),
        (leaf({"opaque": "a.b.Function", "why": "a lock"}), Why.OBJECT.of("a lock")),
        (leaf({"c": "a.b.Odd", **ODD}), Why.UNKNOWN_EXPRESSION.of("Odd")),
        (
            leaf({"c": f"{CATALYST}expressions.aggregate.Odd", **ODD}),
            Why.UNKNOWN_AGGREGATE.of("Odd"),
        ),
        (leaf({"python": "AAAA", "version": "3.11"}), Why.PYTHON.of("a lock")),
        (leaf({"id": 7}), Why.UNREADABLE.of("an expression id that something may refer to")),
        (ROWS, Why.INCOMPARABLE_ROWS.of()),
    ],
    ids=lambda each: each.kind if isinstance(each, Reason) else "",
)
def test_a_plan_says_what_it_is_doubted_for(operator: dict[str, Any], reason: Reason) -> None:
    def undigestible(pickled: str) -> str:
        raise Undigestible("a lock")

    plan: Any = {"i": 0, "n": 0, "t": "salt", "f": [], "o": [], **operator}
    made = Canonicalizer("session", undigestible, str).canonicalize([plan])
    assert list(made.reasons()) == [reason]
