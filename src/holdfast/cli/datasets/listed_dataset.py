"""What is known of a dataset that is kept, wherever that was found out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.ids import ApplicationID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.reasons import Reason
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.taskexecutor.partitions.partition_info import OutputID


class DataSetState(Enum):
    """Whether a job that needs the dataset can read it."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    DAMAGED = "damaged"
    # Spark leaves no file of a partition without rows, so one that isn't found may not be missing.
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class PartitionsPlace:
    """Where some of a dataset's partitions lie.

    Attributes:
        host: the machine.
        directory: the directory on it.
        partitions: those that lie there.
        damage: what is wrong with them; None when nothing is.
        address: of the task executor that keeps them; None for a directory of this machine.
        executor_id: that executor's.
    """

    host: str
    directory: str
    partitions: tuple[KeptPartition, ...]
    damage: str | None = None
    address: str | None = None
    executor_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A column.

    Attributes:
        name: what it is called.
        type: its type, as Spark's SQL writes it.
        nullable: whether it may hold null.
    """

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What the rows of a dataset are.

    Attributes:
        columns: in order.
        spark_version: of the Spark that computed it; None where that can't be told.
        sources: the files that it was made from, as they were listed; None where that isn't known.
    """

    columns: tuple[ListedColumn, ...]
    spark_version: str | None
    sources: tuple[FileVersion, ...] | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """What the catalog records of a dataset.

    Attributes:
        user: who has kept it.
        host: on which machine.
        audience: who may read it.
        group: that of its files.
        seconds: how long it took to produce.
        cpu_seconds: of the tasks that did; None where that isn't known.
        lifetime: how long it stays after its last use, in seconds; None: as long as its program.
        last_used: when it was read last, or else kept.
        uses: how often jobs of all programs have read it since it was kept.
        saved_seconds: how long it would have taken them to compute it.
        reasons: why it is not read everywhere, if so.
    """

    user: str
    host: str
    audience: Audience
    group: str
    seconds: float
    cpu_seconds: float | None
    lifetime: float | None
    last_used: datetime
    uses: int
    saved_seconds: float
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, result: CatalogedResult) -> Sharing:
        """What a result's record says."""
        return cls(
            result.user,
            result.host,
            result.audience,
            result.group,
            result.seconds,
            result.cpu_seconds,
            result.lifetime,
            datetime.fromtimestamp(result.last_used, timezone.utc),
            result.uses,
            result.saved_seconds,
            result.reasons,
        )


@dataclass(frozen=True, slots=True)
class ListedDataSet:
    """One production of a dataset, over all places that hold some of it.

    Attributes:
        application: whose it is; None where that can't be told.
        output: which production of which dataset.
        computes: the computation in a few words; None where that can't be told.
        created: when it was published.
        number_of_partitions: how many it has; None where that can't be told.
        partitions_found: how many of them are there.
        state: whether it can be read.
        hits: how many jobs of its program have read it; None where nobody noted that.
        places: where it lies.
        sharing: what the catalog records of it; None where it isn't in one.
        ambiguous: several answers are right, of which it is one.
    """

    application: ApplicationID | None
    output: OutputID
    computes: str | None
    created: datetime | None
    number_of_partitions: int | None
    partitions_found: int
    state: DataSetState
    hits: int | None
    places: tuple[PartitionsPlace, ...]
    sharing: Sharing | None = None
    ambiguous: bool = False

    @property
    def partitions(self) -> list[tuple[KeptPartition, PartitionsPlace]]:
        """The partitions that have files, by index, each with its place."""
        placed = [(each, place) for place in self.places for each in place.partitions]
        return sorted(placed, key=lambda each: each[0].index)

    @property
    def rows(self) -> int:
        """The rows in all partitions that have files."""
        return sum(each.rows for place in self.places for each in place.partitions)

    @property
    def bytes(self) -> int:
        """The size of all partitions that have files."""
        return sum(each.bytes for place in self.places for each in place.partitions)

    @property
    def damage(self) -> str | None:
        """What is wrong with it, in the first place where something is."""
        return next((place.damage for place in self.places if place.damage is not None), None)


def moment(text: str) -> datetime | None:
    """A time in ISO 8601; None when it is none.

    >>> moment("2026-11-21T15:04:05")
    datetime.datetime(2026, 11, 21, 15, 4, 5, tzinfo=datetime.timezone.utc)
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
