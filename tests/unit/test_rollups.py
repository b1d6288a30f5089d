"""Which groups of a join the implicit cache keeps, to make coarser ones of."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.asked_groups import AskedGroups
from holdfast.advice.rollups import AskedRollups, Groups, Rollup
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument
from holdfast.plan.group_counts import guess_values
from holdfast.plan.grouped_join import grouped_join

COUNTS = {"a": 10.0, "b": 7.0, "x": 1_000.0, "y": 1_000.0, "c": 40_000.0, "d": None}


def groups(by: str, measures: str = "m") -> Groups:
    """Groups by columns of one letter each."""
    counts = {each: COUNTS.get(each, 2.0) for each in by}
    return Groups({each: each for each in by}, {each: each for each in measures}, counts)


NUMBERS = itertools.count()


def question(asked: Groups, fine: Groups | None = None, dataset: str = "") -> Rollup:
    """Something that has not been asked before."""
    return Rollup("join", asked, f"aggregate {next(NUMBERS)}", fine=fine, dataset=dataset)


def noted(*asked: Groups) -> AskedRollups:
    """What has been asked of a join."""
    rollups = AskedRollups()
    for each in asked:
        rollups.noted(question(each))
    return rollups


def kept_for(rollups: AskedRollups, asked: Groups, *kept: tuple[Groups, int]) -> str | None:
    found = rollups.worth_keeping(question(asked), kept)
    return None if found is None else "".join(sorted({*found.by, *found.measures}))


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
    assert kept_for(noted(*before), asked) == kept


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


def test_a_condition_on_what_can_not_be_grouped_by_is_grouped_by_as_a_whole() -> None:
    asked = AskedGroups()
    asked.add_condition("rand() < 1", [("a", 10.0), ("", 2.0)])
    assert [*asked.by] == ["rand() < 1"] and asked.compared == {}


def test_what_is_kept_without_literals_serves_other_literals() -> None:
    first, second = where("b", "x < 1"), where("b", "x < 2")
    assert [*first.by] == ["b", "x < 1"] and not first.serve(second)
    assert [*where("c", "c < 1").by] == ["c"], "conditions on what is grouped by need no more"
    found = noted(first, first).worth_keeping(question(second), [])
    assert found is not None
    assert found.serve(first) and found.serve(second) and found.reads_as(second)
    assert not found.serve(where("a", "x < 1"))


def test_what_other_programs_have_kept_counts() -> None:
    twice = noted(groups("b"), groups("b"))
    assert kept_for(twice, groups("a"), (groups("e"), 50)) == "abem"
    assert kept_for(twice, groups("a"), (groups("d"), 60_000)) == "abm"
    # Nothing more is kept of a join with more groups than expected.
    assert kept_for(twice, groups("a"), (groups("e"), 10_000_000)) is None


def test_rows_are_kept_of_a_join_that_is_always_grouped_by_something_else() -> None:
    assert not noted(groups("a")).are_kept_instead("join", groups("ac"))
    new = noted(*map(groups, "efg"))
    assert new.are_kept_instead("join", groups("a"))
    for _ in range(2):
        # What is asked again says nothing new.
        new.noted(question(groups("h")))
    assert not new.are_kept_instead("join", groups("a"))
    new.noted(question(groups("ef")))
    new.noted(question(groups("i"), groups("ij"), "dataset"))
    assert new.are_kept_instead("join", groups("a"))


def test_other_literals_are_other_questions() -> None:
    asked = noted(*map(groups, "efg"), *(where("b", f"x < {least}") for least in range(3)))
    # The first one taught what the others compare, and the third one would have been served.
    assert not asked.are_kept_instead("join", groups("a"))
    for _ in range(2):
        asked.noted(question(where("b", "x < 9")))
        assert asked.are_kept_instead("join", groups("a"))


def kept_while_asked(rollups: AskedRollups, *asked: Rollup) -> str:
    """For each question whether something finer was kept (f), only that (k), or nothing."""
    made = ""
    for each in asked:
        kept = replace(each, fine=rollups.worth_keeping(each, []))
        rollups.noted(kept)
        made += "f" if kept.is_made_finer else "k" if kept.fine is not None else "."
    return made


def test_finer_groups_that_no_query_reads_are_made_half_as_often_each_time() -> None:
    asked = [question(groups(chr(256 + number))) for number in range(1_000)]
    made = kept_while_asked(AskedRollups(), *asked)
    assert made.startswith("kkfkkkfkkkkkkkfk") and made.count("f") == 8
    rollups = AskedRollups()
    assert kept_while_asked(rollups, *map(question, map(groups, "aefghi"))) == "kkfkkk"
    rollups.noted(question(groups("a"), groups("aef"), "dataset"))
    assert "f" in kept_while_asked(rollups, *map(question, map(groups, "jk")))


def test_what_is_read_or_asked_again_pays_for_nothing() -> None:
    rollups = AskedRollups()
    for _ in range(5):
        rollups.noted(Rollup("join", groups("a"), "the same aggregate"))
        rollups.noted(question(groups("e"), groups("ae"), "dataset"))
    assert kept_for(rollups, groups("f")) == "fm"
    rollups.noted(question(groups("f")))
    assert kept_for(rollups, groups("f")) == "aefm"


def test_what_leaves_rows_out_pays_more_for_what_is_made_of_all() -> None:
    rollups, some = noted(groups("a"), groups("e"), groups("a")), question(groups("a"))
    assert rollups.worth_keeping(some, []) is not None
    assert rollups.worth_keeping(replace(some, leaves_rows_out=True), []) is None


def test_what_has_failed_is_not_tried_again() -> None:
    rollups = noted(groups("a"), groups("a"))
    rollups.failed("join")
    assert not rollups.are_kept_instead("join", groups("a"))
    assert kept_for(rollups, groups("a")) is None


SOME = st.builds(groups, st.text("abcdef", min_size=1), st.text("mnop", min_size=1))


@given(st.lists(SOME, max_size=20), SOME)
def test_what_is_kept_serves_what_is_asked_for_and_is_not_too_much(
    before: Sequence[Groups], asked: Groups
) -> None:
    found = noted(*before).worth_keeping(question(asked), [])
    if found is not None:
        assert found.serve(asked)
        assert found.number is not None and found.number <= 100_000


@pytest.mark.parametrize(
    ("name", "operands", "number"),
    [
        ("AttributeReference", [None], None),
        ("Month", [2_500.0], 12),
        ("Month", [3.0], 3),
        ("Remainder", [100.0], 100),
        ("Concat", [4.0, 5.0], 20),
    ],
)
def test_values_of_what_is_computed(
    name: str, operands: list[float | None], number: float | None
) -> None:
    assert guess_values(name, None, operands) == number


def operator(handle: int, name: str, inputs: int, *arguments: Any) -> OperatorDocument:
    document = {"i": handle, "c": LOGICAL + name, "n": inputs, "t": None, "f": [*arguments]}
    return cast(OperatorDocument, {**document, "o": []})


def node(handle: int, name: str, *children: CanonicalNode) -> CanonicalNode:
    return CanonicalNode(name, str(handle), children, (), handle, (), False, 0, False)


def over(*between: tuple[str, Any]) -> tuple[CanonicalNode, dict[int, OperatorDocument]]:
    """An aggregate of what some operators make of a join."""
    operators = {0: operator(0, "Aggregate", 1, [], [])}
    for handle, (name, argument) in enumerate(between, start=1):
        operators[handle] = operator(handle, name, 1, argument)
    last = len(operators)
    operators[last] = operator(last, "Join", 2)
    below = node(last, "Join")
    for handle in range(last - 1, -1, -1):
        name = operators[handle]["c"].removeprefix(LOGICAL)
        below = node(handle, name, below)
    return below, operators


def test_conditions_between_an_aggregate_and_its_join_are_found() -> None:
    found = grouped_join(*over(("Filter", {}), ("SubqueryAlias", "t"), ("Filter", {})))
    assert found is not None and found.join.operator == "Join" and found.filters == (1, 3)
    dropped = grouped_join(*over(("Project", [{"a": 1}])))
    assert dropped is not None and dropped.filters == ()


def test_an_aggregate_of_something_else_is_none_of_a_join() -> None:
    computed = {"alias": 7, "of": {"c": EXPRESSIONS + "Add", "f": []}}
    assert grouped_join(*over(("Project", [computed]))) is None
    assert grouped_join(*over(("GlobalLimit", 5))) is None
    aggregate, operators = over()
    assert grouped_join(aggregate.children[0], operators) is None
