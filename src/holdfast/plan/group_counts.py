"""Guesses how many groups there are, given how many values columns have."""

from __future__ import annotations

import math
from collections.abc import Iterable

_DAYS_OF_A_YEAR = 365.0
_FEW = {
    "DayOfMonth": 31.0,
    "DayOfWeek": 7.0,
    "DayOfYear": 366.0,
    "Hour": 24.0,
    "Minute": 60.0,
    "Month": 12.0,
    "Quarter": 4.0,
    "WeekDay": 7.0,
}
_REMAINDERS = frozenset({"Pmod", "Remainder"})

OF_CONDITION = 2.0
"""How many values a condition has: that it is unknown is rare."""


def guess_values(kind: str, number: float | None, columns: Iterable[float | None]) -> float | None:
    """How many values an expression has at most, about; None where nobody knows.

    Args:
        kind: of the expression, as Spark calls it.
        number: the one that it has; None where there is none.
        columns: how many values each of its columns has.

    >>> guess_values("AttributeReference", None, [3650.0]), guess_values("Year", None, [3650.0])
    (3650.0, 10)
    >>> guess_values("Remainder", 7.0, [None]), guess_values("Add", 1.0, [None])
    (7.0, None)
    """
    found = product(columns)
    if kind == "Year" and found is not None:
        return math.ceil(found / _DAYS_OF_A_YEAR)
    few = _FEW.get(kind)
    if kind in _REMAINDERS and number is not None:
        few = abs(number)
    if few is None:
        return found
    return few if found is None else min(few, found)


def product(counts: Iterable[float | None]) -> float | None:
    """How many combinations there are; None where one of the numbers isn't known.

    Args:
        counts: how many there are of each.

    >>> product([3.0, 4.0]), product([3.0, None])
    (12.0, None)
    """
    found = 1.0
    for each in counts:
        if each is None:
            return None
        found *= each
    return found
