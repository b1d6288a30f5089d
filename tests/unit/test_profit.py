"""What is evicted: worked examples, and what holds for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog.profit import Room, Valued, make_room


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


def test_what_others_were_made_of_and_is_gone_costs_as_well() -> None:
    gone = valued("input", seconds=1000.0)
    of_it = valued("of it", inputs=("input",))
    assert room(valued("new", seconds=1e6), of_it, valued("b")).evicted == ("of it",)
    found = room(valued("new", seconds=1e6), of_it, valued("b"), gone=(gone,))
    assert found.evicted == ("b",)
    # What the new one was made of goes first.
    whole = valued("whole", seconds=1.0, inputs=("b",))
    assert room(whole, valued("a", seconds=5.0), valued("b", seconds=50.0)).evicted == ("b",)


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
