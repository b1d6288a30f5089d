"""What is left of a dataset, and what was produced for the rest, as one dataset. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.storage.kept_dataset import KeptDataSet, KeptPartition
from holdfast.storage.row_layout import HashedRows, Remainder, RowLayout, Share


@dataclass(frozen=True, slots=True)
class CompletedDataSet:
    """A dataset of which some partitions are taken over, with new numbers after the new ones.

    Attributes:
        left: the dataset that has lost partitions.
        layout: which rows each of these holds.
        remainder: what is left of it.
        made: how many tasks have produced the rest; their partitions have the first numbers.
    """

    left: KeptDataSet
    layout: RowLayout
    remainder: Remainder
    made: int

    @property
    def taken(self) -> dict[int, KeptPartition]:
        """The partitions that are taken over, by their new numbers: those that have rows."""
        left = frozenset(self.remainder.partitions)
        partitions = self.left.manifest.partitions
        taken = [each for each in partitions if each.index in left and each.rows]
        return dict(enumerate(taken, self.made))

    @property
    def number_of_partitions(self) -> int:
        """Of the whole, those without a file included."""
        return self.made + len(self.taken)

    def what_is_wrong(self, found: Iterable[KeptPartition]) -> str | None:
        """Why partitions aren't those of the whole; None where they are.

        Args:
            found: the partitions, by their new numbers.
        """
        there = {each.index: each for each in found}
        for number, was in self.taken.items():
            now = there.pop(number, None)
            if now is None:
                return f"partition {was.index} is gone"
            if _identity(now) != _identity(was):
                return f"partition {was.index} was modified"
        if any(not 0 <= index < self.made for index in there):
            return f"expected {self.made} new partitions, found number {max(there)}"
        left = frozenset(self.remainder.partitions)
        lost = sum(each.rows for each in self.left.manifest.partitions if each.index not in left)
        rows = sum(each.rows for each in there.values())
        return None if rows == lost else f"{lost:,} rows were lost, {rows:,} produced"

    def new_layout(self, indices: Collection[int]) -> RowLayout:
        """Which rows each partition of the whole holds.

        Args:
            indices: the new numbers of the partitions that have a file.
        """
        numbers = {was.index: number for number, was in self.taken.items()}
        return self.layout.completed(numbers, self._shares(indices))

    def _shares(self, indices: Collection[int]) -> list[Share]:
        new = tuple(sorted(index for index in indices if index < self.made))
        if isinstance(self.layout.by, HashedRows):
            return [Share(partitions=new, slots=self.remainder.slots)]
        slots = self.remainder.each_slot
        return [Share(partitions=(task,), slots=((slots[task], slots[task] + 1),)) for task in new]


def _identity(partition: KeptPartition) -> tuple[object, ...]:
    return partition.bytes, partition.rows, partition.version, partition.footer
