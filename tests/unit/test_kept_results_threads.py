"""Many threads at once keep, read and invalidate; real files tell whether they got it right."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import Claim, KeptResult
from holdfast.runtime.wanted import CachedComputation
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

THREADS = 8
STEPS = 25
PATIENCE = 60.0
DATASETS = {IntermediateDataSetID(letter * 64): letter * 64 for letter in "abc"}
JOB = JobID("2" * 32)
ONE = IntermediateDataSetID("a" * 64)


class CountingStorage(EmbeddedStorage):
    """Notes what it is told to remove."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.removed: Counter[Path] = Counter()
        self._counting = threading.Lock()

    def remove(self, kept: KeptDataSet) -> None:
        with self._counting:
            self.removed[kept.directory] += 1
        super().remove(kept)


class Handle:
    """Somebody who holds a cached table."""


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


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2]}), path)
    return path


def keep(storage: EmbeddedStorage, dataset_id: IntermediateDataSetID, parquet: Path) -> KeptDataSet:
    staged = storage.stage(JOB, dataset_id)
    (staged.directory / "part-00000-x-c000.zstd.parquet").write_bytes(parquet.read_bytes())
    return storage.publish(
        staged,
        DataSetDescription(
            dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
        ),
    )


def at_once(*tasks: Callable[[], None]) -> None:
    """Runs each in a thread of its own; the first error of any of them is raised."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], None]) -> None:
        start.wait(PATIENCE)
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for future in [pool.submit(run, task) for task in tasks]:
            future.result(PATIENCE)


def test_files_are_there_as_long_as_any_of_many_threads_reads_them(
    storage: CountingStorage, parquet: Path, tmp_path: Path
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
                    kept = keep(storage, dataset_id, parquet) if chance.random() < 0.8 else None
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


def claimed(book: KeptResults) -> Claim:
    claim = book.claim(ONE, DATASETS[ONE], PATIENCE)
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
    book: KeptResults, storage: CountingStorage, parquet: Path
) -> None:
    result = book.commit(claimed(book), keep(storage, ONE, parquet), wanted=True)
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
