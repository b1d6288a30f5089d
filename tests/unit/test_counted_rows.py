"""How many rows parts of a query had is known of what has run, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.advice.counted_rows import RanStep, counted_rows
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL

# What stands above what, upper ones first; the steps that ran, as the JVM writes them (how many
# joins, rows, columns); and the rows that are known. Operators' own columns are their places.
CASES: dict[str, tuple[list[str], list[str], list[tuple[str, int]]]] = {
    "an aggregate of a join": (
        ["Aggregate", "Project", "Join"],
        ["0 40 0", "1 2000 2"],
        [("Aggregate", 40), ("Join", 2000)],
    ),
    "an aggregate of an aggregate": (
        ["Aggregate", "Project", "Aggregate"],
        ["0 13 0", "0 1000 2"],
        [("Aggregate", 13), ("Aggregate", 1000)],
    ),
    "all are sorted before the first ones are taken": (
        ["GlobalLimit", "LocalLimit", "Sort", "Aggregate"],
        ["0 40 3"],
        [("Aggregate", 40)],
    ),
    "what an action gathers": (["Aggregate"], ["0 1 99", "0 40 0"], [("Aggregate", 40)]),
    "an unknown number": (["Aggregate", "Join"], ["0 -1 0", "1 7 1"], [("Join", 7)]),
    "a condition may have moved below": (["Filter", "Aggregate"], ["0 10 1"], []),
    "a condition between them": (
        ["Aggregate", "Filter", "Join"],
        ["0 40 0", "1 2000 2"],
        [("Aggregate", 40)],
    ),
    "other joins": (["Aggregate", "Join"], ["0 40 0", "2 9 1"], [("Aggregate", 40)]),
    "other columns": (["Aggregate"], ["0 40 0 99"], []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_run_is_counted(case: str) -> None:
    names, lines, expected = CASES[case]
    root: Any = None
    for handle, name in reversed([*enumerate(names)]):
        below = () if root is None else (root,)
        root = CanonicalNode(name, f"{handle}", below, (), handle, (handle,), False, 0, False)
    operators: Any = [
        {"c": LOGICAL + name, "i": handle, "f": [], "o": [], "n": 0}
        for handle, name in enumerate(names)
    ]
    counted = counted_rows(root, operators, map(RanStep.read, lines))
    assert [(names[handle], rows) for handle, rows in counted.items()] == expected
