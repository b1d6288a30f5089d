"""Many threads at once keep, read and invalidate; real files show whether that was right."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import Claim, KeptResult
from holdfast.runtime.wanted import CachedComputation, Wanted
from holdfast.storage.kept_dataset import KeptDataSet
from tests.unit.kept_datasets import DATASETS, DIGESTS, Handle, keep

THREADS = 8
STEPS = 25
PATIENCE = 60.0
ONE = next(iter(DATASETS))


class CountingStorage(EmbeddedStorage):
    """Counts what it removes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.removed: Counter[Path] = Counter()
        self._counting = threading.Lock()

    def remove(self, kept: KeptDataSet) -> None:
        with self._counting:
            self.removed[kept.directory] += 1
        super().remove(kept)


class Keepers:
    """How many threads are producing each dataset."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: Counter[IntermediateDataSetID] = Counter()
        self.most = 0
        self.times = 0

    @contextmanager
    def one(self, dataset_id: IntermediateDataSetID) -> Iterator[None]:
        with self._lock:
            self._now[dataset_id] += 1
            self.times += 1
            self.most = max(self.most, self._now[dataset_id])
        try:
            yield
        finally:
            with self._lock:
                self._now[dataset_id] -= 1


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[CountingStorage]:
    storage = CountingStorage(tmp_path / "root")
    yield storage
    storage.close()


def at_once(*tasks: Callable[[], None]) -> None:
    """Runs each in a thread; the first error of any of them is raised."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        start.wait(PATIENCE)
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(run, task) for task in tasks]:
            future.result(PATIENCE)


def test_files_are_there_as_long_as_any_of_many_threads_reads_them(
    storage: CountingStorage, tmp_path: Path
) -> None:
    manager: CacheServiceManager[str] = CacheServiceManager(lambda _: KeptResults(storage.remove))
    handles = {digest: Handle() for digest in DATASETS.values()}
    keepers = Keepers()

    def job(chance: random.Random, dataset_id: IntermediateDataSetID) -> None:
        digest = DATASETS[dataset_id]
        manager.wanted.register(CachedComputation(digest, "query", "name"), handles[digest])
        with manager.results.reading() as lease:
            claim = manager.results.claim(dataset_id, digest)
            if isinstance(claim, Claim):
                with keepers.one(dataset_id):
                    kept = keep(storage, dataset_id) if chance.random() < 0.8 else None
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
        for _ in range(STEPS):
            dataset_id = chance.choice(list(DATASETS))
            what = chance.random()
            if what < 0.8:
                job(chance, dataset_id)
            elif what < 0.97:
                manager.invalidate(DATASETS[dataset_id])
            else:
                manager.invalidate_all()

    at_once(*(lambda seed=seed: many_jobs(seed) for seed in range(THREADS)))  # type: ignore[misc]

    assert keepers.most == 1
    assert keepers.times > 10
    entries = manager.results.find()
    assert all(entry.readers == 0 for entry in entries.values())
    left = set((tmp_path / "root").glob("application-*/datasets/*"))
    assert left == {entry.kept.directory for entry in entries.values()}
    assert all(storage.damage(entry.kept) is None for entry in entries.values())
    manager.invalidate_all()
    assert list((tmp_path / "root").glob("application-*/*/*")) == []
    assert set(storage.removed.values()) == {1}


@pytest.fixture
def book(storage: CountingStorage) -> KeptResults:
    return KeptResults(storage.remove)


def claimed(book: KeptResults, dataset_id: IntermediateDataSetID = ONE) -> Claim:
    claim = book.claim(dataset_id, DATASETS[dataset_id], PATIENCE)
    assert isinstance(claim, Claim)
    return claim


def test_of_all_who_waited_in_vain_one_at_a_time_takes_over(book: KeptResults) -> None:
    keepers = Keepers()

    def try_it() -> None:
        claim = claimed(book)
        with keepers.one(ONE):
            threading.Event().wait(0.005)
        book.abandon(claim)

    at_once(*[try_it] * THREADS)
    assert (keepers.most, keepers.times) == (1, THREADS)


def test_files_of_what_is_invalidated_go_once_with_the_last_of_many_readers(
    book: KeptResults, storage: CountingStorage
) -> None:
    result = book.commit(claimed(book), keep(storage, ONE), wanted=True)
    for _ in range(THREADS):
        assert book.lease([ONE])[ONE].number == result.number

    at_once(
        *[lambda: book.release([result])] * THREADS,
        lambda: bool(book.invalidate(DATASETS[ONE])) and None,
    )
    # Its producer reads it still.
    assert storage.damage(result.kept) is None
    assert storage.removed == Counter()
    book.release([result])
    assert not result.kept.directory.exists()
    assert storage.removed == Counter({result.kept.directory: 1})


def claim_in_a_thread(
    book: KeptResults,
) -> tuple[threading.Thread, list[Claim | KeptResult | None]]:
    found: list[Claim | KeptResult | None] = []
    thread = threading.Thread(target=lambda: found.append(book.claim(ONE, DATASETS[ONE])))
    thread.start()
    return thread, found


def test_who_needs_what_another_produces_waits_and_then_reads_it(
    book: KeptResults, storage: EmbeddedStorage
) -> None:
    claim = claimed(book)
    thread, found = claim_in_a_thread(book)
    thread.join(0.05)
    assert thread.is_alive()
    assert book.claim(ONE, DATASETS[ONE], 0.01) is None
    result = book.commit(claim, keep(storage, ONE), wanted=True)
    thread.join()
    assert found == [result]


def test_a_claim_that_was_given_up_counts_no_more(
    book: KeptResults, storage: EmbeddedStorage
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


def test_who_waited_for_what_was_invalidated_meanwhile_produces_it_again(
    book: KeptResults, storage: EmbeddedStorage
) -> None:
    claim = claimed(book)
    thread, found = claim_in_a_thread(book)
    book.invalidate(DATASETS[ONE])
    result = book.commit(claim, keep(storage, ONE), wanted=True)
    thread.join()
    assert isinstance(found[0], Claim)
    # Its producer reads it to the end.
    assert result.kept.directory.exists()
    book.release([result])
    assert not result.kept.directory.exists()


def test_a_lease_ends_once(book: KeptResults, storage: EmbeddedStorage) -> None:
    claim = claimed(book)
    with book.reading() as lease:
        result = lease.commit(claim, keep(storage, ONE), wanted=True)
        assert lease.acquire(ONE) is result
        assert book.find()[ONE].readers == 1
        lease.release()
        assert book.find()[ONE].readers == 0
    assert book.find()[ONE].readers == 0


def test_a_claim_ends_with_the_lease_of_an_interrupted_job(book: KeptResults) -> None:
    """Others would wait for it for a day."""
    dataset_id = next(iter(DATASETS))
    with pytest.raises(KeyboardInterrupt), book.reading() as lease:
        assert isinstance(lease.claim(dataset_id, DATASETS[dataset_id], alone=True), Claim)
        raise KeyboardInterrupt
    claim = book.claim(dataset_id, DATASETS[dataset_id], patience_seconds=0)
    assert isinstance(claim, Claim)


def test_a_lease_ends_with_an_error(book: KeptResults, storage: EmbeddedStorage) -> None:
    claim = claimed(book)
    with pytest.raises(KeyboardInterrupt), book.reading() as lease:
        result = lease.commit(claim, keep(storage, ONE), wanted=True)
        book.invalidate()
        assert result.kept.directory.exists()
        raise KeyboardInterrupt
    assert not result.kept.directory.exists()


def test_a_handle_that_was_collected_keeps_nothing_cached() -> None:
    wanted: Wanted[str] = Wanted()
    digest = DIGESTS[1]
    handle = Handle()
    wanted.register(CachedComputation(digest, "query", "name"), handle)
    wanted.release(digest)
    assert wanted.find(digest) is not None
    del handle
    wanted.release(digest)
    assert wanted.find(digest) is None


def test_what_was_asked_for_is_not_implicit_any_more() -> None:
    wanted: Wanted[str] = Wanted()
    digest, implicit, asked = DIGESTS[1], Handle(), Handle()
    assert not wanted.is_unasked(digest)
    wanted.register(CachedComputation(digest, "query", "name", is_unasked=True), implicit)
    assert wanted.is_unasked(digest)
    # What is kept of it stays, although it isn't wanted any more.
    wanted.release(digest, implicit)
    assert wanted.is_unasked(digest)
    wanted.register(CachedComputation(digest, "query", "name"), asked)
    wanted.register(CachedComputation(digest, "query", "name", is_unasked=True), implicit)
    assert not wanted.is_unasked(digest)


def test_what_is_distrusted_is_gone_and_not_kept_again(storage: EmbeddedStorage) -> None:
    manager: CacheServiceManager[str] = CacheServiceManager(lambda _: KeptResults(storage.remove))
    wanted, book = manager.wanted, manager.results
    first, second = list(DATASETS)[:2]
    assert DATASETS[first] == DATASETS[second] == DIGESTS[0]
    handle = Handle()
    for digest in DIGESTS:
        wanted.register(CachedComputation(digest, "query", "rows"), handle)
    with book.reading() as lease:
        kept = lease.commit(claimed(book, first), keep(storage, first), wanted=True).kept
        claim = claimed(book, second)
        manager.distrust(DIGESTS[0])
        # Its readers and its producer aren't disturbed, and no other job gets it.
        assert kept.directory.exists()
        made_meanwhile = lease.commit(claim, keep(storage, second), wanted=True).kept
        assert book.find() == {}
    assert not kept.directory.exists()
    assert not made_meanwhile.directory.exists()
    again = CachedComputation(DIGESTS[0], "query", "rows")
    wanted.register(again, handle)
    wanted.follow(again, handle)
    assert wanted.find(DIGESTS[0]) is None
    assert [each.digest for each in wanted.all()] == []
