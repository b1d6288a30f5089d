"""Partitions of what is kept: their rows, their files, and how they are completed."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.completed_data_set import CompletedDataSet
from holdfast.storage.kept_dataset import (
    DataSetDescription,
    KeptDataSet,
    KeptPartition,
    Manifest,
)
from holdfast.storage.row_layout import (
    HashedRows,
    Remainder,
    RowLayout,
    Share,
    Slots,
    SplitFiles,
    merged,
)
from holdfast.storage.small_partitions import (
    LEAST_SAVED,
    LEAST_TARGET,
    MOST_FILES,
    MOST_TARGET,
    SMALL,
    groups_to_merge,
)
from holdfast.taskexecutor.recovery.shuffle_files import SHUFFLES, gather_shuffles

# -- a dataset made whole from what is left and what was produced: each row is in it once


DESCRIPTION = DataSetDescription(
    dataset_id="1" * 64, computes="rows", columns=(), spark_version="4.3.0"
)


def partition(index: int, rows: int, version: str = "1") -> KeptPartition:
    return KeptPartition(
        index=index, file=f"part-{index}", bytes=100 + rows, rows=rows, version=version
    )


def dataset(partitions: list[KeptPartition]) -> KeptDataSet:
    manifest = Manifest(created="2026-01-01", dataset=DESCRIPTION, partitions=tuple(partitions))
    return KeptDataSet(directories=("kept",), manifest=manifest)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.booleans(), st.data())
def test_its_layout_says_which_rows_each_partition_holds(
    rows: list[int], hashed: bool, data: st.DataObject
) -> None:
    def rows_of(slots: Slots) -> int:
        return sum(sum(rows[start:end]) for start, end in slots)

    # A task has neighbouring slots, and a file if it has rows.
    ends = [*range(1, len(rows) + 1)]
    by: HashedRows | SplitFiles = SplitFiles(split="0" * 64, slots=len(rows), settings={})
    if hashed:
        ends = sorted({len(rows), *data.draw(st.sets(st.sampled_from(ends)))})
        by = HashedRows(columns=(0,), slots=len(rows))
    ranges = [*zip([0, *ends], ends, strict=False)]
    shares = [Share(partitions=(task,), slots=(each,)) for task, each in enumerate(ranges)]
    layout = RowLayout(by=by, shares=tuple(shares))
    counts = [rows_of((each,)) for each in ranges]
    kept = dataset([partition(task, count) for task, count in enumerate(counts) if count])
    files = {each.index for each in kept.manifest.partitions}
    lost = data.draw(st.sets(st.sampled_from(sorted(files)))) if files else set()
    remainder = layout.remainder(files, files - lost)
    if remainder is None:
        assert not lost or lost == files
        return
    each_slot = [rows[slot] for slot in remainder.each_slot]
    made = [rows_of(remainder.slots)] if hashed else each_slot
    completed = CompletedDataSet(kept, layout, remainder, len(made))
    found = [partition(task, count) for task, count in enumerate(made) if count]
    for number, linked in completed.taken.items():
        found.append(linked.model_copy(update={"index": number}))
    assert completed.what_is_wrong(found) is None
    held = {each.index: each.rows for each in found}
    assert sum(held.values()) == sum(rows)
    assert all(index < completed.number_of_partitions for index in held)
    new = completed.new_layout([*held])
    slots = [slot for share in new.shares for range_ in share.slots for slot in range(*range_)]
    assert len(slots) == len(set(slots))
    assert {slot for slot, count in enumerate(rows) if count} <= set(slots)
    for share in new.shares:
        assert rows_of(share.slots) == sum(held.get(index, 0) for index in share.partitions)
    # So it does of what is lost of it next.
    for index in held:
        again = new.remainder(held, set(held) - {index})
        assert again is None or index not in again.partitions
        assert again is not None or len(held) == 1


@pytest.fixture
def completed() -> CompletedDataSet:
    shares = [Share(partitions=(task,), slots=((task, task + 1),)) for task in range(4)]
    layout = RowLayout(by=HashedRows(columns=(0,), slots=4), shares=tuple(shares))
    kept = dataset([partition(task, task + 1) for task in range(4)])
    remainder = layout.remainder(range(4), [0, 1, 3])
    assert remainder is not None
    return CompletedDataSet(kept, layout, remainder, 1)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        ([(0, 3), (1, 1), (2, 2), (3, 4)], None),
        ([(0, 2), (1, 1), (2, 2), (3, 4)], "3 rows were lost, 2 produced"),
        ([(1, 1), (2, 2), (3, 4)], "3 rows were lost, 0 produced"),
        ([(0, 3), (1, 1), (3, 4)], "partition 1 is gone"),
        ([(0, 3), (1, 1), (2, 3), (3, 4)], "partition 1 was modified"),
        ([(0, 3), (1, 1), (2, 2, "2"), (3, 4)], "partition 1 was modified"),
        ([(0, 3), (1, 1), (2, 2), (3, 4), (4, 0)], "expected 1 new partitions, found number 4"),
    ],
)
def test_what_is_wrong_with_it_is_said(
    completed: CompletedDataSet, found: list[Any], wrong: str | None
) -> None:
    assert completed.what_is_wrong(partition(*each) for each in found) == wrong


# -- which rows are missing of a dataset that has lost partitions


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


# -- which partitions are written together, and what is put in the place of those that were


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


# -- what earlier starts' shuffles have written is brought together


def leave(start: Path, shuffle: str, *names: str, content: str = "") -> None:
    directory = start / SHUFFLES / shuffle
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(content or start.name)


def contents(start: Path) -> dict[str, str]:
    return {
        str(path.relative_to(start / SHUFFLES)): path.read_text()
        for path in start.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.mkdir()
    return path


def test_data_come_before_their_index(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(own, "s", "9.index")
    leave(tmp_path / "a", "s", "0.data", "0.index")
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".index"):
            raise OSError("killed")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(OSError, match="killed"):
        gather_shuffles(tmp_path / "a", own)
    assert set(contents(own)) == {"s/9.index", "s/0.data"}
    monkeypatch.undo()
    gather_shuffles(tmp_path / "a", own)
    assert set(contents(own)) == {"s/9.index", "s/0.data", "s/0.index"}
