"""What is kept and who reads it, by many threads at once; real files show whether it is right."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import Claim, KeptResult, ResultBook
from holdfast.runtime.wanted import CachedComputation, Wanted
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

THREADS = 8
STEPS = 25
PATIENCE = 60.0
JOB = JobID("2" * 32)
ONE, TWO, OTHER = (IntermediateDataSetID(digit * 64) for digit in "123")
DIGESTS = ["a" * 64, "b" * 64]
# The same computation under two settings is two datasets.
DATASETS = {ONE: DIGESTS[0], TWO: DIGESTS[0], OTHER: DIGESTS[1]}


class Handle:
    """Somebody who holds a cached table."""


def keep(storage: EmbeddedStorage, dataset_id: IntermediateDataSetID) -> KeptDataSet:
    staged = storage.stage(JOB, dataset_id)
    pq.write_table(pa.table({"a": [1, 2]}), staged.directory / "part-00000-x-c000.zstd.parquet")
    description = DataSetDescription(
        dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return storage.publish(staged, description)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(tmp_path / "root")
    yield storage
    storage.close()


@pytest.fixture
def removed() -> list[Path]:
    """What was removed."""
    return []


@pytest.fixture
def manager(storage: EmbeddedStorage, removed: list[Path]) -> CacheServiceManager[str]:
    def remove(kept: KeptDataSet) -> None:
        removed.append(kept.directory)
        storage.remove(kept)

    return CacheServiceManager(lambda _: KeptResults(remove))


@pytest.fixture
def book(manager: CacheServiceManager[str]) -> ResultBook:
    return manager.results


def computation(digest: str, is_unasked: bool = False) -> CachedComputation[str]:
    return CachedComputation(digest, "query", "name", is_unasked=is_unasked)


def claimed(book: ResultBook, dataset_id: IntermediateDataSetID = ONE) -> Claim:
    claim = book.claim(dataset_id, DATASETS[dataset_id], PATIENCE)
    assert isinstance(claim, Claim)
    return claim


def test_files_are_there_as_long_as_any_of_many_threads_reads_them(
    manager: CacheServiceManager[str],
    storage: EmbeddedStorage,
    removed: list[Path],
    tmp_path: Path,
) -> None:
    handles = {digest: Handle() for digest in DATASETS.values()}
    producing: Counter[IntermediateDataSetID] = Counter()
    counting, start = threading.Lock(), threading.Barrier(THREADS)

    def produce(chance: random.Random, dataset_id: IntermediateDataSetID) -> KeptDataSet | None:
        with counting:
            producing[dataset_id] += 1
            assert producing[dataset_id] == 1
        kept = keep(storage, dataset_id) if chance.random() < 0.8 else None
        with counting:
            producing[dataset_id] -= 1
        return kept

    def job(chance: random.Random, dataset_id: IntermediateDataSetID) -> None:
        digest = DATASETS[dataset_id]
        manager.wanted.register(computation(digest), handles[digest])
        with manager.results.reading() as lease:
            claim = manager.results.claim(dataset_id, digest)
            if isinstance(claim, Claim):
                kept = produce(chance, dataset_id)
                if kept is None:
                    manager.results.abandon(claim)
                    return
                wanted = manager.wanted.find(digest) is not None
                entry: KeptResult | None = lease.commit(claim, kept, wanted=wanted)
            else:
                entry = lease.acquire(dataset_id)
            if entry is None:
                return  # It has been invalidated between the two.
            for _ in range(3):
                assert storage.damage(entry.kept) is None
            if chance.random() < 0.1:
                lease.drop([dataset_id])

    def many_jobs(seed: int) -> None:
        chance = random.Random(seed)
        start.wait(PATIENCE)
        for _ in range(STEPS):
            dataset_id = chance.choice(list(DATASETS))
            what = chance.random()
            if what < 0.8:
                job(chance, dataset_id)
            elif what < 0.97:
                manager.invalidate(DATASETS[dataset_id])
            else:
                manager.invalidate_all()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(many_jobs, range(THREADS), timeout=PATIENCE))
    entries = manager.results.find()
    assert all(entry.readers == 0 for entry in entries.values())
    left = set((tmp_path / "root").glob("application-*/datasets/*"))
    assert left == {entry.kept.directory for entry in entries.values()}
    assert all(storage.damage(entry.kept) is None for entry in entries.values())
    manager.invalidate_all()
    assert list((tmp_path / "root").glob("application-*/*/*")) == []
    assert len({*removed}) == len(removed) > 10


# -- who produces


@pytest.mark.parametrize("is_invalidated", [False, True])
def test_who_needs_what_another_produces_waits_and_reads_it_unless_it_is_invalidated(
    book: ResultBook, storage: EmbeddedStorage, is_invalidated: bool
) -> None:
    claim = claimed(book)
    found: list[Claim | KeptResult | None] = []
    thread = threading.Thread(target=lambda: found.append(book.claim(ONE, DATASETS[ONE])))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert book.claim(ONE, DATASETS[ONE], 0.01) is None
    if is_invalidated:
        book.invalidate(DATASETS[ONE])
    result = book.commit(claim, keep(storage, ONE), wanted=True)
    thread.join()
    assert isinstance(found[0], Claim) if is_invalidated else found == [result]
    # Its producer reads it to the end.
    assert result.kept.directory.exists()
    book.release([result])
    assert result.kept.directory.exists() is not is_invalidated


def test_a_claim_that_was_given_up_counts_no_more(
    book: ResultBook, storage: EmbeddedStorage
) -> None:
    """Committed late, it disturbs neither its new holder nor readers."""
    late = claimed(book)
    book.abandon(late)
    now = claimed(book)
    book.abandon(late)
    hidden = book.commit(late, keep(storage, ONE), wanted=True)
    assert book.find() == {}
    result = book.commit(now, keep(storage, ONE), wanted=True)
    assert book.find()[ONE].number == result.number
    book.release([hidden])
    assert not hidden.kept.directory.exists()
    assert result.kept.directory.exists()


# -- who reads


def test_what_proves_damaged_is_replaced_and_stays_for_its_readers(
    book: ResultBook, storage: EmbeddedStorage
) -> None:
    damaged = book.commit(claimed(book), keep(storage, ONE), wanted=True)
    assert book.find([TWO]) == book.lease([TWO]) == {}
    book.lease([ONE])
    assert (book.find()[ONE].readers, book.find()[ONE].hits) == (2, 2)
    assert [each.number for each in book.evict([damaged, damaged])] == [damaged.number]
    assert book.find() == {}
    instead = book.commit(claimed(book), keep(storage, ONE), wanted=True)
    assert book.evict([damaged]) == []
    for is_there in (True, False):
        book.release([damaged])
        assert damaged.kept.directory.exists() is is_there
    assert book.find()[ONE].number == instead.number
    assert storage.damage(instead.kept) is None


# -- what is wanted


def test_what_is_invalidated_is_kept_again_as_long_as_somebody_holds_it(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    digest, book = DATASETS[ONE], manager.results
    handles = [Handle(), Handle()]
    for each in handles:
        manager.wanted.register(computation(digest), each)

    def produce(dataset_id: IntermediateDataSetID = ONE) -> KeptResult:
        with book.reading() as lease:
            wanted = manager.wanted.find(DATASETS[dataset_id]) is not None
            claim = claimed(book, dataset_id)
            return lease.commit(claim, keep(storage, dataset_id), wanted=wanted)

    for handle in handles:
        others = produce(), produce(TWO), produce(OTHER)
        assert book.find().keys() == {ONE, TWO}
        assert not others[2].kept.directory.exists()
        dropped = manager.invalidate(digest, closing=handle)
        assert {each.number for each in dropped} == {each.number for each in others[:2]}
        assert book.find() == {}
    assert manager.wanted.find(digest) is None and not manager.wanted
    produce()
    assert book.find() == {}


def test_a_handle_that_was_collected_keeps_nothing_cached() -> None:
    wanted: Wanted[str] = Wanted()
    digest = DIGESTS[1]
    handle = Handle()
    wanted.register(computation(digest), handle)
    wanted.release(digest)
    assert wanted.find(digest) is not None
    del handle
    wanted.release(digest)
    assert wanted.find(digest) is None


def test_what_is_distrusted_is_gone_and_not_kept_again(
    manager: CacheServiceManager[str], storage: EmbeddedStorage
) -> None:
    wanted, book = manager.wanted, manager.results
    assert DATASETS[ONE] == DATASETS[TWO] == DIGESTS[0]
    handle = Handle()
    for digest in DIGESTS:
        wanted.register(computation(digest), handle)
    with book.reading() as lease:
        kept = lease.commit(claimed(book, ONE), keep(storage, ONE), wanted=True).kept
        claim = claimed(book, TWO)
        manager.distrust(DIGESTS[0])
        # Its readers and its producer aren't disturbed, and no other job gets it.
        assert kept.directory.exists()
        made_meanwhile = lease.commit(claim, keep(storage, TWO), wanted=True).kept
        assert book.find() == {}
    assert not kept.directory.exists()
    assert not made_meanwhile.directory.exists()
    again = computation(DIGESTS[0])
    wanted.register(again, handle)
    wanted.follow(again, handle)
    assert wanted.find(DIGESTS[0]) is None
    assert wanted.all() == []


def test_what_was_asked_for_is_not_implicit_any_more() -> None:
    wanted: Wanted[str] = Wanted()
    digest, implicit, asked = DIGESTS[1], Handle(), Handle()
    assert not wanted.is_unasked(digest)
    wanted.register(computation(digest, is_unasked=True), implicit)
    assert wanted.is_unasked(digest)
    # What is kept of it stays, although it isn't wanted any more.
    wanted.release(digest, implicit)
    assert wanted.is_unasked(digest)
    wanted.register(computation(digest), asked)
    wanted.register(computation(digest, is_unasked=True), implicit)
    assert not wanted.is_unasked(digest)
