"""A dataset made whole from what is left and what was produced: each row is in it once."""

from __future__ import annotations

from dataclasses import dataclass
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
from holdfast.storage.row_layout import HashedRows, RowLayout, Share, SplitFiles

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


@dataclass(frozen=True)
class Lost:
    """Slots with so many rows each, the task that wrote each slot, and the partitions lost."""

    rows: tuple[int, ...]
    layout: RowLayout
    kept: KeptDataSet
    lost: frozenset[int]

    def rows_of(self, share: Share) -> int:
        return sum(sum(self.rows[start:end]) for start, end in share.slots)

    def completed(self) -> CompletedDataSet | None:
        files = [each.index for each in self.kept.manifest.partitions]
        remainder = self.layout.remainder(files, set(files) - self.lost)
        if remainder is None:
            return None
        made = 1 if isinstance(self.layout.by, HashedRows) else len(remainder.each_slot)
        return CompletedDataSet(self.kept, self.layout, remainder, made)


@st.composite
def losses(draw: st.DrawFn) -> Lost:
    """A task has neighbouring slots, and a file if it has rows."""
    rows = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    hashed = draw(st.booleans())
    ends = sorted({len(rows), *draw(st.sets(st.integers(1, len(rows))))})
    if not hashed:
        ends = list(range(1, len(rows) + 1))
    shares, partitions = [], []
    for task, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        shares.append(Share(partitions=(task,), slots=((start, end),)))
        if sum(rows[start:end]):
            partitions.append(partition(task, sum(rows[start:end])))
    by = (
        HashedRows(columns=(0,), slots=len(rows))
        if hashed
        else SplitFiles(split="0" * 64, slots=len(rows), settings={})
    )
    layout = RowLayout(by=by, shares=tuple(shares))
    indices = [each.index for each in partitions]
    lost = draw(st.sets(st.sampled_from(indices))) if indices else set()
    return Lost(tuple(rows), layout, dataset(partitions), frozenset(lost))


def produced(case: Lost, completed: CompletedDataSet) -> list[KeptPartition]:
    """What its tasks leave behind: a file for each that has rows."""
    if isinstance(case.layout.by, HashedRows):
        counts = [case.rows_of(Share(partitions=(), slots=completed.remainder.slots))]
    else:
        counts = [case.rows[slot] for slot in completed.remainder.each_slot]
    return [partition(task, rows) for task, rows in enumerate(counts) if rows]


def whole(case: Lost, completed: CompletedDataSet) -> list[KeptPartition]:
    linked = (each.model_copy(update={"index": number}) for number, each in completed.taken.items())
    return [*produced(case, completed), *linked]


@given(losses())
def test_its_layout_says_which_rows_each_partition_holds(case: Lost) -> None:
    completed = case.completed()
    if completed is None:
        assert not case.lost or len(case.lost) == len(case.kept.manifest.partitions)
        return
    found = whole(case, completed)
    assert completed.what_is_wrong(found) is None
    assert sum(each.rows for each in found) == sum(case.rows)
    assert all(each.index < completed.number_of_partitions for each in found)
    layout = completed.new_layout([each.index for each in found])
    rows = {each.index: each.rows for each in found}
    slots = [slot for share in layout.shares for range_ in share.slots for slot in range(*range_)]
    assert len(slots) == len(set(slots))
    assert {slot for slot, count in enumerate(case.rows) if count} <= set(slots)
    for share in layout.shares:
        assert case.rows_of(share) == sum(rows.get(index, 0) for index in share.partitions)
    # So it does of what is lost of it next.
    for index in rows:
        again = layout.remainder(rows, set(rows) - {index})
        assert again is None or index not in again.partitions
        assert again is not None or len(rows) == 1


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
