"""What one program has kept: its own book."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.reasons import Reason
from holdfast.runtime.result_book import (
    CLAIM_NUMBERS,
    PATIENCE_SECONDS,
    Claim,
    KeptResult,
    Origin,
    ProductionFacts,
    ResultBook,
)
from holdfast.storage.kept_dataset import KeptDataSet


class KeptResults(ResultBook):
    """The book of one program, in memory.

    Args:
        remove: removes a dataset that nobody reads any more. Called without a lock.
    """

    def __init__(self, remove: Callable[[KeptDataSet], None]) -> None:
        self._remove = remove
        # Entered by itself: an interrupt within a condition's own entering would leave it locked.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._numbers = itertools.count(1)
        # Those that are read, although they are evicted, as well: which are not the current ones.
        self._entries: dict[int, KeptResult] = {}
        self._current: dict[IntermediateDataSetID, int] = {}
        self._claims: dict[IntermediateDataSetID, Claim] = {}
        self._stale: set[int] = set()

    def find(
        self, dataset_ids: Collection[IntermediateDataSetID] | None = None
    ) -> dict[IntermediateDataSetID, KeptResult]:
        with self._lock:
            asked = self._current if dataset_ids is None else dataset_ids
            return {
                each: self._entries[self._current[each]] for each in asked if each in self._current
            }

    def claim(
        self,
        dataset_id: IntermediateDataSetID,
        digest: str,
        patience_seconds: float = PATIENCE_SECONDS,
        *,
        alone: bool = True,
        number: int | None = None,
    ) -> Claim | KeptResult | None:
        with self._lock:
            is_free = self._changed.wait_for(
                lambda: dataset_id not in self._claims, patience_seconds
            )
            if not is_free:
                return None
            current = self._current.get(dataset_id)
            if current is not None:
                return self._entries[current]
            if number is None:
                number = next(CLAIM_NUMBERS)
            claim = self._claims[dataset_id] = Claim(number, dataset_id, digest)
            return claim

    def commit(
        self,
        claim: Claim,
        kept: KeptDataSet,
        *,
        wanted: bool,
        facts: ProductionFacts | None = None,
        origin: Origin | None = None,
    ) -> KeptResult:
        since = time.time() if origin is None else origin.since
        known = facts if origin is None else origin
        with self._lock:
            wanted &= self._is_held(claim) and claim.number not in self._stale
            self._let_go(claim)
            number = next(self._numbers)
            result = self._entries[number] = KeptResult(
                number,
                claim.dataset_id,
                claim.digest,
                kept,
                since,
                hits=1,
                readers=1,
                origin=origin,
                seconds=0.0 if known is None else known.seconds,
                files=frozenset() if known is None else known.files,
                reasons=() if facts is None else facts.reasons,
            )
            if wanted:
                self._current[claim.dataset_id] = number
            return result

    def abandon(self, claim: Claim) -> None:
        with self._lock:
            self._let_go(claim)

    def lease(
        self, dataset_ids: Iterable[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, KeptResult]:
        leased = {}
        with self._lock:
            for dataset_id in dataset_ids:
                number = self._current.get(dataset_id)
                if number is not None:
                    known = self._entries[number]
                    leased[dataset_id] = self._entries[number] = replace(
                        known, hits=known.hits + 1, readers=known.readers + 1
                    )
        return leased

    def release(self, results: Iterable[KeptResult]) -> None:
        with self._lock:
            numbers = [result.number for result in results]
            for number in numbers:
                known = self._entries[number]
                self._entries[number] = replace(known, readers=known.readers - 1)
            unused = self._unused(numbers)
        self._remove_all(unused)

    def saved(self, result: KeptResult, seconds: float) -> None:
        with self._lock:
            known = self._entries.get(result.number)
            if known is not None:
                self._entries[result.number] = replace(
                    known, saved_seconds=known.saved_seconds + seconds
                )

    def explained(self, result: KeptResult, reasons: tuple[Reason, ...]) -> KeptResult:
        """Notes more reasons why a result is not read everywhere; returns it with all of them."""
        with self._lock:
            known = self._entries.get(result.number, result)
            known = replace(known, reasons=(*known.reasons, *reasons))
            if result.number in self._entries:
                self._entries[result.number] = known
        return known

    def evict(self, results: Iterable[KeptResult]) -> list[KeptResult]:
        with self._lock:
            evicted = self._evicted(result.number for result in results)
            unused = self._unused(each.number for each in evicted)
        self._remove_all(unused)
        return evicted

    def invalidate(
        self, digest: str | None = None, *, everywhere: bool = False
    ) -> list[KeptResult]:
        with self._lock:
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

    def may_find(self, apart_from: Callable[[str], bool]) -> bool:
        with self._lock:
            current = (self._entries[number].digest for number in self._current.values())
            return not all(map(apart_from, current))

    def close(self) -> None:
        self.invalidate()

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
