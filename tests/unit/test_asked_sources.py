"""Which queries can gain nothing, by what they read roughly."""

from __future__ import annotations

from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.query_history import QueryHistory
from holdfast.advice.query_records import written
from holdfast.advice.ran_query import RanQuery

QUERY = PastQuery("app", "report", 1, "count", 0.0, 2.0, PlanPart("a", "Join", 2.0, 9))


def asked(number: int) -> AskedSources:
    return AskedSources(f"sales.{number} shops.{number};")


def test_a_query_is_new_until_it_was_asked() -> None:
    history = QueryHistory("app", "report")
    assert history.is_new(asked(1))
    assert not history.is_new(asked(1))
    assert history.is_new(asked(2))


def test_after_a_part_was_computed_again_others_like_it_are_not_new() -> None:
    history = QueryHistory("app", "report")
    history.add(RanQuery(QUERY, sources=asked(1).text))
    assert history.is_new(asked(2))
    history.add(RanQuery(QUERY, sources=asked(1).text))
    assert not history.is_new(asked(3))
    assert history.is_new(AskedSources("sales.4 stock.4;"))


def test_what_other_programs_have_asked_is_not_new() -> None:
    history = QueryHistory(
        "app", "report", lambda: [written(RanQuery(QUERY, sources=asked(1).text))]
    )
    history.load()
    assert not history.is_new(asked(1))
    assert history.is_new(asked(2))
