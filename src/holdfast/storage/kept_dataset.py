"""A dataset on disk, and the manifest that explains it to whoever finds it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from holdfast.storage.row_layout import RowLayout

MANIFEST_NAME = "_manifest.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeptColumn(_Record):
    """A column of a kept dataset.

    Attributes:
        name: what the computation calls it.
        kept_as: what the Parquet files call it: the same, where it is unique and plain.
        type: its data type, as Spark's JSON.
        kept_type: the type in the files: the same, unless fields of a struct clash in there.
        nullable: whether the computation may yield null.
        identity: what it is of the dataset's rows, 64 hexadecimal digits: computations with the
            same digest may have their columns in another order. None: what its place says.
    """

    name: str
    kept_as: str
    type: Any
    kept_type: Any
    nullable: bool
    identity: str | None = None


class KeptPartition(_Record):
    """One result partition.

    Attributes:
        index: which subtask wrote it; of several that were merged, the last one.
        file: its name beside the manifest.
        bytes: its size.
        rows: how many rows it holds.
        version: another one once somebody has written to it; only ever compared.
        footer: SHA-256 of the file's footer, which holds sizes, places and statistics of all that
            is in it; None where it wasn't read.
        content: SHA-256 of the whole file, for what is kept for long; None for what isn't.
        memory: the size of its rows in memory, in bytes; None where it wasn't measured.
    """

    index: int
    file: str
    bytes: int
    rows: int
    version: str
    footer: str | None = None
    content: str | None = None
    memory: int | None = None


class DataSetDescription(_Record):
    """What a dataset is: all but its layout is known before the first row of it is written.

    Attributes:
        dataset_id: 64 hexadecimal digits, derived from the digest of the computation.
        computes: the computation in a few words.
        columns: its columns, in order.
        ordered: the computation fixes the order of its rows.
        position_column: of ordered rows of manifests before version 5, a column of the files that
            holds each one's place.
        filler_column: a column of the files that stands in where the computation has no column.
        seal: the label under which its rows are sealed, for the batches of a stream.
        spark_version: the version of Spark that computed it.
        layout: which rows each partition holds; None where another run may say otherwise.
        ambiguous: several answers are right, of which this is one.
    """

    dataset_id: str
    computes: str
    columns: tuple[KeptColumn, ...]
    ordered: bool = False
    position_column: str | None = None
    filler_column: str | None = None
    seal: str | None = None
    spark_version: str
    layout: RowLayout | None = None
    ambiguous: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether the computation fixes the order of its rows, whatever the manifest's version."""
        return self.ordered or self.position_column is not None


class Manifest(_Record):
    """What lies beside the partitions of a dataset, as `_manifest.json`.

    Attributes:
        version: of this record's form; 3 has no layouts, neither 3 nor 4 sizes in memory, and none
            of them says what is ambiguous.
        created: when the dataset was published, in ISO 8601.
        dataset: what it is.
        partitions: its partitions, by index.
    """

    version: Literal[3, 4, 5, 6] = 6
    created: str
    dataset: DataSetDescription
    partitions: tuple[KeptPartition, ...]


class KeptDataSet(_Record):
    """A published dataset.

    Attributes:
        directories: where its partitions lie: a path of this machine, or a URL for each place that
            holds some of them.
        manifest: what lies there.
        holders: for each partition of the manifest, which of `directories` holds it; empty when
            the first one holds them all.
        name: of this production of it, `<dataset>-<attempt>`; None for what is pinned.
    """

    directories: tuple[str, ...]
    manifest: Manifest
    holders: tuple[int, ...] = ()
    name: str | None = None

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[str, Manifest]], name: str) -> KeptDataSet:
        """The whole dataset from the parts of it that lie in several places.

        Args:
            parts: each directory, with the manifest of what lies there.
            name: of this production of it.
        """
        placed = sorted(
            (
                (partition, holder)
                for holder, (_, manifest) in enumerate(parts)
                for partition in manifest.partitions
            ),
            key=lambda each: each[0].index,
        )
        whole = parts[0][1].model_copy(update={"partitions": tuple(each for each, _ in placed)})
        return cls(
            directories=tuple(directory for directory, _ in parts),
            manifest=whole,
            holders=() if len(parts) == 1 else tuple(holder for _, holder in placed),
            name=name,
        )

    @property
    def directory(self) -> Path:
        """Where a dataset of this machine lies."""
        return Path(self.directories[0])

    @property
    def placed(self) -> tuple[tuple[KeptPartition, int], ...]:
        """Each partition of the manifest, with which of `directories` holds it."""
        partitions = self.manifest.partitions
        return tuple(zip(partitions, self.holders or (0,) * len(partitions), strict=True))

    @property
    def locations(self) -> tuple[str, ...]:
        """For each partition of the manifest the path or URL that Spark opens."""
        return tuple(
            f"{self.directories[holder]}/{partition.file}" for partition, holder in self.placed
        )

    @property
    def bytes(self) -> int:
        """The size of all partitions."""
        return sum(partition.bytes for partition in self.manifest.partitions)

    @property
    def rows(self) -> int:
        """The number of rows in all partitions."""
        return sum(partition.rows for partition in self.manifest.partitions)

    @property
    def memory(self) -> int | None:
        """The size of all rows in memory, as far as some partitions were measured; None: unknown.

        It is what a plan that reads them says of its size: the files are far smaller where a
        dictionary or compression has made them so.
        """
        if self.rows == 0:
            return 0
        measured = [each for each in self.manifest.partitions if each.memory is not None]
        rows = sum(each.rows for each in measured)
        return sum(each.memory or 0 for each in measured) * self.rows // rows if rows else None
