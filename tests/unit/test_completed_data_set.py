"""A dataset made whole from what is left and what was produced: each row is in it once."""

from __future__ import annotations

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
from holdfast.storage.row_layout import HashedRows, RowLayout, Share, Slots, SplitFiles

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
