"""How fast kept rows are read and written is learned, and by no less than a few queries."""

from __future__ import annotations

import pytest

from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.proposal import StorageRates
from holdfast.advice.storage_use import StorageUse

ASSUMED = StorageRates(written=10.0, read=100.0)


def read(key: str, seconds: float, size: int = 100, is_write: bool = False) -> StorageUse:
    return StorageUse(key, is_write, size, seconds, 1.0)


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
    rates = LearnedRates(ASSUMED)
    for use in uses:
        rates.noted(use)
    assert rates.rates == StorageRates(written=written_rate, read=read_rate)
