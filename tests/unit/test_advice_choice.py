"""What is proposed is what would have saved most, by replaying the queries."""

from __future__ import annotations

import itertools
import random
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
WIDE, UNKNOWN = part("wide", 1.0, 1_000_000), part(None, 10.0)
# An exchange that a query reuses saves nothing there.
REUSED = part("self-join", 1.0, 10, JOIN, part("join", 0.0, 100))
LARGE, SMALL, OTHER = part("large", 20.0, 300), part("small", 3.0, 10), part("other", 3.0, 10)
TWICE = [LARGE, LARGE, SMALL, SMALL, OTHER, OTHER]
RISING = [part(f"{n}", float(n)) for n in range(1, 6)] * 2


@pytest.mark.parametrize(
    ("asked", "limits", "proposed"),
    [
        ([], {}, ""),
        ([JOIN, part("other", 20.0)], {}, ""),
        # Dearer to read than to compute, or not known.
        ([WIDE] * 3, {}, ""),
        ([UNKNOWN] * 2, {}, ""),
        ([REUSED], {}, ""),
        ([REUSED, JOIN], {}, "join"),
        (TWICE, {"budget": 10}, "other"),
        # A large part takes the place of several small ones.
        (TWICE, {"budget": 300}, "large"),
        # Of what is equal the same one is chosen by every program.
        (TWICE, {"budget": 319}, "large small"),
        (TWICE, {"budget": 320}, "large other small"),
        (RISING, {}, "5 4 3 2 1"),
        (RISING, {"most": 2}, "5 4"),
        (RISING, {"least_seconds": 3.5}, "5 4"),
    ],
)
def test_what_saves_most_is_proposed(
    asked: list[PlanPart], limits: dict[str, float], proposed: str
) -> None:
    found = choose(queries(*asked), RATES, **limits)  # type: ignore[arg-type]
    assert [each.key for each in found] == proposed.split()


def test_a_proposal_says_what_it_saves_in_which_queries() -> None:
    asked = queries(*(part(f"top {number}", 1.0, 10, JOIN) for number in range(3)))
    [proposal] = choose([*reversed(asked)], RATES)
    assert (proposal.key, proposal.reads, proposal.bytes) == ("join", 2, 100)
    assert proposal.queries == tuple(asked), "the first one by time keeps it"
    assert proposal.seconds == 10.0
    # Twice 10 s less 0.5 s to read it, and once 1 s to write it.
    assert proposal.saved_seconds == pytest.approx(2 * 9.5 - 1)


def test_what_is_below_a_proposal_is_not_counted_twice() -> None:
    whole = part("whole", 1.0, 10, JOIN)
    assert [each.key for each in choose(queries(whole, whole, whole), RATES)] == ["whole"]
    also = choose(queries(whole, whole, part("else", 1.0, 10, JOIN)), RATES)
    assert {each.key for each in also} == {"whole", "join"}
    total = sum(each.saved_seconds for each in also)
    assert total == pytest.approx((11 - 0.05) + (10 - 0.5) - 0.1 - 1)


KEYS = "abcde"


@st.composite
def histories(draw: st.DrawFn) -> list[PastQuery]:
    """Queries over parts of which one key always means the same tree."""
    parts: list[PlanPart] = []
    for key in KEYS:
        inputs = draw(st.lists(st.sampled_from(parts), max_size=2)) if parts else []
        seconds = draw(st.floats(0.1, 20))
        parts.append(part(key, seconds, draw(st.integers(0, 1000)), *inputs))
    return queries(*draw(st.lists(st.sampled_from(parts), max_size=6)))


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


@given(histories(), st.randoms())
def test_no_more_is_saved_than_it_cost_in_any_order(
    asked: list[PastQuery], chance: random.Random
) -> None:
    found = choose(asked, RATES)
    assert sum(each.saved_seconds for each in found) <= sum(each.root.seconds for each in asked)
    mixed = [replace(each) for each in asked]
    chance.shuffle(mixed)
    assert choose(mixed, RATES) == found
