"""Plans of which it doesn't count which literals they have."""

from __future__ import annotations

from typing import Any

from holdfast.plan.document import EXPRESSIONS, OperatorDocument
from holdfast.plan.rewritten import rewritten

_LITERAL = EXPRESSIONS + "Literal"


def without_literals(operators: list[OperatorDocument]) -> list[OperatorDocument]:
    """The same plan with nothing in the place of each literal's value; its type stays.

    Args:
        operators: a plan's operators in pre-order, which stay as they are.

    >>> number = {"c": _LITERAL, "f": [7, {"type": "integer"}], "o": []}
    >>> plan = [{"i": 0, "c": "Filter", "n": 0, "t": None, "f": [number], "o": []}]
    >>> without_literals(plan)[0]["f"][0]["f"]
    [None, {'type': 'integer'}]
    """
    return rewritten(operators, other_value=_without_value)


def _without_value(value: dict[str, Any]) -> dict[str, Any] | None:
    return {**value, "f": [None, *value["f"][1:]]} if value.get("c") == _LITERAL else None
