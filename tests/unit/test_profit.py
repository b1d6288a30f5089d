"""What is evicted: worked examples, what holds for all, and whole traces beside other policies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.proposal import StorageRates
from holdfast.catalog.profit import Room, Valued, make_room
from holdfast.runtime.saved_time import NeededPart, saved_seconds


def valued(key: str, **changed: object) -> Valued[str]:
    facts: dict[str, object] = {"bytes": 10, "seconds": 10.0, "references": (0.0,)}
    return Valued(key, **{**facts, **changed})  # type: ignore[arg-type]


def room(newcomer: Valued[str], *kept: Valued[str], free: int = 0, **more: object) -> Room[str]:
    return make_room(newcomer, kept, free, 100.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "worse",
    [{"seconds": 1.0}, {"bytes": 100}, {"references": (-900.0,)}],
    ids=["cheap to compute", "large", "not used for long"],
)
def test_what_is_worth_least_goes(worse: dict[str, object]) -> None:
    found = room(valued("new", seconds=1e6), valued("a"), valued("b", **worse), valued("c"))
    assert found == Room(True, ("b",))


def test_what_is_worth_more_stays_and_the_new_one_is_not_kept() -> None:
    assert room(valued("new"), valued("a"), free=10) == Room(True)
    assert room(valued("new", bytes=100, seconds=1e9), valued("a")) == Room(False)
    assert room(valued("new", seconds=1.0), valued("a")) == Room(False)
    assert room(valued("new", seconds=1.0), valued("a"), must_be_kept=True) == Room(True, ("a",))


def test_no_more_goes_than_is_needed() -> None:
    small = [valued(f"s{number}", bytes=1, seconds=0.5) for number in range(5)]
    found = room(valued("new", bytes=10, seconds=1e6), *small, valued("big", seconds=6.0))
    assert found == Room(True, ("big",))


def test_what_others_were_made_of_and_is_gone_costs_as_well() -> None:
    gone = valued("input", seconds=1000.0)
    of_it = valued("of it", inputs=("input",))
    assert room(valued("new", seconds=1e6), of_it, valued("b")).evicted == ("of it",)
    found = room(valued("new", seconds=1e6), of_it, valued("b"), gone=(gone,))
    assert found.evicted == ("b",)


def test_what_the_new_one_was_made_of_goes_first_unless_it_is_larger() -> None:
    piece, other = valued("piece", seconds=50.0), valued("other", seconds=5.0)
    whole = valued("whole", seconds=1.0, inputs=("piece",))
    assert room(whole, piece, other) == Room(True, ("piece",))
    # That it was made of it says what it costs to make again.
    assert room(valued("whole", seconds=1.0), piece, other) == Room(False)
    large = valued("large", bytes=1_000, seconds=1e4)
    part = valued("part", bytes=5, seconds=1.0, inputs=("large",))
    assert room(part, large, other) == Room(False)


RATES = StorageRates(written=10.0, read=50.0)


@pytest.mark.parametrize(
    ("produced", "size", "needed", "cores", "rates", "saved"),
    [
        # 10 s on two cores, of which 2 s are writing 40 bytes; reading them takes 0.4 s.
        (10.0, 40, NeededPart(), 2, RATES, 7.6),
        (10.0, 40, NeededPart(work=0.125, bytes=0.25), 2, RATES, 1 - 0.1),
        # What is dearer to read than to compute saves nothing, and costs nothing here.
        (0.1, 4_000, NeededPart(), 2, RATES, 0.0),
        # Rates are assumed: not all of a production is writing.
        (10.0, 1_000, NeededPart(), 100, StorageRates(1.0, 1_000.0), 4.99),
        (0.0, 0, NeededPart(), 1, RATES, 0.0),
    ],
)
def test_what_is_saved_is_what_is_needed_less_reading_it(
    produced: float, size: int, needed: NeededPart, cores: int, rates: StorageRates, saved: float
) -> None:
    assert saved_seconds(produced, size, needed, cores, rates) == pytest.approx(saved)


KEPT = st.lists(
    st.builds(
        Valued,
        st.integers(0, 20),
        st.integers(0, 100),
        st.floats(0, 1e6),
        st.lists(st.floats(0, 100), max_size=4).map(sorted).map(tuple),
        st.lists(st.integers(0, 20), max_size=3).map(tuple),
    ),
    max_size=8,
    unique_by=lambda each: each.key,
)


@given(KEPT, st.integers(0, 200), st.integers(-50, 200), st.booleans())
def test_there_is_room_afterwards(
    kept: list[Valued[int]], size: int, free: int, must_be_kept: bool
) -> None:
    newcomer = Valued(99, size, 5.0, (0.0, 50.0))
    found = make_room(newcomer, kept, free, 100.0, must_be_kept=must_be_kept)
    sizes = {each.key: each.bytes for each in kept}
    assert len(set(found.evicted)) == len(found.evicted) and sizes.keys() >= set(found.evicted)
    freed = free + sum(sizes[key] for key in found.evicted)
    if found.is_admitted:
        assert freed >= size or size - free <= 0
        assert all(freed - sizes[key] < size for key in found.evicted)
    elif must_be_kept:
        assert free + sum(sizes.values()) < size
