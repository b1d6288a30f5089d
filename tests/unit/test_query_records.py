"""What is recorded of queries for later programs, and what those learn from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.asked_groups import AskedGroups
from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.query_records import read, written
from holdfast.advice.question_records import has_literals, without_literals
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.rollups import Groups, Rollup
from holdfast.advice.storage_use import StorageUse
from holdfast.advice.worth_keeping import Verdict
from holdfast.catalog import queries as catalog_queries
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.this_program import this_program
from holdfast.ids import ApplicationID

QUERY = PastQuery("app", "report", 1, "count", 0.0, 2.0, PlanPart("a", "Join", 2.0, 9))

words = st.sampled_from(["", "a", "b c", "é\n", "'\"\\", "\0"])
numbers = st.sampled_from([0, 1, 2**50])
seconds = st.sampled_from([0.0, 0.001, 2.5, 1e6])
columns = st.lists(words, max_size=2).map(tuple)


def parts(inputs: st.SearchStrategy[PlanPart] | None = None) -> st.SearchStrategy[PlanPart]:
    below = st.just(()) if inputs is None else st.lists(inputs, max_size=3).map(tuple)
    first = (st.none() | words, words, seconds, numbers, below, columns, seconds)
    return st.builds(PlanPart, *first, st.none() | words, st.just(""), st.none() | numbers)


forms = st.builds(KeptForm, words, st.frozensets(words, max_size=2))
verdicts = st.builds(
    Verdict, words, words, st.none() | forms, words, seconds, seconds, st.booleans()
)
uses = st.builds(StorageUse, words, st.booleans(), numbers, seconds, seconds)
past = st.builds(
    PastQuery,
    *(words, words, numbers, words, seconds, seconds),
    *(st.recursive(parts(), parts, max_leaves=3), numbers, numbers, numbers, seconds),
)
ran = st.builds(
    RanQuery,
    *(past, words),
    *(st.lists(each, max_size=2).map(tuple) for each in (forms, verdicts, uses)),
)


@given(ran)
def test_what_is_written_is_read(query: RanQuery) -> None:
    assert read(written(query)) == query


def test_what_is_damaged_or_of_a_later_version_is_nothing() -> None:
    document = json.loads(written(RanQuery(QUERY)))
    changes = ({"version": 2}, {"questions": [1]}, {"questions": [["r", "d", 0, "x", [], None]]})
    damaged = [json.dumps({**document, **each}).encode() for each in changes]
    for content in (b"", b"\xff", b"{", b"[]", b"7", written(RanQuery(QUERY))[:-1], *damaged):
        assert read(content) is None
    # Parts were once recorded without their rows.
    document["root"].pop()
    assert read(json.dumps(document).encode()) == RanQuery(QUERY)


# -- in the catalog --------------------------------------------------------------------------------


def catalog(home: Path, storage: str = "here", environment: str = "e") -> Catalog:
    program = this_program(ApplicationID.random())
    database = CatalogDatabase(in_directory(home))
    return Catalog(database, lambda: storage, lambda: environment, program, 60.0)


def test_a_catalog_has_the_last_queries_of_each_place_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, elsewhere = catalog(tmp_path), catalog(tmp_path, "there")
    for number in range(4):
        here.queries.add(b"%d" % number)
    elsewhere.queries.add(b"other")
    assert here.queries.last(2) == [b"2", b"3"]
    assert elsewhere.queries.last(9) == [b"other"]
    assert catalog(tmp_path, environment="f").queries.last(9) == []
    assert here.queries.last(9, anywhere=True) == [b"0", b"1", b"2", b"3", b"other"]
    monkeypatch.setattr(catalog_queries, "_MOST", 3)
    monkeypatch.setattr(catalog_queries, "_EACH", 2)
    for number in range(4, 10):
        here.queries.add(b"%d" % number)
    left = here.queries.last(99)
    assert left[-3:] == [b"7", b"8", b"9"] and len(left) <= 5


# -- what later programs know ----------------------------------------------------------------------


def sources(number: int) -> AskedSources:
    return AskedSources(f"sales.{number} shops.{number};")


def test_a_query_is_new_until_it_was_asked_or_parts_like_its_own_recur() -> None:
    history = QueryHistory("app", "report")
    assert history.is_new(sources(1)) and not history.is_new(sources(1))
    history = QueryHistory("app", "report")
    for number in (2, 3):
        assert history.is_new(sources(number))
        history.add(RanQuery(QUERY, sources=sources(1).text))
    assert not history.is_new(sources(4))
    assert history.is_new(AskedSources("sales.4 stock.4;"))
    recorded = [written(RanQuery(QUERY, sources=sources(1).text))]
    later = QueryHistory("app", "report", lambda: recorded)
    later.load()
    assert not later.is_new(sources(1)) and later.is_new(sources(2))


# -- questions, without the data that stands in them -----------------------------------------------

SECRET = "4711"
names = st.sampled_from(["city", "`day 7`", "`ci``ty's`", "`42x`", "x42", "`a.b`"])
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
def test_literals_are_found_in_any_expression(one: str, other: str, literal: str) -> None:
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


def recorded(*questions: Rollup) -> tuple[Rollup, ...]:
    """What a later program reads of what an earlier one has asked."""
    content = written(RanQuery(QUERY, questions=questions))
    assert SECRET.encode() not in content
    found = read(content)
    assert found is not None
    return found.questions


groups = st.lists(of_columns, unique=True, max_size=3).map(lambda keys: asked(*keys))
questions = st.builds(Rollup, words, groups, words, st.booleans())


@given(st.lists(questions, max_size=3).map(tuple))
def test_questions_are_read_as_they_were_recorded(before: tuple[Rollup, ...]) -> None:
    assert recorded(*before) == before


def test_what_has_literals_is_left_out_and_the_rest_is_recorded() -> None:
    measures = ("sum(a * (1 - b))", f"sum(a * {SECRET})")
    coarse = asked("city", measures=measures, condition=f"day = {SECRET}")
    fine = asked("city", "day", measures=measures)
    (found,) = recorded(Rollup("join", coarse, "d", fine=fine, dataset="ff"))
    assert [*found.asked.measures] == ["sum(a * (1 - b))"] and [*found.asked.by] == ["city"]
    # Of conditions what they compare.
    assert [[*what] for what in found.asked.compares.values()] == [["day"]]
    assert found.fine is not None and [*found.fine.by] == ["city", "day"]
    assert found.is_read
    for grouped in (asked(f"(city = '{SECRET}')"), asked("a", condition=f"f(a, b) > {SECRET}")):
        without = Groups(grouped.by, grouped.measures, grouped.counts)
        assert without_literals(Rollup("join", without, "d")) is None
        assert recorded(Rollup("join", without, "d")) == ()
