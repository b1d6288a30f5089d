"""Which partitions are written together, and what is put in the place of those that were."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.small_partitions import (
    LEAST_SAVED,
    LEAST_TARGET,
    MOST_FILES,
    MOST_TARGET,
    SMALL,
    groups_to_merge,
)

SIZES = st.lists(
    st.one_of(
        st.integers(0, 2000),
        st.integers(0, SMALL - 1),
        st.just(SMALL - 1),
        st.just(SMALL),
        st.integers(SMALL, 1 << 32),
    ),
    max_size=700,
)


@given(SIZES, st.integers(1, 64))
def test_small_neighbours_are_written_together(sizes: list[int], parallelism: int) -> None:
    groups = groups_to_merge(sizes, parallelism)
    target = min(max(sum(sizes) // parallelism, LEAST_TARGET), MOST_TARGET)
    places = [place for group in groups for place in group]
    assert places == sorted(set(places))
    for group in groups:
        assert group.step == 1
        assert 2 <= len(group) <= MOST_FILES
        assert all(sizes[place] < SMALL for place in group)
        assert sum(sizes[place] for place in group) <= target
    assert not groups or len(places) - len(groups) >= LEAST_SAVED
    if groups:
        # What stands beside each other afterwards wouldn't have fitted into one.
        starts = {group.start: group for group in groups}
        left, place = [], 0
        while place < len(sizes):
            group = starts.get(place, range(place, place + 1))
            left.append(group)
            place = group.stop
        assert [each for group in left for each in group] == list(range(len(sizes)))
        for one, other in pairwise(left):
            both = [sizes[each] for each in (*one, *other)]
            assert max(both) >= SMALL or sum(both) > target or len(both) > MOST_FILES


@given(st.integers(0, LEAST_SAVED), st.integers(1, 64))
def test_a_few_small_partitions_are_left(number: int, parallelism: int) -> None:
    assert groups_to_merge([100] * number, parallelism) == ()
    assert groups_to_merge([100] * (LEAST_SAVED + 1), parallelism) == (range(LEAST_SAVED + 1),)
