"""Plans with some of their operators, or of the values in these, replaced by others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.plan.deep import Walk, walked
from holdfast.plan.document import OperatorDocument, Value


def rewritten(
    operators: list[OperatorDocument],
    other_operator: Callable[[OperatorDocument], OperatorDocument | None] = lambda operator: None,
    other_value: Callable[[dict[str, Any]], Value | None] = lambda value: None,
) -> list[OperatorDocument]:
    """The same plan with other parts, also inside of subqueries; what is handed in stays as it is.

    Args:
        operators: a plan's operators in pre-order.
        other_operator: given an operator, what is to stand in its place; None for its own values.
        other_value: given a part of an argument, what is to stand in its place; None for its own.

    >>> plan = [{"i": 0, "c": "Filter", "n": 0, "t": None, "f": [[{"a": 1}]], "o": []}]
    >>> rewritten(plan, other_value=lambda value: {"a": 2} if "a" in value else None)[0]["f"]
    [[{'a': 2}]]
    """

    def of_value(value: Value, made: dict[int, Value]) -> Walk[Value]:
        if not isinstance(value, (dict, list)):
            return value
        if id(value) in made:
            return made[id(value)]
        changed: Value
        if isinstance(value, list):
            changed = []
            for item in value:
                changed.append((yield of_value(item, made)))
        elif (other := other_value(value)) is not None:
            changed = other
        elif "plan" in value:
            changed = {**value, "plan": rewritten(value["plan"], other_operator, other_value)}
        else:
            changed = {}
            for key, item in value.items():
                changed[key] = yield of_value(item, made)
        made[id(value)] = changed
        return changed

    def of_operator(operator: OperatorDocument) -> OperatorDocument:
        other = other_operator(operator)
        if other is not None:
            return other
        fields, others = walked(of_value([operator["f"], operator["o"]], {}))
        return {**operator, "f": fields, "o": others}

    return [of_operator(each) for each in operators]
