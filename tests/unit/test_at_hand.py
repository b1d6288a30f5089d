"""Which datasets of other programs stay open for later jobs, and for how long."""

from __future__ import annotations

from holdfast.runtime.at_hand import AtHand
from tests.catalog.results import kept


def test_what_was_put_is_taken_once_and_of_two_of_one_result_one_is_spare() -> None:
    open_ones, first, second = AtHand(), kept(), kept()
    assert open_ones.put(1, first) is None
    assert open_ones.put(1, second) == first
    assert open_ones.take(2) is None
    assert open_ones.take(1) == second
    assert open_ones.take(1) is None


def test_what_no_job_has_read_for_a_while_expires() -> None:
    now = 0.0
    open_ones, first, second = AtHand(10.0, lambda: now), kept(), kept()
    open_ones.put(1, first)
    now = 6.0
    open_ones.put(2, second)
    assert open_ones.expired() == {}
    now = 10.0
    assert open_ones.expired() == {1: first}
    assert open_ones.expired(all_of_them=True) == {2: second}
    assert open_ones.take(2) is None
