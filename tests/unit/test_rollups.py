"""Which groups of a join the implicit cache keeps, to make coarser ones of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.asked_groups import AskedGroups
from holdfast.advice.rollups import AskedRollups, Groups, Rollup

COUNTS = {"a": 10.0, "b": 7.0, "x": 1_000.0, "y": 1_000.0, "c": 40_000.0, "d": None}


def groups(by: str, measures: str = "m") -> Groups:
    """Groups by columns of one letter each."""
    counts = {each: COUNTS.get(each, 2.0) for each in by}
    return Groups({each: each for each in by}, {each: each for each in measures}, counts)


NUMBERS = itertools.count()


def question(asked: Groups) -> Rollup:
    """Something that has not been asked before."""
    return Rollup("join", asked, f"aggregate {next(NUMBERS)}")


def noted(*asked: Groups) -> AskedRollups:
    """What has been asked of a join."""
    rollups = AskedRollups()
    for each in asked:
        rollups.noted(question(each))
    return rollups


def where(by: str, *conditions: str) -> Groups:
    """Groups of rows that fulfil conditions, which begin with the columns that they compare."""
    asked = AskedGroups()
    for each in by:
        asked.add_key(each, COUNTS.get(each, 2.0))
    asked.add_measures("m")
    for condition in conditions:
        pieces = condition.partition(" ")[0]
        asked.add_condition(condition, [(each, COUNTS.get(each, 2.0)) for each in pieces])
    return asked.groups({each: each for each in (*asked.expressions, *asked.measures)})


TWO = (where("b", "x < 1"), where("b", "x < 1"))


@pytest.mark.parametrize(
    ("before", "asked", "kept"),
    [
        # What conditions compare is grouped by where other conditions come back.
        (TWO, where("b", "x < 1"), "bmx < 1"),
        (TWO, where("b", "x < 2"), "bmx"),
        ((where("b", "x < 1"), where("b", "x < 2")), where("b", "x < 1"), "bmx"),
        (TWO, where("b", "y < 1"), "bmx < 1y < 1"),
        ((where("b", "xy < 1"),) * 2, where("b", "x < 2"), "bmx < 2xy < 1"),
        # It has to be few values together with the rest.
        ((where("a", "c < 1"),) * 2, where("a", "c < 2"), "ac < 1c < 2m"),
        ((where("b", "x < 1", "cd < 1"),) * 2, where("b", "x < 2", "cd < 1"), "bcd < 1mx"),
        # What was asked before is kept with what is asked now, where that isn't too much.
        ((groups("a", "m"),) * 2, groups("b", "n"), "abmn"),
        ((groups("a"), groups("c")), groups("b"), "abm"),
        # First of all what was asked last.
        ((groups("x"), groups("y")), groups("b"), "bmy"),
        ((groups("a"),) * 2, groups("ac"), None),
        ((groups("a"),) * 2, groups("d"), None),
    ],
)
def test_what_is_kept(before: tuple[Groups, ...], asked: Groups, kept: str | None) -> None:
    found = noted(*before).worth_keeping(question(asked), [])
    assert (None if found is None else "".join(sorted({*found.by, *found.measures}))) == kept


@pytest.mark.parametrize(
    ("asked", "serves"),
    [
        (groups("a"), True),
        (groups("ab", "mn"), True),
        (groups("a", "o"), False),
        (groups("c"), False),
        (groups(""), True),
        (where("", "ab < 1"), True),
        (where("a", "ac < 1"), False),
    ],
)
def test_groups_serve_what_has_no_more_keys_and_measures(asked: Groups, serves: bool) -> None:
    fine = groups("ab", "mn")
    assert fine.serve(asked) is fine.reads_as(asked) is serves


def test_what_is_kept_without_literals_serves_other_literals() -> None:
    first, second = where("b", "x < 1"), where("b", "x < 2")
    assert [*first.by] == ["b", "x < 1"] and not first.serve(second)
    assert [*where("c", "c < 1").by] == ["c"], "conditions on what is grouped by need no more"
    found = noted(first, first).worth_keeping(question(second), [])
    assert found is not None
    assert found.serve(first) and found.serve(second) and found.reads_as(second)
    assert not found.serve(where("a", "x < 1"))


SOME = st.builds(groups, st.text("abcdef", min_size=1), st.text("mnop", min_size=1))


@given(st.lists(SOME, max_size=20), SOME)
def test_what_is_kept_serves_what_is_asked_for_and_is_not_too_much(
    before: Sequence[Groups], asked: Groups
) -> None:
    found = noted(*before).worth_keeping(question(asked), [])
    if found is not None:
        assert found.serve(asked)
        assert found.number is not None and found.number <= 100_000
