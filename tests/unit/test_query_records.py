"""Records of queries are read as they were written."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.query_records import read, written
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.storage_use import StorageUse
from holdfast.advice.worth_keeping import Verdict
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.this_program import this_program
from holdfast.ids import ApplicationID

words = st.text(max_size=8)
seconds = st.integers(0, 10**6).map(lambda number: number / 1000)
leaves = st.builds(
    PlanPart,
    st.none() | words,
    words,
    seconds,
    st.integers(0, 2**50),
    st.just(()),
    st.lists(words).map(tuple),
    seconds,
)
trees = st.recursive(
    leaves,
    lambda inputs: st.builds(
        PlanPart,
        st.none() | words,
        words,
        seconds,
        st.integers(0, 2**50),
        st.lists(inputs, max_size=3).map(tuple),
        st.lists(words).map(tuple),
        seconds,
        st.none() | words,
        st.just(""),
        st.none() | st.integers(0, 2**50),
    ),
    max_leaves=6,
)
kept = st.builds(KeptForm, words, st.frozensets(words))
queries = st.builds(
    RanQuery,
    st.builds(
        PastQuery,
        *(words, words, st.integers(), words, seconds, seconds, trees),
        *(st.integers(0, 2**50), st.integers(0, 2**50)),
        *(st.integers(0, 2**20), seconds),
    ),
    words,
    st.lists(kept).map(tuple),
    st.lists(
        st.builds(Verdict, words, words, st.none() | kept, words, seconds, seconds, st.booleans())
    ).map(tuple),
    st.lists(
        st.builds(StorageUse, words, st.booleans(), st.integers(0, 2**50), seconds, seconds)
    ).map(tuple),
)


@given(queries)
def test_what_is_written_is_read(ran: RanQuery) -> None:
    assert read(written(ran)) == ran


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_what_is_damaged_is_nothing(content: bytes) -> None:
    assert read(content) is None


def test_parts_that_were_recorded_without_their_rows_are_read() -> None:
    ran = RanQuery(PastQuery("a", "p", 1, "count", 0.0, 1.0, PlanPart(None, "Join", 1.0, 1)))
    document = json.loads(written(ran))
    document["root"].pop()
    assert read(json.dumps(document).encode()) == ran


def test_what_is_of_a_later_version_is_nothing() -> None:
    ran = RanQuery(PastQuery("a", "p", 1, "count", 0.0, 1.0, PlanPart(None, "Join", 1.0, 1)))
    later = {**json.loads(written(ran)), "version": 2}
    assert read(json.dumps(later).encode()) is None


def catalog(home: Path, storage: str = "here", environment: str = "e") -> Catalog:
    return Catalog(
        CatalogDatabase(in_directory(home)),
        lambda: storage,
        lambda: environment,
        this_program(ApplicationID.random()),
        60.0,
    )


def test_a_catalog_has_the_last_queries_of_each_place_and_environment(tmp_path: Path) -> None:
    here, elsewhere = catalog(tmp_path), catalog(tmp_path, "there")
    for number in range(4):
        here.queries.add(b"%d" % number)
    elsewhere.queries.add(b"other")
    assert here.queries.last(2) == [b"2", b"3"]
    assert elsewhere.queries.last(9) == [b"other"]
    assert catalog(tmp_path, environment="f").queries.last(9) == []
    assert here.queries.last(9, anywhere=True) == [b"0", b"1", b"2", b"3", b"other"]


def test_a_catalog_forgets_old_queries(tmp_path: Path, monkeypatch: object) -> None:
    import holdfast.catalog.queries as module

    mine = catalog(tmp_path)
    before = module._MOST, module._EACH
    module._MOST, module._EACH = 10, 5
    try:
        for number in range(40):
            mine.queries.add(b"%d" % number)
    finally:
        module._MOST, module._EACH = before
    assert mine.queries.last(99) == [b"%d" % number for number in range(30, 40)]


def test_a_history_knows_what_other_programs_have_told() -> None:
    told: list[bytes] = []
    part = PlanPart("join", "Join", 4.0, 100, (), ("a",))
    first = QueryHistory("one", "p", told=told.append)
    form = KeptForm("join", frozenset("ab"))
    first.add(RanQuery(first.past(part, "count", 0.0, 2.0), "d", (form,)))
    second = QueryHistory("two", "q", past=lambda: [b"damaged", *told])
    assert second.queries == []
    second.load()
    second.load()
    assert [each.application for each in second.queries] == ["one"]
    assert second.forms_of("join") == [form]
    assert second.expected([], 0.0).root.inputs == ()
