"""The book of what is cached and kept, under every order of events, over real files."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import Claim, KeptResult
from holdfast.runtime.wanted import CachedComputation
from tests.unit.kept_datasets import DATASETS, DIGESTS, Handle, keep

datasets = st.sampled_from(list(DATASETS))
digests = st.sampled_from(DIGESTS)


def numbers(results: Iterable[KeptResult]) -> list[int]:
    return [each.number for each in results]


@dataclass(eq=False)
class Kept:
    """What the model knows of a kept dataset."""

    dataset_id: IntermediateDataSetID
    entry: KeptResult
    readers: int
    hits: int
    dropped: bool


@dataclass
class Claimed:
    claim: Claim
    stale: bool = False


@dataclass
class Model:
    # In order, and not by their addresses: what Hypothesis draws from must come back as it was.
    handles: dict[str, dict[Handle, None]] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    claims: dict[IntermediateDataSetID, Claimed] = field(default_factory=dict)

    def readable(self, dataset_id: IntermediateDataSetID) -> Kept | None:
        found = [each for each in self.kept if each.dataset_id == dataset_id and not each.dropped]
        assert len(found) <= 1
        return found[0] if found else None


class ManagerMachine(RuleBasedStateMachine):
    """One thread does what many would, in any order."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.storage = EmbeddedStorage(self.home / "root")
        self.manager: CacheServiceManager[str] = CacheServiceManager(
            lambda _: KeptResults(self.storage.remove)
        )
        self.model = Model()

    def teardown(self) -> None:
        self.storage.close()
        shutil.rmtree(self.home)

    @rule(digest=digests)
    def cache(self, digest: str) -> None:
        handle = Handle()
        self.manager.wanted.register(CachedComputation(digest, f"query {digest}", "name"), handle)
        self.model.handles.setdefault(digest, {})[handle] = None

    @rule(digest=digests, data=st.data())
    def follow(self, digest: str, data: st.DataObject) -> None:
        """A handle comes to stand for another computation, if it stood for one before."""
        known = [each for handles in self.model.handles.values() for each in handles]
        handle = data.draw(st.sampled_from([*known, Handle()]))
        dropped = self.manager.follow(CachedComputation(digest, f"query {digest}", "name"), handle)
        if handle in known:
            self.model.handles.setdefault(digest, {})[handle] = None
        left = [
            each
            for each, handles in self.model.handles.items()
            if each != digest and handles.pop(handle, True) is None and not handles
        ]
        for each in left:
            del self.model.handles[each]
        self._invalidated(
            [each for each in self.model.kept if DATASETS[each.dataset_id] in left], dropped
        )
        for claim in self.model.claims.values():
            claim.stale |= claim.claim.digest in left

    @rule(dataset_id=datasets)
    def claim(self, dataset_id: IntermediateDataSetID) -> None:
        if dataset_id in self.model.claims:
            return  # It would wait for itself.
        found = self.manager.results.claim(dataset_id, DATASETS[dataset_id])
        expected = self.model.readable(dataset_id)
        if expected:
            assert isinstance(found, KeptResult)
            assert found.number == expected.entry.number
        else:
            assert isinstance(found, Claim)
            self.model.claims[dataset_id] = Claimed(found)

    @rule(dataset_id=datasets)
    def claim_in_vain(self, dataset_id: IntermediateDataSetID) -> None:
        if dataset_id in self.model.claims:
            assert self.manager.results.claim(dataset_id, DATASETS[dataset_id], 0) is None

    @precondition(lambda self: self.model.claims)
    @rule(target=leases, data=st.data())
    def publish(self, data: st.DataObject) -> Kept:
        dataset_id = data.draw(st.sampled_from(list(self.model.claims)))
        claim = self.model.claims.pop(dataset_id)
        kept = keep(self.storage, dataset_id)
        wanted = self.manager.wanted.find(DATASETS[dataset_id]) is not None
        entry = self.manager.results.commit(claim.claim, kept, wanted=wanted)
        assert entry.kept == kept
        hidden = claim.stale or DATASETS[dataset_id] not in self.model.handles
        known = Kept(dataset_id, entry, readers=1, hits=1, dropped=hidden)
        self.model.kept.append(known)
        return known

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        dataset_id = data.draw(st.sampled_from(list(self.model.claims)))
        claim = self.model.claims.pop(dataset_id).claim
        for _ in range(2):
            self.manager.results.abandon(claim)

    @rule(target=leases, dataset_id=datasets)
    def acquire(self, dataset_id: IntermediateDataSetID):  # type: ignore[no-untyped-def]
        found = self.manager.results.lease([dataset_id]).get(dataset_id)
        expected = self.model.readable(dataset_id)
        if expected is None:
            assert found is None
            return multiple()
        assert found is not None
        assert found.number == expected.entry.number
        expected.readers += 1
        expected.hits += 1
        return expected

    @rule(lease=consumes(leases))
    def release(self, lease: Kept) -> None:
        self.manager.results.release([lease.entry])
        lease.readers -= 1

    @rule(lease=consumes(leases))
    def find_damage(self, lease: Kept) -> None:
        """A reader finds that what it reads is lost; what has replaced it stays."""
        dropped = self.manager.results.evict([lease.entry, lease.entry])
        assert numbers(dropped) == ([] if lease.dropped else [lease.entry.number])
        self.manager.results.release([lease.entry])
        lease.dropped = True
        lease.readers -= 1

    @rule(digest=digests, close=st.booleans(), data=st.data())
    def invalidate(self, digest: str, close: bool, data: st.DataObject) -> None:
        handles = self.model.handles.get(digest, {})
        closing = None
        if close and handles:
            closing = data.draw(st.sampled_from(list(handles)))
            del handles[closing]
        dropped = self.manager.invalidate(digest, closing=closing)
        gone = [each for each in self.model.kept if DATASETS[each.dataset_id] == digest]
        self._invalidated(gone, dropped)
        for claim in self.model.claims.values():
            claim.stale |= claim.claim.digest == digest
        if not handles:
            self.model.handles.pop(digest, None)

    @rule()
    def invalidate_all(self) -> None:
        dropped = self.manager.invalidate_all()
        self._invalidated(self.model.kept, dropped)
        for claim in self.model.claims.values():
            claim.stale = True
        self.model.handles.clear()

    def _invalidated(self, gone: list[Kept], dropped: list[KeptResult]) -> None:
        expected = [each for each in gone if not each.dropped]
        assert {each.entry.number for each in expected} == set(numbers(dropped))
        for each in expected:
            each.dropped = True

    @invariant()
    def the_book_is_right(self) -> None:
        readable = {
            each.dataset_id: (each.entry.number, each.readers, each.hits)
            for each in self.model.kept
            if not each.dropped
        }
        for asked in (None, list(DATASETS)):
            found = self.manager.results.find(asked)
            found_now = {key: (each.number, each.readers, each.hits) for key, each in found.items()}
            assert found_now == readable
        assert {each.digest for each in self.manager.wanted.all()} == set(self.model.handles)
        assert bool(self.manager.wanted) == bool(self.model.handles)
        for digest in DIGESTS:
            known = self.manager.wanted.find(digest)
            assert (known is not None) == (digest in self.model.handles)

    @invariant()
    def files_are_there_exactly_as_long_as_somebody_can_read_them(self) -> None:
        needed = {
            each.entry.kept.directory
            for each in self.model.kept
            if each.readers or not each.dropped
        }
        assert set((self.home / "root").glob("application-*/datasets/*")) == needed
        for each in self.model.kept:
            damage = self.storage.damage(each.entry.kept)
            assert (damage is None) == (each.entry.kept.directory in needed)


TestManagerMachine = ManagerMachine.TestCase
TestManagerMachine.settings = settings(stateful_step_count=40)
