"""Which datasets of other programs stay at hand, and for how long."""

from __future__ import annotations

from holdfast.runtime.at_hand import AtHand
from tests.catalog.results import kept


def test_what_was_put_is_taken_once() -> None:
    at_hand, dataset = AtHand(), kept()
    assert at_hand.put(1, dataset) is None
    assert at_hand.take(2) is None
    assert at_hand.take(1) == dataset
    assert at_hand.take(1) is None


def test_of_two_of_one_result_one_is_spare() -> None:
    at_hand, first, second = AtHand(), kept(), kept()
    at_hand.put(1, first)
    assert at_hand.put(1, second) == first
    assert at_hand.take(1) == second


def test_what_nobody_has_read_for_a_while_expires() -> None:
    now = 0.0
    at_hand, first, second = AtHand(10.0, lambda: now), kept(), kept()
    at_hand.put(1, first)
    now = 6.0
    at_hand.put(2, second)
    assert at_hand.expired() == {}
    now = 10.0
    assert at_hand.expired() == {1: first}
    assert at_hand.expired(all_of_them=True) == {2: second}
    assert at_hand.take(2) is None
