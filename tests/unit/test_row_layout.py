"""Which rows are missing of a dataset that has lost partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.row_layout import HashedRows, Remainder, RowLayout, Share, merged

SLOTS = 30


@st.composite
def layouts(draw: st.DrawFn) -> RowLayout:
    """Each slot is at most one share's, and so is each partition."""
    owner = draw(st.lists(st.integers(-1, 5), min_size=SLOTS, max_size=SLOTS))
    shares = []
    for number in range(6):
        slots = merged((slot, slot + 1) for slot, share in enumerate(owner) if share == number)
        count = draw(st.integers(1, 3))
        partitions = tuple(number * 3 + place for place in range(count))
        if slots:
            shares.append(Share(partitions=partitions, slots=slots))
    return RowLayout(by=HashedRows(columns=(0,), slots=SLOTS), shares=tuple(shares))


def slots_of(shares: list[Share]) -> list[int]:
    return sorted(
        slot for share in shares for start, end in share.slots for slot in range(start, end)
    )


@given(layouts(), st.sets(st.integers(0, 17)), st.sets(st.integers(0, 17)))
def test_each_row_comes_once(layout: RowLayout, files: set[int], intact: set[int]) -> None:
    known = {index for share in layout.shares for index in share.partitions}
    kept = sorted(files & known)
    found = layout.remainder(kept, intact)
    lost = set(kept) - intact
    if found is None:
        touched = [share for share in layout.shares if lost & set(share.partitions)]
        left = set(kept) - {index for share in touched for index in share.partitions}
        assert not lost or not left
        return
    assert lost
    made = Share(partitions=(0,), slots=found.slots)
    numbers = {index: place for place, index in enumerate(found.partitions, 1)}
    whole = layout.completed(numbers, [made])
    # Slots whose partitions never had a file have no rows.
    with_files = [share for share in layout.shares if set(share.partitions) & set(kept)]
    assert slots_of(list(whole.shares)) == slots_of(with_files)
    assert set(found.partitions) <= set(kept) & intact
    assert {index for share in whole.shares for index in share.partitions} == {
        0,
        *numbers.values(),
    }


def layout(*shares: Share) -> RowLayout:
    return RowLayout(by=HashedRows(columns=(0,), slots=9), shares=shares)


def test_of_what_contradicts_itself_nothing_is_known() -> None:
    one = Share(partitions=(0,), slots=((0, 3),))
    assert layout(one, Share(partitions=(1,), slots=((2, 4),))).remainder([0, 1], [0]) is None
    assert layout(one, Share(partitions=(0, 1), slots=((3, 4),))).remainder([0, 1], [0]) is None
    # Whose rows the second one has isn't said.
    assert layout(one).remainder([0, 1], [0]) is None
    assert layout(one, Share(partitions=(1,), slots=((3, 4),))).remainder([0, 1], [0]) == (
        Remainder((0,), ((3, 4),))
    )
