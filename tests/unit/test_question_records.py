"""What is asked of joins is told to later programs without anybody's data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.asked_groups import AskedGroups
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.query_records import read, written
from holdfast.advice.question_records import has_literals, without_literals
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.rollups import AskedRollups, Groups, Rollup

SECRET = "4711"
names = st.sampled_from(["city", "day 7", "ci`ty's", "4711x", "x4711", "a.b"]).map(
    lambda name: name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
)
literals = st.sampled_from(
    ["{}", "-{}.5BD", "0.{}D", "'{}'", "'`{}`'", "X'{}'", "DATE '{}-01-01'", "'o''`{}'", "{}L"]
).map(lambda literal: literal.format(SECRET))
of_columns = st.recursive(
    names,
    lambda inner: (
        st.builds("({} + {})".format, inner, inner)
        | st.builds("CAST({} AS DECIMAL(12,2))".format, inner)
        | st.builds("(1 - {})".format, inner)
        | st.builds("coalesce({}, 0L)".format, inner)
    ),
    max_leaves=4,
)


@given(of_columns, of_columns, literals)
def test_literals_are_found_whatever_is_around_them(one: str, other: str, literal: str) -> None:
    assert not has_literals(one)
    assert has_literals(f"({one} = {literal})")
    assert has_literals(f"CASE WHEN {one} > {literal} THEN {other} ELSE {one} END")


def asked(*keys: str, measures: tuple[str, ...] = ("count(1)",), condition: str = "") -> Groups:
    groups = AskedGroups()
    for key in keys:
        groups.add_key(key, 10.0)
    groups.add_measures(measures)
    if condition:
        groups.add_condition(condition, [(condition.partition(" ")[0], 1_000.0)])
    return groups.groups({each: each for each in (*groups.expressions, *groups.measures)})


def told(*questions: Rollup) -> tuple[Rollup, ...]:
    """What a later program reads of what an earlier one has asked."""
    past = PastQuery("app", "p", 1, "collect", 0.0, 1.0, PlanPart(None, "Join", 1.0, 9))
    content = written(RanQuery(past, questions=questions))
    assert SECRET.encode() not in content
    found = read(content)
    assert found is not None
    return found.questions


def test_conditions_are_told_by_what_they_compare() -> None:
    question = Rollup("join", asked("city", condition=f"day = {SECRET}"), "d", True)
    (found,) = told(question)
    assert [*found.asked.by] == ["city"]
    assert [[*what] for what in found.asked.compares.values()] == [["day"]]
    assert found.asked.counts == {"city": 10.0, "day": 1_000.0}
    assert found.leaves_rows_out and found.digest == "d"


def test_conditions_come_back_in_other_programs_with_other_literals() -> None:
    def kept(*, before: str, now: str) -> set[str]:
        rollups = AskedRollups()
        for question in told(Rollup("join", asked("city", condition=before), "d0")):
            rollups.noted(question)
        rollups.noted(Rollup("join", asked("kind"), "d1"))
        found = rollups.worth_keeping(Rollup("join", asked("kind", condition=now), "d2"), [])
        assert found is not None
        return {*found.by.values()}

    earlier = f"day = {SECRET}"
    assert kept(before=earlier, now="day = 7") == {"city", "kind", "day"}
    assert kept(before=earlier, now=earlier) == {"city", "kind", earlier}
    assert kept(before=earlier, now="size = 7") == {"city", "kind", "size = 7"}


def test_what_is_measured_with_literals_is_left_out_and_the_rest_is_told() -> None:
    groups = asked("city", measures=("sum(a * (1 - b))", f"sum(a * {SECRET})"))
    fine = asked("city", "day", measures=("sum(a * (1 - b))", f"sum(a * {SECRET})"))
    (found,) = told(Rollup("join", groups, "d", fine=fine, dataset="ff"))
    assert [*found.asked.measures] == ["sum(a * (1 - b))"]
    assert found.fine is not None and [*found.fine.by] == ["city", "day"]
    assert found.is_read


@pytest.mark.parametrize(
    "groups", [asked(f"(city = '{SECRET}')"), asked("a", condition=f"f(a, b) > {SECRET}")]
)
def test_what_is_grouped_by_literals_is_not_told(groups: Groups) -> None:
    without = Groups(groups.by, groups.measures, groups.counts)
    assert without_literals(Rollup("join", without, "d")) is None
    assert told(Rollup("join", without, "d")) == ()


questions = st.builds(
    Rollup,
    st.text(max_size=8),
    st.lists(of_columns, unique=True).map(lambda keys: asked(*keys)),
    st.text(max_size=8),
    st.booleans(),
)


@given(st.lists(questions, max_size=4).map(tuple))
def test_questions_are_read_as_they_were_told(asked_before: tuple[Rollup, ...]) -> None:
    past = PastQuery("app", "p", 1, "collect", 0.0, 1.0, PlanPart(None, "Join", 1.0, 9))
    found = read(written(RanQuery(past, questions=asked_before)))
    assert found is not None and found.questions == asked_before


@pytest.mark.parametrize("damaged", [[1], [["r", "d", 0, "x", [], None]], "text", 7, [None]])
def test_damaged_questions_are_nothing(damaged: object) -> None:
    past = PastQuery("app", "p", 1, "collect", 0.0, 1.0, PlanPart(None, "Join", 1.0, 9))
    document = {**json.loads(written(RanQuery(past))), "questions": damaged}
    assert read(json.dumps(document).encode()) is None


def test_a_dataset_without_its_groups_is_none() -> None:
    past = PastQuery("app", "p", 1, "collect", 0.0, 1.0, PlanPart(None, "Join", 1.0, 9))
    document = json.loads(written(RanQuery(past, questions=(Rollup("r", asked("a"), "d"),))))
    document["questions"][0][3] = "ff"
    found = read(json.dumps(document).encode())
    assert found is not None
    AskedRollups().noted(found.questions[0])


def test_a_program_pays_for_finer_groups_together_with_those_before_it() -> None:
    contents: list[bytes] = []
    first = QueryHistory("one", "p", told=contents.append)
    part = PlanPart("join", "Join", 4.0, 100)
    for number, key in enumerate(("city", "day")):
        question = Rollup("join", asked(key), f"d{number}")
        first.add(RanQuery(first.past(part, "c", 0.0, 2.0), f"d{number}", questions=(question,)))
    second = QueryHistory("two", "q", past=lambda: contents)
    rollups = AskedRollups()
    for question in second.load():
        rollups.noted(question)
    assert not second.load()
    found = rollups.worth_keeping(Rollup("join", asked("kind"), "d2"), [])
    assert found is not None and {*found.by} == {"city", "day", "kind"}
    alone = AskedRollups().worth_keeping(Rollup("join", asked("kind"), "d2"), [])
    assert alone is not None and {*alone.by} == {"kind"}
