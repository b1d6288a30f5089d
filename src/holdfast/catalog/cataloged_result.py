"""What the catalog records of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from holdfast.catalog.audience import Audience
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.outline import PlanStep
from holdfast.plan.reasons import Reason
from holdfast.storage.kept_dataset import KeptDataSet


class ResultState(Enum):
    """What has become of a result."""

    COMING = "coming"
    """Its files are being put in their place; where its program has ended, they are garbage."""
    KEPT = "kept"
    GOING = "going"
    """Nobody finds it any more; its files are being removed."""
    GONE = "gone"
    NOT_KEPT = "not kept"
    """A program has tried to keep it, and failed; why is among the reasons of its record."""


@dataclass(frozen=True, slots=True)
class ProgramIdentity:
    """A program that uses a catalog.

    Attributes:
        application: of its Environment.
        user: who runs it.
        groups: those that the user is in, the one that files belong to first.
        host: the machine that it runs on.
        process: its number there.
        shares_with: with whom it shares at most, in both directions.
    """

    application: ApplicationID
    user: str
    groups: tuple[str, ...]
    host: str
    process: int
    shares_with: Audience = Audience.USER


@dataclass(frozen=True, slots=True)
class MadeFrom:
    """What a result was made from, to say later why it is not the one that is asked for.

    Attributes:
        files: the versions that were listed.
        settings: those of the session that count, by key.
        plan: the steps of the computation; empty where they aren't recorded.
    """

    files: tuple[FileVersion, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    plan: tuple[PlanStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ProducedResult:
    """A result that a program has just kept.

    Attributes:
        dataset_id: the dataset.
        digest: of the computation, without the settings it ran under.
        shape: of the computation, whatever versions its files have.
        kept: where it lies.
        is_shared: whether it lies where it outlives its program.
        audience: who may read it.
        lifetime: how long it stays after its last use, in seconds; None: while programs hold it.
        seconds: how long it took to produce.
        cpu_seconds: of all its tasks; None where that isn't known.
        inputs: the other results that were read on the way.
        made_from: see there.
        retention: how long it stays, in seconds, for the next start of a program that was killed,
            and not after the end of one; None: not at all.
        reasons: why it is not read everywhere, if it isn't.
    """

    dataset_id: IntermediateDataSetID
    digest: str
    shape: str
    kept: KeptDataSet
    is_shared: bool
    audience: Audience
    lifetime: float | None
    seconds: float
    cpu_seconds: float | None = None
    inputs: tuple[IntermediateDataSetID, ...] = ()
    made_from: MadeFrom = MadeFrom()
    retention: float | None = None
    reasons: tuple[Reason, ...] = ()

    @property
    def outlives(self) -> float | None:
        """How long it is there, in seconds, without the program; None where it goes with it."""
        return self.retention if self.lifetime is None else self.lifetime


@dataclass(frozen=True, slots=True)
class CatalogedResult:
    """A result as the catalog records it.

    Attributes:
        number: of its record.
        dataset_id: the dataset.
        digest: of the computation, without the settings it ran under.
        shape: of the computation, whatever versions its files have.
        name: of this production of it, `<dataset>-<attempt>`.
        state: what has become of it.
        computes: the computation in a few words.
        directories: where its partitions lie, paths or URLs.
        is_shared: whether it lies where it outlives its program.
        audience: who may read it.
        user: who has kept it.
        group: whose files they are.
        host: on which machine.
        application: in which program.
        bytes: its size.
        rows: how many it has.
        partitions: how many it has.
        seconds: how long it took to produce.
        cpu_seconds: of all its tasks; None where that isn't known.
        created: when it was published, in seconds since 1970.
        lifetime: how long it stays after its last use, in seconds; None: while programs hold it.
        uses: how often it has been read.
        saved_seconds: what that has saved.
        last_used: when it was read last, or else published.
        why_gone: why it is not kept any more.
        reasons: why it is, or was, not read everywhere, if so.
    """

    number: int
    dataset_id: IntermediateDataSetID
    digest: str
    shape: str
    name: str
    state: ResultState
    computes: str
    directories: tuple[str, ...]
    is_shared: bool
    audience: Audience
    user: str
    group: str
    host: str
    application: ApplicationID
    bytes: int
    rows: int
    partitions: int
    seconds: float
    cpu_seconds: float | None
    created: float
    lifetime: float | None
    uses: int
    saved_seconds: float
    last_used: float
    why_gone: str | None
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedResult:
    """A result that a program may read, with all that it takes to read it.

    Attributes:
        result: the result.
        made_from: what it was made from.
        kept: where it lies, and what it was published as.
    """

    result: CatalogedResult
    made_from: MadeFrom
    kept: KeptDataSet


@dataclass(frozen=True, slots=True)
class CatalogClaim:
    """The right of one program to produce a dataset, until its lease ends.

    Attributes:
        dataset_id: the dataset.
        epoch: later claims have later ones.
    """

    dataset_id: IntermediateDataSetID
    epoch: int


@dataclass(frozen=True, slots=True)
class InProduction:
    """Another program produces a dataset.

    Attributes:
        application: which one.
        since: for how many seconds it has done so.
        expected: how many seconds it took the last time; None where nobody knows.
    """

    application: ApplicationID
    since: float
    expected: float | None


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a publication.

    Attributes:
        number: of the result's record; None where it was not admitted, for lack of room.
        evicted: what had to go for it, whose files are now to be removed.
        is_shared: whether it lies where it outlives its program.
    """

    number: int | None
    evicted: tuple[CatalogedResult, ...] = ()
    is_shared: bool = False
