"""The book of kept results: which there are, who produces one right now, and who reads it.

Source: FLIP-36: the client maintains a mapping of DIGEST -> (IntermediateDataSetID, [Locations]).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import MadeFrom
from holdfast.catalog.near_misses import AskedFor
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.reasons import Reason
from holdfast.plan.validity import Validity
from holdfast.storage.kept_dataset import KeptDataSet

# Of who waits for what another job computes: then it is computed once more, and not kept.
PATIENCE_SECONDS = 24 * 3600.0
CLAIM_NUMBERS = itertools.count(1)
"""The numbers of claims: each is used once."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Which other program has kept a result.

    Attributes:
        user: who ran it.
        host: on which machine.
        since: when it was kept, in seconds since 1970.
        seconds: how long it took to produce.
        files: the versions of the files that it was made from.
    """

    user: str
    host: str
    since: float
    seconds: float
    files: frozenset[FileVersion] = frozenset()

    def __str__(self) -> str:
        """As in "kept by ana on node-1 at 2026-11-23 09:30:00 UTC, in 12.3 s".

        >>> str(Origin("ana", "node-1", since=0.0, seconds=12.34))
        'ana on node-1 at 1970-01-01 00:00:00 UTC, in 12.3 s'
        """
        moment = datetime.fromtimestamp(self.since, timezone.utc)
        return f"{self.user} on {self.host} at {moment:%F %T} UTC, in {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class KeptResult:
    """A kept dataset, as it was in the book when that was asked.

    Attributes:
        number: of its entry; what is kept later in its place has another one.
        dataset_id: the dataset.
        digest: of the computation, without the settings it ran under.
        kept: where it lies.
        since: when it was committed, in seconds since 1970.
        hits: how many jobs have read it.
        readers: how many jobs are reading it.
        origin: the program that has kept it, where that is another one.
        reasons: why it is not read everywhere, or not kept for anybody but its producer.
        seconds: how long it took to produce; 0 where that isn't known.
        files: the versions of the files that it was made from.
        saved_seconds: about how much longer the jobs of this program that have read it would have
            taken without, see `holdfast.runtime.saved_time`.
    """

    number: int
    dataset_id: IntermediateDataSetID
    digest: str
    kept: KeptDataSet
    since: float
    hits: int
    readers: int
    origin: Origin | None = None
    reasons: tuple[Reason, ...] = ()
    seconds: float = 0.0
    files: frozenset[FileVersion] = frozenset()
    saved_seconds: float = 0.0

    @property
    def refusal(self) -> Reason | None:
        """Why its producer alone gets it, where there was no room to keep it."""
        return next((each for each in self.reasons if each.where is Validity.NOWHERE), None)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to produce a dataset, which one alone has.

    Attributes:
        number: tells it from other claims.
        dataset_id: the dataset.
        digest: of its computation.
    """

    number: int
    dataset_id: IntermediateDataSetID
    digest: str


@dataclass(frozen=True, slots=True)
class ProductionFacts:
    """What is known of a result that has been produced, beside its rows.

    Attributes:
        shape: the digest of what it computes, whatever versions its files have.
        reasons: why its digest doesn't stand for the same rows in any program, if so.
        is_checkable: whether it can be told who may read what it was made from.
        lifetime: how long it is to stay after its last use, in seconds; None: as long as this
            program does.
        seconds: how long it took.
        cpu_seconds: of all its tasks; None where that isn't known.
        inputs: the other results that were read on the way.
        made_from: the files and settings.
    """

    shape: str = ""
    reasons: tuple[Reason, ...] = ()
    is_checkable: bool = False
    lifetime: float | None = None
    seconds: float = 0.0
    cpu_seconds: float | None = None
    inputs: tuple[IntermediateDataSetID, ...] = ()
    made_from: MadeFrom = field(default_factory=MadeFrom)

    @property
    def files(self) -> frozenset[FileVersion]:
        """The versions of the files that it was made from."""
        return frozenset(self.made_from.files)


class ResultBook(ABC):
    """The book. Safe for use by several threads.

    No call gives what it goes by itself, so that it may as well lie in another process.
    """

    @abstractmethod
    def find(
        self, dataset_ids: Collection[IntermediateDataSetID] | None = None
    ) -> dict[IntermediateDataSetID, KeptResult]:
        """What is kept of some datasets.

        Args:
            dataset_ids: the datasets; None for all that this program has.
        """

    @abstractmethod
    def claim(
        self,
        dataset_id: IntermediateDataSetID,
        digest: str,
        patience_seconds: float = PATIENCE_SECONDS,
        *,
        alone: bool = True,
        number: int | None = None,
    ) -> Claim | KeptResult | None:
        """Asks for the right to produce a dataset; waits while another job is at it.

        One claim a thread: waiting while holding another could wait for each other.

        Args:
            dataset_id: the dataset.
            digest: of its computation.
            patience_seconds: how long to wait at most.
            alone: whether no other program can have it, as its digest means nothing there.
            number: a new one of `CLAIM_NUMBERS`, where the caller is to know the claim even if an
                interrupt keeps it from being returned.

        Returns:
            the right, to `commit` or to `abandon`; or what has been kept meanwhile; None where
            another job has been at it for longer than is worth waiting.
        """

    @abstractmethod
    def commit(
        self,
        claim: Claim,
        kept: KeptDataSet,
        *,
        wanted: bool,
        facts: ProductionFacts | None = None,
    ) -> KeptResult:
        """A claimed dataset is there.

        Where it has been invalidated meanwhile, it is there for its producer alone.

        Args:
            claim: the right to produce it.
            kept: where it lies.
            wanted: whether it is for others as well.
            facts: what is known of it.

        Returns:
            its entry, which the caller reads and has to `release`.
        """

    @abstractmethod
    def abandon(self, claim: Claim) -> None:
        """A claimed dataset is not going to be there. Does nothing where it isn't claimed so."""

    @contextmanager
    def reading(self) -> Iterator[ReadingLease]:
        """For as long as it lasts, the files of the datasets it is asked for stay."""
        lease = ReadingLease(self)
        try:
            yield lease
        finally:
            lease.release()

    @abstractmethod
    def lease(
        self, dataset_ids: Iterable[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, KeptResult]:
        """Notes one more reader of each of these that is kept.

        Returns:
            those that are, each to be given to `release`.
        """

    @abstractmethod
    def release(self, results: Iterable[KeptResult]) -> None:
        """Notes that a reader has finished with these; files of evicted ones go with the last."""

    @abstractmethod
    def evict(self, results: Iterable[KeptResult]) -> list[KeptResult]:
        """Forgets these, and removes their files as soon as nobody reads them.

        What has been kept since in the place of one of them stays.

        Returns:
            what was forgotten, each once.
        """

    @property
    def is_shared(self) -> bool:
        """Whether other programs have results in it."""
        return self.audience is not Audience.NOBODY

    @property
    def audience(self) -> Audience:
        """Who may read what this program keeps, beside the program itself."""
        return Audience.NOBODY

    def why_not(self, asked: Collection[AskedFor]) -> dict[str, str]:
        """Why results of other programs that are like what is asked for are not read.

        Args:
            asked: what was not found.

        Returns:
            a sentence for people, by the digest of what was asked for.
        """
        return {}

    def refused(  # noqa: B027
        self, dataset_id: IntermediateDataSetID, digest: str, computes: str, reason: Reason
    ) -> None:
        """A result is not kept: commands and the page show why.

        Args:
            dataset_id: the dataset.
            digest: of its computation.
            computes: the computation in a few words.
            reason: why it is not kept.
        """

    def note_query(self, content: bytes) -> bool:
        """Tells later programs of a query that has run; whether any can be told.

        Args:
            content: what they are told of it.
        """
        return False

    def past_queries(self, most: int) -> list[bytes]:
        """What programs like this one have told of their last queries, in order.

        Args:
            most: how many.
        """
        return []

    @abstractmethod
    def may_find(self, apart_from: Callable[[str], bool]) -> bool:
        """Whether anything may be kept, beside what this program knows that it looks for.

        Args:
            apart_from: whether a computation's digest is of what it looks for.
        """

    @abstractmethod
    def saved(self, result: KeptResult, seconds: float) -> None:
        """A job has saved time by reading a result.

        Args:
            result: which it has leased.
            seconds: about how much.
        """

    def job_ended(self) -> None:  # noqa: B027
        """What stays only for the next start of this program, should it be killed, goes."""

    @abstractmethod
    def close(self) -> None:
        """The program has ended: what it alone holds goes. Does nothing the second time."""

    @abstractmethod
    def invalidate(
        self, digest: str | None = None, *, everywhere: bool = False
    ) -> list[KeptResult]:
        """Forgets what is kept of a computation, and what is being produced of it.

        Args:
            digest: of the computation; None for all there are.
            everywhere: whether no other program is to find it any more, either; else what others
                have kept stays, and what has a lifetime of its own.

        Returns:
            what was forgotten.
        """


class ReadingLease:
    """The datasets that one job reads, and those that it has the right to produce.

    Args:
        results: the book they are in.
    """

    def __init__(self, results: ResultBook) -> None:
        self._results = results
        self._held: dict[IntermediateDataSetID, KeptResult] = {}
        self._claims: list[Claim] = []

    @property
    def held(self) -> Mapping[IntermediateDataSetID, KeptResult]:
        """What is leased."""
        return self._held

    def acquire(self, dataset_id: IntermediateDataSetID) -> KeptResult | None:
        """Adds a dataset to the lease; None when it isn't kept any more."""
        if dataset_id not in self._held:
            self._held.update(self._results.lease([dataset_id]))
        return self._held.get(dataset_id)

    def claim(
        self, dataset_id: IntermediateDataSetID, digest: str, *, alone: bool
    ) -> Claim | KeptResult | None:
        """Like the book's `claim`; what is neither committed nor abandoned ends with the lease."""
        number = next(CLAIM_NUMBERS)
        self._claims.append(Claim(number, dataset_id, digest))
        return self._results.claim(dataset_id, digest, alone=alone, number=number)

    def commit(
        self, claim: Claim, kept: KeptDataSet, *, wanted: bool, facts: ProductionFacts | None = None
    ) -> KeptResult:
        """Commits a claimed dataset and adds it to the lease."""
        result = self._results.commit(claim, kept, wanted=wanted, facts=facts)
        self._held[claim.dataset_id] = result
        return result

    def drop(self, dataset_ids: Iterable[IntermediateDataSetID]) -> None:
        """Ends the lease of datasets that turned out to be damaged; nobody gets them any more."""
        self._results.release(self.set_aside(dataset_ids))

    def set_aside(self, dataset_ids: Iterable[IntermediateDataSetID]) -> list[KeptResult]:
        """Like `drop`, but what is left of them stays until the caller gives them to `release`."""
        dropped = [self._held.pop(each) for each in dataset_ids if each in self._held]
        self._results.evict(dropped)
        return dropped

    def release(self) -> None:
        """Ends the lease. Does nothing the second time."""
        claims, self._claims = self._claims, []
        for claim in claims:
            self._results.abandon(claim)
        held, self._held = self._held, {}
        self._results.release(held.values())
