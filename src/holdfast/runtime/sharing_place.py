"""Where the bytes of shared results are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Protocol

from holdfast.catalog.audience import Audience
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet


class SharingPlace(Protocol):
    """A program's storage, as far as other programs' results go.

    What is said of another program's dataset is what the catalog records of it.
    """

    def remove(self, kept: KeptDataSet) -> None:
        """Removes a dataset of this program."""

    def recorded(self, kept: KeptDataSet) -> KeptDataSet:
        """A dataset of this program, or what `put` is given, as the catalog is to record it.

        Args:
            kept: where it lies for this program.
        """

    def readable(self, lying: KeptDataSet) -> KeptDataSet | None:
        """Where this program reads another one's dataset; None where it can't.

        Args:
            lying: as the catalog records it.
        """

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

    def put(self, kept: KeptDataSet, beside: Mapping[str, str], audience: Audience) -> KeptDataSet:
        """Puts a dataset of this program where it outlives it, under the name that it has.

        Args:
            kept: the dataset.
            beside: what else is to lie there, by file name.
            audience: who is to read it.

        Returns:
            where it lies there.

        Raises:
            StorageError: when that can't be done.
        """

    def open_up(self, kept: KeptDataSet, audience: Audience) -> None:
        """Lets other users read a dataset of this program for as long as the program keeps it.

        Args:
            kept: the dataset.
            audience: who is to read it.

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


def how_it_differs(found: KeptDataSet, published: KeptDataSet) -> str | None:
    """How what was linked differs from what was published, by all that is known of it.

    Args:
        found: what lies here.
        published: what lay there.
    """
    for now, was in zip_longest(found.manifest.partitions, published.manifest.partitions):
        if now is None or was is None or now.index != was.index:
            return "it has other partitions"
        if (now.version, now.rows, now.footer) != (was.version, was.rows, was.footer):
            return f"partition {was.index} is another file"
    return None
