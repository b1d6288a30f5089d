"""How fast kept rows are read and written is learned, and by no less than a few queries."""

from __future__ import annotations

import pytest

from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.proposal import StorageRates
from holdfast.advice.storage_use import StorageUse
from holdfast.spark.plans.measured_parts import QueryCost, Used, storage_uses

ASSUMED = StorageRates(written=10.0, read=100.0)


def read(key: str, seconds: float, size: int = 100, is_write: bool = False) -> StorageUse:
    return StorageUse(key, is_write, size, seconds, 1.0)


def learned(*uses: StorageUse) -> LearnedRates:
    rates = LearnedRates(ASSUMED)
    for use in uses:
        rates.noted(use)
    return rates


@pytest.mark.parametrize(
    ("uses", "written_rate", "read_rate"),
    [
        # Two times are chance; of three the median counts, and of many the last ones.
        ([read("a", 2.0)] * 2, 10.0, 100.0),
        ([read("a", 2.0), read("b", 0.5), read("c", 0.5)], 10.0, 200.0),
        ([read(key, 5.0, is_write=True) for key in "abc"], 20.0, 100.0),
        ([read("a", 4.0)] * 20 + [read("a", 0.5)] * 9, 10.0, 200.0),
        # None is far from the assumed one.
        ([read("a", 0.0)] * 3 + [read("a", 1.0, size=0)] * 9, 10.0, 400.0),
        ([read("a", 1e9)] * 3, 10.0, 25.0),
    ],
)
def test_rates_are_those_that_were_measured(
    uses: list[StorageUse], written_rate: float, read_rate: float
) -> None:
    assert learned(*uses).rates == StorageRates(written=written_rate, read=read_rate)


def test_what_certain_rows_take_counts_for_these() -> None:
    rates = learned(*[read("slow", 4.0)] * 3, *[read("fast", 0.5)] * 6)
    found = [rates.seconds_to_read(*each) for each in (("slow", 50), ("fast", 50), ("other", 400))]
    assert found == [2.0, 0.25, 2.0]


JOIN = Used("join", 300, 6.0)
BOTH = {"join": 6.0, "group": 2.0}


@pytest.mark.parametrize(
    ("used", "elapsed", "cost", "uses", "is_wrong"),
    [
        # Reading takes what the rest of its query does not, writing what is beside computing.
        ([JOIN, Used("group", 100, 2.0)], 10.0, QueryCost(10.0, BOTH), [6.0, 2.0], False),
        ([JOIN, Used("group", 100, 2.0)], 10.0, QueryCost(14.0, BOTH), None, True),
        ([JOIN], 8.0, QueryCost(12.0, {"join": 6.0}, kept=frozenset({"join"})), [4.0], False),
        # What can't be separated isn't known.
        ([], 8.0, QueryCost(5.0, {}), [], False),
        ([Used("join", 0, 6.0)], 8.0, QueryCost(5.0, {"join": 6.0}), [], False),
        ([Used("join", 9, 0.0)], 8.0, QueryCost(5.0, {"join": 6.0}), [], False),
        ([JOIN], 8.0, QueryCost(5.0, {"join": 0.0}), [], False),
        (
            [Used("a", 9, 6.0), Used("b", 9, 6.0)],
            8.0,
            QueryCost(5.0, {"a": 1.0, "b": 1.0}, frozenset("b")),
            [],
            False,
        ),
    ],
)
def test_what_a_query_took_is_separated(
    used: list[Used], elapsed: float, cost: QueryCost, uses: list[float] | None, is_wrong: bool
) -> None:
    found = storage_uses(used, elapsed, cost)
    assert uses is None or [each.seconds for each in found] == uses
    assert all(each.is_write is (each.key in cost.kept) for each in found)
    assert any(each.is_wrong for each in found) is is_wrong
