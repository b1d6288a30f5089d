"""How fast kept rows are read and written is learned, and by no less than a few queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.proposal import StorageRates
from holdfast.advice.storage_use import StorageUse
from holdfast.spark.plans.measured_parts import QueryCost, Used, storage_uses

ASSUMED = StorageRates(written=10.0, read=100.0)


def read(key: str, size: int, seconds: float) -> StorageUse:
    return StorageUse(key, False, size, seconds, 1.0)


def wrote(key: str, size: int, seconds: float) -> StorageUse:
    return StorageUse(key, True, size, seconds, 1.0)


def learned(*uses: StorageUse) -> LearnedRates:
    rates = LearnedRates(ASSUMED)
    for use in uses:
        rates.noted(use)
    return rates


@pytest.mark.parametrize(
    ("uses", "written_rate", "read_rate"),
    [
        # Two times are chance; of three the median counts, and of many the last ones.
        ([read("a", 100, 2.0)] * 2, 10.0, 100.0),
        (
            [read(key, 100, seconds) for key, seconds in (("a", 2.0), ("b", 0.5), ("c", 0.5))],
            10.0,
            200.0,
        ),
        ([wrote(key, 100, 5.0) for key in "abc"], 20.0, 100.0),
        ([read("a", 100, 4.0)] * 20 + [read("a", 100, 0.5)] * 9, 10.0, 200.0),
    ],
)
def test_rates_are_those_that_were_measured(
    uses: list[StorageUse], written_rate: float, read_rate: float
) -> None:
    assert learned(*uses).rates == StorageRates(written=written_rate, read=read_rate)


def test_what_certain_rows_take_counts_for_these() -> None:
    rates = learned(*[read("slow", 100, 4.0)] * 3, *[read("fast", 100, 0.5)] * 6)
    assert rates.seconds_to_read("slow", 50) == 2.0
    assert rates.seconds_to_read("fast", 50) == 0.25
    assert rates.seconds_to_read("unknown", 400) == 2.0


@given(st.lists(st.builds(read, st.just("a"), st.integers(0, 2**50), st.floats(0, 1e9))))
def test_no_rate_is_far_from_the_assumed_one(uses: list[StorageUse]) -> None:
    rates = learned(*uses).rates
    assert ASSUMED.read / 4 <= rates.read <= ASSUMED.read * 4
    assert rates.written == ASSUMED.written


def test_reading_takes_what_the_rest_of_its_query_does_not() -> None:
    used = [Used("join", 300, 6.0), Used("group", 100, 2.0)]
    cost = QueryCost(10.0, {"join": 6.0, "group": 2.0})
    join, group = storage_uses(used, 10.0, cost)
    assert (join.seconds, group.seconds) == (6.0, 2.0)
    assert not join.is_wrong and not group.is_wrong
    [slow, _] = storage_uses(used, 10.0, QueryCost(14.0, cost.known))
    assert slow.is_wrong


def test_writing_takes_what_is_beside_computing() -> None:
    cost = QueryCost(12.0, {"join": 6.0}, kept=frozenset({"join"}))
    [use] = storage_uses([Used("join", 300, 6.0)], 8.0, cost)
    assert use == StorageUse("join", True, 300, 4.0, 6.0) and not use.is_wrong


@pytest.mark.parametrize(
    ("used", "cost"),
    [
        ([], QueryCost(5.0, {})),
        ([Used("join", 0, 6.0)], QueryCost(5.0, {"join": 6.0})),
        ([Used("join", 9, 0.0)], QueryCost(5.0, {"join": 6.0})),
        ([Used("join", 9, 6.0)], QueryCost(5.0, {"join": 0.0})),
        (
            [Used("a", 9, 6.0), Used("b", 9, 6.0)],
            QueryCost(5.0, {"a": 1.0, "b": 1.0}, frozenset("b")),
        ),
    ],
    ids=["nothing", "no rows", "no work", "never computed", "read and written"],
)
def test_what_can_not_be_separated_is_not_known(used: list[Used], cost: QueryCost) -> None:
    assert storage_uses(used, 8.0, cost) == ()
