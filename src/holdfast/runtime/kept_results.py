"""The book of kept results: which there are, who produces one right now, and who reads it.

Source: FLIP-36: the client maintains a mapping of DIGEST -> (IntermediateDataSetID, [Locations]).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from holdfast.ids import IntermediateDataSetID
from holdfast.storage.kept_dataset import KeptDataSet

# Of who waits for what another job computes: then it is computed once more, and not kept.
PATIENCE_SECONDS = 24 * 3600.0


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
    """

    number: int
    dataset_id: IntermediateDataSetID
    digest: str
    kept: KeptDataSet
    since: float
    hits: int
    readers: int


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


class KeptResults:
    """The book, in memory. Safe for use by several threads. No call gives what it goes by itself,
    so that it may as well lie in another process.

    Args:
        remove: removes a dataset that nobody reads any more. Called without a lock.
    """

    def __init__(self, remove: Callable[[KeptDataSet], None]) -> None:
        self._remove = remove
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        # Those that are read, although they are evicted, as well: which are not the current ones.
        self._entries: dict[int, KeptResult] = {}
        self._current: dict[IntermediateDataSetID, int] = {}
        self._claims: dict[IntermediateDataSetID, Claim] = {}
        self._stale: set[int] = set()

    def find(
        self, dataset_ids: Collection[IntermediateDataSetID] | None = None
    ) -> dict[IntermediateDataSetID, KeptResult]:
        """What is kept of some datasets.

        Args:
            dataset_ids: the datasets; None for all that there are.
        """
        with self._changed:
            asked = self._current if dataset_ids is None else dataset_ids
            return {
                each: self._entries[self._current[each]] for each in asked if each in self._current
            }

    def claim(
        self,
        dataset_id: IntermediateDataSetID,
        digest: str,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> Claim | KeptResult | None:
        """Asks for the right to produce a dataset; waits while another job is at it.

        One claim a thread: waiting while holding another could wait for each other.

        Args:
            dataset_id: the dataset.
            digest: of its computation.
            patience_seconds: how long to wait at most.

        Returns:
            the right, to `commit` or to `abandon`; or what has been kept meanwhile; None where
            another job has been at it for all that time.
        """
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: dataset_id not in self._claims, patience_seconds
            )
            if not is_free:
                return None
            number = self._current.get(dataset_id)
            if number is not None:
                return self._entries[number]
            claim = self._claims[dataset_id] = Claim(next(self._numbers), dataset_id, digest)
            return claim

    def commit(self, claim: Claim, kept: KeptDataSet, *, wanted: bool) -> KeptResult:
        """A claimed dataset is there.

        Where it has been invalidated meanwhile, it is there for its producer alone.

        Args:
            claim: the right to produce it.
            kept: where it lies.
            wanted: whether it is for others as well.

        Returns:
            its entry, which the caller reads and has to `release`.
        """
        with self._changed:
            wanted &= self._is_held(claim) and claim.number not in self._stale
            self._let_go(claim)
            number = next(self._numbers)
            result = self._entries[number] = KeptResult(
                number, claim.dataset_id, claim.digest, kept, time.time(), hits=1, readers=1
            )
            if wanted:
                self._current[claim.dataset_id] = number
            return result

    def abandon(self, claim: Claim) -> None:
        """A claimed dataset is not going to be there. Does nothing the second time."""
        with self._changed:
            self._let_go(claim)

    @contextmanager
    def reading(self) -> Iterator[ReadingLease]:
        """For as long as it lasts, the files of the datasets it is asked for stay."""
        lease = ReadingLease(self)
        try:
            yield lease
        finally:
            lease.release()

    def lease(
        self, dataset_ids: Iterable[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, KeptResult]:
        """Notes one more reader of each of these that is kept.

        Returns:
            those that are, each to be given to `release`.
        """
        leased = {}
        with self._changed:
            for dataset_id in dataset_ids:
                number = self._current.get(dataset_id)
                if number is not None:
                    known = self._entries[number]
                    leased[dataset_id] = self._entries[number] = replace(
                        known, hits=known.hits + 1, readers=known.readers + 1
                    )
        return leased

    def release(self, results: Iterable[KeptResult]) -> None:
        """Notes that a reader has finished with these; files of evicted ones go with the last."""
        with self._changed:
            numbers = [result.number for result in results]
            for number in numbers:
                known = self._entries[number]
                self._entries[number] = replace(known, readers=known.readers - 1)
            unused = self._unused(numbers)
        self._remove_all(unused)

    def evict(self, results: Iterable[KeptResult]) -> list[KeptResult]:
        """Forgets these, and removes their files as soon as nobody reads them.

        What has been kept since in the place of one of them stays.

        Returns:
            what was forgotten, each once.
        """
        with self._changed:
            evicted = self._evicted(result.number for result in results)
            unused = self._unused(each.number for each in evicted)
        self._remove_all(unused)
        return evicted

    def invalidate(self, digest: str | None = None) -> list[KeptResult]:
        """Forgets what is kept of a computation, and what is being produced of it.

        Args:
            digest: of the computation; None for all there are.

        Returns:
            what was forgotten.
        """
        with self._changed:
            self._stale.update(
                claim.number for claim in self._claims.values() if digest in (None, claim.digest)
            )
            evicted = self._evicted(
                number
                for number in list(self._current.values())
                if digest in (None, self._entries[number].digest)
            )
            unused = self._unused(each.number for each in evicted)
        self._remove_all(unused)
        return evicted

    # -- under the lock

    def _is_held(self, claim: Claim) -> bool:
        return self._claims.get(claim.dataset_id) == claim

    def _let_go(self, claim: Claim) -> None:
        if self._is_held(claim):
            del self._claims[claim.dataset_id]
            self._stale.discard(claim.number)
            self._changed.notify_all()

    def _is_current(self, result: KeptResult) -> bool:
        return self._current.get(result.dataset_id) == result.number

    def _evicted(self, numbers: Iterable[int]) -> list[KeptResult]:
        evicted = []
        for number in numbers:
            result = self._entries.get(number)
            if result is not None and self._is_current(result):
                del self._current[result.dataset_id]
                evicted.append(result)
        return evicted

    def _unused(self, numbers: Iterable[int]) -> list[KeptResult]:
        """Takes out those that nobody reads, nor will."""
        found = (self._entries.get(number) for number in dict.fromkeys(numbers))
        unused = [
            each for each in found if each and not each.readers and not self._is_current(each)
        ]
        for result in unused:
            del self._entries[result.number]
        return unused

    def _remove_all(self, results: Iterable[KeptResult]) -> None:
        for result in results:
            self._remove(result.kept)


class ReadingLease:
    """The datasets that one job reads.

    Args:
        results: the book they are in.
    """

    def __init__(self, results: KeptResults) -> None:
        self._results = results
        self._held: dict[IntermediateDataSetID, KeptResult] = {}

    @property
    def held(self) -> Mapping[IntermediateDataSetID, KeptResult]:
        """What is leased."""
        return self._held

    def acquire(self, dataset_id: IntermediateDataSetID) -> KeptResult | None:
        """Adds a dataset to the lease; None when it isn't kept any more."""
        if dataset_id not in self._held:
            self._held.update(self._results.lease([dataset_id]))
        return self._held.get(dataset_id)

    def commit(self, claim: Claim, kept: KeptDataSet, *, wanted: bool) -> KeptResult:
        """Commits a claimed dataset and adds it to the lease."""
        result = self._held[claim.dataset_id] = self._results.commit(claim, kept, wanted=wanted)
        return result

    def drop(self, dataset_ids: Iterable[IntermediateDataSetID]) -> None:
        """Ends the lease of datasets that turned out to be damaged; nobody gets them any more."""
        dropped = [self._held.pop(each) for each in dataset_ids if each in self._held]
        self._results.evict(dropped)
        self._results.release(dropped)

    def release(self) -> None:
        """Ends the lease. Does nothing the second time."""
        held, self._held = self._held, {}
        self._results.release(held.values())
