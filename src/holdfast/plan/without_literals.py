"""Plans of which it doesn't count which literals they have."""

from __future__ import annotations

from holdfast.plan.deep import Walk, walked
from holdfast.plan.document import EXPRESSIONS, OperatorDocument, Value

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
        elif value.get("c") == _LITERAL:
            changed = {**value, "f": [None, *value["f"][1:]]}
        elif "plan" in value:
            changed = {**value, "plan": without_literals(value["plan"])}
        else:
            changed = {}
            for key, item in value.items():
                changed[key] = yield of_value(item, made)
        made[id(value)] = changed
        return changed

    def of_operator(operator: OperatorDocument) -> OperatorDocument:
        fields, others = walked(of_value([operator["f"], operator["o"]], {}))
        return {**operator, "f": fields, "o": others}

    return [of_operator(each) for each in operators]
