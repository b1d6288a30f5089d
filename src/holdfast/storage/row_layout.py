"""Which rows of a computation each kept partition holds, where another run would say the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Slots = tuple[tuple[int, int], ...]
"""Ranges of slots, each from its first slot to before its end."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Share(_Record):
    """Partitions that hold the rows of some slots together, and no others.

    Attributes:
        partitions: their indices.
        slots: whose rows they hold.
    """

    partitions: tuple[int, ...]
    slots: Slots


class HashedRows(_Record):
    """A row's slot is the hash of some of its columns, as Spark's shuffles compute it.

    Attributes:
        columns: their places among the dataset's columns.
        slots: how many slots there are.
    """

    kind: Literal["hash"] = "hash"
    columns: tuple[int, ...] = Field(min_length=1)
    slots: int = Field(ge=1)


class SplitFiles(_Record):
    """A row's slot is the task that reads its part of a file.

    Attributes:
        split: the same for the same parts of the same files in the same tasks: 64 hexadecimal
            digits.
        slots: how many tasks there are.
        settings: those of Spark that decide how files are split.
    """

    kind: Literal["files"] = "files"
    split: str
    slots: int = Field(ge=1)
    settings: Mapping[str, str]


class RowLayout(_Record):
    """Which rows each partition of a dataset holds.

    Attributes:
        by: what a row's slot is.
        shares: which partitions hold the rows of which slots. Partitions and slots without rows
            may be missing.
    """

    by: HashedRows | SplitFiles = Field(discriminator="kind")
    shares: tuple[Share, ...]

    def remainder(self, kept: Iterable[int], intact: Collection[int]) -> Remainder | None:
        """What is left of a dataset that has lost partitions. Pure.

        Args:
            kept: the indices of its partitions that have a file.
            intact: those that are as they were published.

        Returns:
            that; None where nothing is lost, nothing is left, or it isn't known which rows are
            missing.

        >>> shares = [Share(partitions=(i,), slots=((i * 3, i * 3 + 3),)) for i in range(3)]
        >>> layout = RowLayout(by=HashedRows(columns=(0,), slots=9), shares=tuple(shares))
        >>> layout.remainder([0, 1, 2], [0, 1])
        Remainder(partitions=(0, 1), slots=((6, 9),))
        """
        files = frozenset(kept)
        holders = [index for share in self.shares for index in share.partitions]
        ranges = [each for share in self.shares for each in share.slots]
        is_exact = len(holders) == len(set(holders)) and files <= set(holders)
        if not is_exact or _size(ranges) != _size(merged(ranges)):
            return None
        gone = files.difference(intact)
        lost = [share for share in self.shares if not gone.isdisjoint(share.partitions)]
        left = files.difference(index for share in lost for index in share.partitions)
        slots = merged(each for share in lost for each in share.slots)
        return Remainder(tuple(sorted(left)), slots) if left and slots else None

    def merged(self, groups: Iterable[Sequence[int]]) -> RowLayout:
        """The layout after partitions were written together.

        Args:
            groups: the indices of those in one file each, which now has the last of them.

        >>> shares = [Share(partitions=(i,), slots=((i, i + 1),)) for i in range(3)]
        >>> layout = RowLayout(by=HashedRows(columns=(0,), slots=3), shares=tuple(shares))
        >>> [(each.partitions, each.slots) for each in layout.merged([(0, 1)]).shares]
        [((1,), ((0, 2),)), ((2,), ((2, 3),))]
        """
        holder = {index: group[-1] for group in groups for index in group}
        together: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for share in self.shares:
            now = tuple(sorted({holder.get(index, index) for index in share.partitions}))
            together.setdefault(now, []).extend(share.slots)
        shares = (Share(partitions=each, slots=merged(slots)) for each, slots in together.items())
        return RowLayout(by=self.by, shares=tuple(shares))

    def completed(self, numbers: Mapping[int, int], made: Iterable[Share]) -> RowLayout:
        """The layout of a dataset that takes over what is left of this one.

        Args:
            numbers: for each partition that is left its index in the new dataset.
            made: what was produced for the slots that are missing.
        """
        taken = [
            Share(partitions=tuple(numbers[index] for index in there), slots=share.slots)
            for share in self.shares
            if (there := [index for index in share.partitions if index in numbers])
        ]
        return RowLayout(by=self.by, shares=(*made, *taken))


@dataclass(frozen=True, slots=True)
class Remainder:
    """What is left of a dataset, and what is to be produced so that it is whole again.

    Attributes:
        partitions: the indices of those that are left, in their order.
        slots: whose rows are missing.
    """

    partitions: tuple[int, ...]
    slots: Slots

    @property
    def each_slot(self) -> list[int]:
        """The missing slots, one by one."""
        return [slot for start, end in self.slots for slot in range(start, end)]


def merged(ranges: Iterable[tuple[int, int]]) -> Slots:
    """The same slots in as few ranges as can be, in their order.

    >>> merged([(3, 4), (0, 2), (2, 3), (7, 9)])
    ((0, 4), (7, 9))
    """
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return tuple(found)


def _size(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in ranges)
