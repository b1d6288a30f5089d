"""Guesses how many rows operators put out, as the engine's own estimates multiply joins out."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.plan.deep import Walk, walked
from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument, Value

_AND, _OR, _NOT = EXPRESSIONS + "And", EXPRESSIONS + "Or", EXPRESSIONS + "Not"
_KEEPS_ALL = frozenset({EXPRESSIONS + "IsNotNull", EXPRESSIONS + "Literal"})
_KEEPS = {
    EXPRESSIONS + "EqualTo": 0.1,
    EXPRESSIONS + "EqualNullSafe": 0.1,
    EXPRESSIONS + "In": 0.2,
    EXPRESSIONS + "InSet": 0.2,
    EXPRESSIONS + "StartsWith": 0.1,
    EXPRESSIONS + "EndsWith": 0.1,
    EXPRESSIONS + "Contains": 0.1,
    EXPRESSIONS + "Like": 0.1,
}
# Of a comparison; two of them bound a range.
_KEEPS_SOME = 0.5
_GROUPS = 0.25
_ONE_SIDE = frozenset({"LeftSemi$", "LeftAnti$"})


@dataclass(frozen=True, slots=True)
class RowGuess:
    """How many rows a plan may put out.

    Attributes:
        rows: how many.
        base: how many of its largest source's rows there were to begin with.
    """

    rows: float
    base: float

    @property
    def part(self) -> float:
        """Which part of the rows is left."""
        return self.rows / self.base if self.base else 1.0


def guess_rows(operator: OperatorDocument, inputs: list[RowGuess]) -> RowGuess:
    """The rows of an operator, given those of its inputs.

    A join is taken for one along a foreign key: the larger input's rows, less what is missing of
    the smaller one.

    Args:
        operator: not a source.
        inputs: of its children.

    >>> rule = {"i": 0, "c": LOGICAL + "Union", "n": 2, "t": None, "f": [], "o": []}
    >>> guess_rows(rule, [RowGuess(10, 10), RowGuess(20, 40)]).rows
    30
    """
    if not inputs:
        return RowGuess(1, 1)
    first = inputs[0]
    match operator["c"].removeprefix(LOGICAL):
        case "Filter":
            return RowGuess(first.rows * kept_part(operator["f"][0]), first.base)
        case "Join":
            return _joined(operator, inputs)
        case "Aggregate":
            keys = operator["f"][0]
            return RowGuess(first.rows * _GROUPS if keys else 1, first.base if keys else 1)
        case "Distinct" | "Deduplicate":
            return RowGuess(first.rows * _GROUPS, first.base)
        case "Union":
            return RowGuess(sum(each.rows for each in inputs), sum(each.base for each in inputs))
        case "Expand":
            times = len(operator["f"][0])
            return RowGuess(first.rows * times, first.base * times)
        case "GlobalLimit" | "LocalLimit":
            most = _number(operator["f"][0])
            return first if most is None else RowGuess(min(first.rows, most), first.base)
    return first


def kept_part(condition: Value) -> float:
    """Which part of the rows may fulfil a condition."""
    return walked(_kept_part(condition))


def _kept_part(condition: Value) -> Walk[float]:
    if not isinstance(condition, dict):
        return _KEEPS_SOME
    name, fields = condition.get("c"), condition.get("f", [])
    if name == _AND:
        return float((yield _kept_part(fields[0])) * (yield _kept_part(fields[1])))
    if name == _OR:
        return min(1.0, float((yield _kept_part(fields[0])) + (yield _kept_part(fields[1]))))
    if name == _NOT:
        return max(_KEEPS_SOME, 1 - float((yield _kept_part(fields[0]))))
    if name in _KEEPS_ALL:
        return 1.0
    return _KEEPS.get(str(name), _KEEPS_SOME)


def _joined(operator: OperatorDocument, inputs: list[RowGuess]) -> RowGuess:
    left, right = inputs[0], inputs[-1]
    kind = operator["f"][2]["c"].rpartition(".")[2]
    if kind in _ONE_SIDE:
        part = right.part if kind == "LeftSemi$" else max(_KEEPS_SOME, 1 - right.part)
        return RowGuess(left.rows * part, left.base)
    if operator["f"][3] is None:
        return RowGuess(left.rows * right.rows, left.base * right.base)
    many, few = (left, right) if left.base >= right.base else (right, left)
    if kind in ("LeftOuter$", "RightOuter$", "FullOuter$"):
        return RowGuess(max(left.rows, right.rows), many.base)
    return RowGuess(many.rows * few.part, many.base)


def _number(value: Value) -> float | None:
    if isinstance(value, dict) and value.get("c") == EXPRESSIONS + "Literal":
        literal = value["f"][0]
        return literal if isinstance(literal, int) else None
    return None
