"""What is proposed is what would have saved most, by replaying the queries."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.choice import choose
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import StorageRates
from holdfast.advice.replay import replay

RATES = StorageRates(written=100.0, read=200.0)


def queries(*roots: PlanPart) -> list[PastQuery]:
    return [
        PastQuery("app-1", "report", number, f"count at r.py:{number}", float(number), 1.0, root)
        for number, root in enumerate(roots)
    ]


def part(key: str | None, seconds: float, size: int = 0, *inputs: PlanPart) -> PlanPart:
    return PlanPart(key, f"part {key}", seconds, size, inputs)


JOIN = part("join", 10.0, 100)


def test_what_is_computed_once_is_not_proposed() -> None:
    assert choose(queries(JOIN, part("other", 20.0))) == ()
    assert choose([]) == ()


def test_a_part_of_several_queries_is_proposed() -> None:
    asked = queries(*(part(f"top {number}", 1.0, 10, JOIN) for number in range(3)))
    [proposal] = choose(asked, RATES)
    assert (proposal.key, proposal.reads, proposal.bytes) == ("join", 2, 100)
    assert proposal.queries == tuple(asked)
    assert proposal.seconds == 10.0
    # Twice 10 s less 0.5 s to read it, and once 1 s to write it.
    assert proposal.saved_seconds == pytest.approx(2 * 9.5 - 1)


def test_what_is_below_a_proposal_is_not_counted_twice() -> None:
    whole = part("whole", 1.0, 10, JOIN)
    found = choose(queries(whole, whole, whole), RATES)
    assert [each.key for each in found] == ["whole"]
    also = choose(queries(whole, whole, part("else", 1.0, 10, JOIN)), RATES)
    assert {each.key for each in also} == {"whole", "join"}
    total = sum(each.saved_seconds for each in also)
    assert total == pytest.approx((11 - 0.05) + (10 - 0.5) - 0.1 - 1)


def test_what_is_dearer_to_read_than_to_compute_is_computed() -> None:
    wide = part("wide", 1.0, 1_000_000)
    assert choose(queries(wide, wide, wide), RATES) == ()


def test_what_is_not_known_is_like_nothing() -> None:
    unknown = part(None, 10.0)
    assert choose(queries(unknown, unknown)) == ()


def test_an_exchange_that_a_query_reuses_saves_nothing_there() -> None:
    again = PlanPart("join", "part join", 0.0, 100)
    assert choose(queries(part("self-join", 1.0, 10, JOIN, again)), RATES) == ()
    [proposal] = choose(queries(part("self-join", 1.0, 10, JOIN, again), JOIN), RATES)
    assert (proposal.key, proposal.reads) == ("join", 1)


def test_a_budget_takes_what_saves_most_for_its_bytes() -> None:
    large, small = part("large", 10.0, 400), part("small", 6.0, 50)
    asked = queries(*[part(f"{n}", 0.1, 1, large, small) for n in range(4)])
    assert [each.key for each in choose(asked, RATES)] == ["large", "small"]
    assert [each.key for each in choose(asked, RATES, budget=420)] == ["large"]
    assert [each.key for each in choose(asked, RATES, budget=100)] == ["small"]
    assert choose(asked, RATES, budget=10) == ()


def test_small_savings_and_many_proposals_can_be_left_out() -> None:
    parts = [part(f"{n}", float(n)) for n in range(1, 6)]
    asked = queries(*parts, *parts)
    assert [each.key for each in choose(asked, RATES)] == ["5", "4", "3", "2", "1"]
    assert [each.key for each in choose(asked, RATES, most=2)] == ["5", "4"]
    assert [each.key for each in choose(asked, RATES, least_seconds=3.5)] == ["5", "4"]


def test_the_first_query_by_time_keeps_it() -> None:
    early, late = queries(JOIN, JOIN)
    [proposal] = choose([late, early], RATES)
    assert proposal.queries == (early, late)


def test_a_large_part_takes_the_place_of_several_small_ones() -> None:
    large, small, other = part("large", 20.0, 300), part("small", 3.0, 10), part("other", 3.0, 10)
    asked = queries(large, large, small, small, other, other)
    assert [each.key for each in choose(asked, RATES, budget=300)] == ["large"]
    # Of what is equal the same one is chosen by every program.
    assert {each.key for each in choose(asked, RATES, budget=319)} == {"large", "small"}
    assert len(choose(asked, RATES, budget=320)) == 3


KEYS = "abcdef"


@st.composite
def histories(draw: st.DrawFn) -> list[PastQuery]:
    """Queries over parts of which one key always means the same tree."""
    parts: list[PlanPart] = []
    for key in KEYS:
        inputs = draw(st.lists(st.sampled_from(parts), max_size=2)) if parts else []
        seconds = draw(st.floats(0.1, 20))
        parts.append(part(key, seconds, draw(st.integers(0, 1000)), *inputs))
    return queries(*draw(st.lists(st.sampled_from(parts), max_size=8)))


def saved(asked: list[PastQuery], kept: set[str]) -> float:
    return sum(each.saved_seconds for each in replay(asked, kept, RATES).values())


@given(histories(), st.sampled_from([None, 300, 1500]))
def test_what_is_proposed_is_nearly_the_best(asked: list[PastQuery], budget: int | None) -> None:
    found = choose(asked, RATES, budget=budget)
    kept = {each.key for each in found}
    sizes = {each.key: each.bytes for query in asked for each in query.root.walk()}
    if budget is not None:
        assert sum(sizes[key] for key in kept) <= budget
    assert all(each.saved_seconds > 0 and each.reads > 0 for each in found)
    best = max(
        saved(asked, set(keys))
        for count in range(len(sizes) + 1)
        for keys in itertools.combinations(sizes, count)
        if budget is None or sum(sizes[key] for key in keys) <= budget
    )
    assert saved(asked, kept) >= 0.8 * best - 1e-6


@given(histories())
def test_nothing_saves_more_than_what_it_cost(asked: list[PastQuery]) -> None:
    in_all = sum(query.root.seconds for query in asked)
    assert sum(each.saved_seconds for each in choose(asked, RATES)) <= in_all


@given(histories(), st.randoms())
def test_the_order_in_which_queries_are_given_is_no_matter(
    asked: list[PastQuery], chance: st.DataObject
) -> None:
    mixed = [replace(each) for each in asked]
    chance.shuffle(mixed)  # type: ignore[attr-defined]
    assert choose(mixed, RATES) == choose(asked, RATES)
