"""Which datasets of other programs stay open for later jobs, and for how long."""

from __future__ import annotations

from holdfast.runtime.at_hand import AtHand
from tests.catalog.results import kept


def test_one_of_a_result_stays_open_until_it_is_taken_or_expires() -> None:
    now = 0.0
    open_ones, first, second, third = AtHand(10.0, lambda: now), kept(), kept(), kept()
    assert open_ones.put(1, first) is None
    assert open_ones.put(1, second) == first
    assert open_ones.take(2) is None
    assert (open_ones.take(1), open_ones.take(1)) == (second, None)
    open_ones.put(1, first)
    now = 6.0
    open_ones.put(2, third)
    assert open_ones.expired() == {}
    now = 10.0
    assert open_ones.expired() == {1: first}
    assert open_ones.expired(all_of_them=True) == {2: third}
    assert open_ones.take(2) is None
