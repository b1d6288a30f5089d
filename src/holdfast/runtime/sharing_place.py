"""Where the bytes of shared results are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet


class SharingPlace(Protocol):
    """A program's storage, as far as other programs' results go."""

    def remove(self, kept: KeptDataSet) -> None:
        """Removes a dataset of this program."""

    def take_in(self, lying: KeptDataSet) -> KeptDataSet:
        """Links another program's dataset into this program's own directory.

        Args:
            lying: where it lies, and what it is.

        Returns:
            where it lies here.

        Raises:
            StorageError: when it isn't what was published there, or can't be linked.
        """

    def damage(self, lying: KeptDataSet) -> str | None:
        """What is wrong with another program's dataset; None where it is as it was published.

        Args:
            lying: where it lies, and what it is.
        """

    def put(self, kept: KeptDataSet, beside: Mapping[str, str]) -> KeptDataSet:
        """Puts a dataset of this program where it outlives it, under the name that it has.

        Args:
            kept: the dataset.
            beside: what else is to lie there, by file name.

        Returns:
            where it lies there.

        Raises:
            StorageError: when that can't be done.
        """

    def statistics(self, kept: KeptDataSet) -> dict[str, ColumnStatistics]:
        """What the files of a dataset of this program say of its columns; empty where nothing."""

    def take_away(self, name: str) -> bool:
        """Removes what `put` has put somewhere, in this program or another one.

        Args:
            name: of the dataset.

        Returns:
            whether nothing of it is left.
        """
