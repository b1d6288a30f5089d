"""The book of what is cached and kept, under every order of events, over real files."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
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

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.cache_service_manager import (
    CachedComputation,
    CacheServiceManager,
    KeptEntry,
)
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

JOB = JobID("2" * 32)
DIGESTS = ["a" * 64, "b" * 64]
# The same computation under two settings is two datasets.
DATASETS = {
    IntermediateDataSetID(letter * 64): digest
    for letters, digest in zip(("12", "34"), DIGESTS, strict=True)
    for letter in letters
}
datasets = st.sampled_from(list(DATASETS))
digests = st.sampled_from(DIGESTS)


def keep(storage: EmbeddedStorage, dataset_id: IntermediateDataSetID) -> KeptDataSet:
    staged = storage.stage(JOB, dataset_id)
    pyarrow.parquet.write_table(
        pyarrow.table({"a": [1, 2]}), staged.directory / "part-00000-x-c000.zstd.parquet"
    )
    return storage.publish(
        staged,
        DataSetDescription(
            dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
        ),
    )


class Handle:
    """Somebody who holds a cached table."""


@dataclass(eq=False)
class Kept:
    """What the model knows of a kept dataset."""

    dataset_id: IntermediateDataSetID
    entry: KeptEntry
    readers: int
    hits: int
    dropped: bool


@dataclass
class Claim:
    dataset_id: IntermediateDataSetID
    stale: bool = False


@dataclass
class Model:
    # In order, and not by their addresses: what Hypothesis draws from must come back as it was.
    handles: dict[str, dict[Handle, None]] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    claims: dict[IntermediateDataSetID, Claim] = field(default_factory=dict)

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
        self.manager: CacheServiceManager[str] = CacheServiceManager(self.storage)
        self.model = Model()

    def teardown(self) -> None:
        self.storage.close()
        shutil.rmtree(self.home)

    @rule(digest=digests)
    def cache(self, digest: str) -> None:
        handle = Handle()
        self.manager.register(CachedComputation(digest, f"query {digest}", "name"), handle)
        self.model.handles.setdefault(digest, {})[handle] = None

    @rule(digest=digests, data=st.data())
    def follow(self, digest: str, data: st.DataObject) -> None:
        """A handle comes to stand for another computation, if it stood for one before."""
        known = [each for handles in self.model.handles.values() for each in handles]
        handle = data.draw(st.sampled_from([*known, Handle()]))
        self.manager.follow(CachedComputation(digest, f"query {digest}", "name"), handle)
        if handle in known:
            self.model.handles.setdefault(digest, {})[handle] = None

    @rule(dataset_id=datasets)
    def claim(self, dataset_id: IntermediateDataSetID) -> None:
        if dataset_id in self.model.claims:
            return  # It would wait for itself.
        found = self.manager.claim(dataset_id, DATASETS[dataset_id])
        expected = self.model.readable(dataset_id)
        assert found is (expected.entry if expected else None)
        if found is None:
            self.model.claims[dataset_id] = Claim(dataset_id)

    @precondition(lambda self: self.model.claims)
    @rule(target=leases, data=st.data())
    def publish(self, data: st.DataObject) -> Kept:
        dataset_id = data.draw(st.sampled_from(list(self.model.claims)))
        claim = self.model.claims.pop(dataset_id)
        kept = keep(self.storage, dataset_id)
        entry = self.manager.publish(dataset_id, kept)
        assert entry.kept == kept
        hidden = claim.stale or DATASETS[dataset_id] not in self.model.handles
        assert entry.dropped is hidden
        known = Kept(dataset_id, entry, readers=1, hits=1, dropped=hidden)
        self.model.kept.append(known)
        return known

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        dataset_id = data.draw(st.sampled_from(list(self.model.claims)))
        self.manager.abandon(dataset_id)
        del self.model.claims[dataset_id]

    @rule(target=leases, dataset_id=datasets)
    def acquire(self, dataset_id: IntermediateDataSetID):  # type: ignore[no-untyped-def]
        found = self.manager.acquire(dataset_id)
        expected = self.model.readable(dataset_id)
        if expected is None:
            assert found is None
            return multiple()
        assert found is expected.entry
        expected.readers += 1
        expected.hits += 1
        return expected

    @rule(lease=consumes(leases))
    def release(self, lease: Kept) -> None:
        self.manager.release([lease.entry])
        lease.readers -= 1

    @rule(lease=consumes(leases))
    def find_damage(self, lease: Kept) -> None:
        """A reader finds that what it reads is lost; what has replaced it stays."""
        dropped = self.manager.drop([lease.entry])
        assert dropped == ([] if lease.dropped else [lease.entry])
        self.manager.release([lease.entry])
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
            claim.stale |= DATASETS[claim.dataset_id] == digest
        if not handles:
            self.model.handles.pop(digest, None)

    @rule()
    def invalidate_all(self) -> None:
        dropped = self.manager.invalidate_all()
        self._invalidated(self.model.kept, dropped)
        for claim in self.model.claims.values():
            claim.stale = True
        self.model.handles.clear()

    def _invalidated(self, gone: list[Kept], dropped: list[KeptEntry]) -> None:
        expected = [each for each in gone if not each.dropped]
        assert {id(each.entry) for each in expected} == {id(each) for each in dropped}
        for each in expected:
            each.dropped = True

    @invariant()
    def the_book_is_right(self) -> None:
        readable = {each.dataset_id: each.entry for each in self.model.kept if not each.dropped}
        assert self.manager.entries() == readable
        for each in self.model.kept:
            assert (each.entry.readers, each.entry.hits) == (each.readers, each.hits)
        assert {each.digest for each in self.manager.computations()} == set(self.model.handles)
        assert self.manager.has_computations() == bool(self.model.handles)
        for digest in DIGESTS:
            known = self.manager.computation(digest)
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


# -- several threads -------------------------------------------------------------------------------

ONE = next(iter(DATASETS))


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(tmp_path / "root")
    yield storage
    storage.close()


@pytest.fixture
def manager(storage: EmbeddedStorage) -> CacheServiceManager[str]:
    manager: CacheServiceManager[str] = CacheServiceManager(storage)
    manager.register(CachedComputation(DATASETS[ONE], "query", "name"), _HANDLE)
    return manager


_HANDLE = Handle()


def claim_in_a_thread(
    manager: CacheServiceManager[str],
) -> tuple[threading.Thread, list[KeptEntry | None]]:
    claimed: list[KeptEntry | None] = []
    thread = threading.Thread(target=lambda: claimed.append(manager.claim(ONE, DATASETS[ONE])))
    thread.start()
    return thread, claimed


def test_who_needs_what_another_produces_waits_and_then_reads_it(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    thread, claimed = claim_in_a_thread(manager)
    thread.join(0.05)
    assert thread.is_alive()
    entry = manager.publish(ONE, keep(storage, ONE))
    thread.join()
    assert claimed == [entry]


def test_who_waited_in_vain_produces_it(manager: CacheServiceManager[str]) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    threads = [claim_in_a_thread(manager) for _ in range(3)]
    for _ in range(3):
        manager.abandon(ONE)
        for _ in range(200):
            if sum(len(claimed) for _, claimed in threads) == sum(
                not thread.is_alive() for thread, _ in threads
            ):
                break
    for thread, _ in threads:
        while thread.is_alive():
            manager.abandon(ONE)
            thread.join(0.01)
    assert [claimed for _, claimed in threads] == [[None]] * 3


def test_who_waited_for_what_was_invalidated_meanwhile_produces_it_again(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    thread, claimed = claim_in_a_thread(manager)
    manager.invalidate(DATASETS[ONE])
    entry = manager.publish(ONE, keep(storage, ONE))
    thread.join()
    assert claimed == [None]
    # Its producer reads it to the end.
    assert entry.kept.directory.exists()
    manager.release([entry])
    assert not entry.kept.directory.exists()


def test_other_datasets_are_not_waited_for(manager: CacheServiceManager[str]) -> None:
    first, second, *_ = DATASETS
    assert manager.claim(first, DATASETS[first]) is None
    assert manager.claim(second, DATASETS[second]) is None


def test_an_entry_that_is_named_twice_is_dropped_once(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    entry = manager.publish(ONE, keep(storage, ONE))
    manager.release([entry])
    dropped = manager.drop([entry, entry])
    assert [id(each) for each in dropped] == [id(entry)]
    assert not entry.kept.directory.exists()
    assert manager.drop([entry]) == []


def test_a_lease_ends_once(manager: CacheServiceManager[str], storage: EmbeddedStorage) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    with manager.reading() as lease:
        entry = lease.publish(ONE, keep(storage, ONE))
        assert lease.acquire(ONE) is entry
        assert entry.readers == 1
        lease.release()
        assert entry.readers == 0
    assert entry.readers == 0
    assert manager.entries() == {ONE: entry}


def test_a_lease_ends_with_an_error(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    assert manager.claim(ONE, DATASETS[ONE]) is None
    with pytest.raises(KeyboardInterrupt), manager.reading() as lease:
        entry = lease.publish(ONE, keep(storage, ONE))
        manager.invalidate_all()
        assert entry.kept.directory.exists()
        raise KeyboardInterrupt
    assert not entry.kept.directory.exists()


def test_a_handle_that_nobody_holds_any_more_keeps_nothing_cached(
    manager: CacheServiceManager[str],
) -> None:
    digest = DIGESTS[1]
    handle = Handle()
    manager.register(CachedComputation(digest, "query", "name"), handle)
    manager.invalidate(digest)
    assert manager.computation(digest) is not None
    del handle
    manager.invalidate(digest)
    assert manager.computation(digest) is None


def test_what_is_distrusted_is_gone_and_not_kept_again(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    first, second = list(DATASETS)[:2]
    assert DATASETS[first] == DATASETS[second] == DIGESTS[0]
    handle = Handle()
    for digest in DIGESTS:
        manager.register(CachedComputation(digest, "query", "rows"), handle)
    with manager.reading() as lease:
        assert manager.claim(first, DIGESTS[0]) is None
        kept = lease.publish(first, keep(storage, first)).kept
        assert manager.claim(second, DIGESTS[0]) is None
        manager.distrust(DIGESTS[0])
        # Who reads it or is at it is not disturbed, and nobody else gets it.
        assert kept.directory.exists()
        made_meanwhile = lease.publish(second, keep(storage, second)).kept
        assert manager.entries() == {}
    assert not kept.directory.exists()
    assert not made_meanwhile.directory.exists()
    again = CachedComputation(DIGESTS[0], "query", "rows")
    manager.register(again, handle)
    manager.follow(again, handle)
    assert manager.computation(DIGESTS[0]) is None
    assert [each.digest for each in manager.computations()] == [DIGESTS[1]]
