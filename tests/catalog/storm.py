"""Processes on one storage directory that are killed at any moment.

Each produces, reads, evicts and invalidates results; what a result holds follows from its id.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

from holdfast.catalog.catalog import Catalog
from holdfast.cli.upkeep.garbage import find_garbage
from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.result_book import Claim, ProductionFacts
from holdfast.runtime.shared_results import SharedResults
from holdfast.storage.kept_dataset import KeptDataSet
from tests.catalog.programs import book_of, written
from tests.harness.forked import CONTEXT

DATASETS = [IntermediateDataSetID(f"{number + 1:064x}") for number in range(24)]
LEASE_SECONDS = 3.0
# Arrow imports these late, and takes the end of the process for a failure of the import.
_PRELOADED = (pandas, pyarrow.dataset)
_PATIENCE_SECONDS = 60.0
_ROWS = 500
_PARTITIONS = 3


@dataclass
class Storm:
    """What has happened."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def rage(root: Path, url: str, processes: int, seconds: float, seed: int, limit: int) -> Storm:
    """Has processes work and kills them, for a while."""
    chosen, reports = random.Random(seed), root.with_name("reports")
    reports.mkdir()
    storm, until = Storm(), time.monotonic() + seconds
    running: list[BaseProcess] = []
    patience = until + _PATIENCE_SECONDS
    while time.monotonic() < until or (
        storm.done["killed"] < 2 * processes and time.monotonic() < patience
    ):
        while len(running) < processes:
            process: BaseProcess = CONTEXT.Process(
                target=_work, args=(root, url, chosen.random(), limit, reports), daemon=True
            )
            process.start()
            running.append(process)
        time.sleep(chosen.uniform(0.0, 2.0 / processes))
        # One that has done nothing yet leaves nothing; on a busy machine that takes a while.
        able = [each for each in running if (reports / str(each.pid)).exists()]
        if not able:
            continue
        victim = chosen.choice(able)
        running.remove(victim)
        if chosen.random() < 0.9 and victim.pid is not None:
            os.kill(victim.pid, signal.SIGKILL)
        else:
            victim.terminate()
        victim.join(_PATIENCE_SECONDS)
        if victim.exitcode is None:
            storm.failed.append(f"process {victim.pid} was asked to end, and did not")
            victim.kill()
            victim.join()
        storm.done["killed"] += 1
    for process in running:
        process.kill()
        process.join()
    _collect(storm, reports)
    return storm


def _collect(storm: Storm, reports: Path) -> None:
    for file in reports.iterdir():
        # A process that is killed over a line has written none of it.
        for line in file.read_text().splitlines():
            kind, _, text = line.partition("\t")
            storm.done[kind] += 1
            if kind == "wrong":
                storm.wrong.append(text)
            elif kind == "failed":
                storm.failed.append(text)


@dataclass
class Report:
    """Where one process says what it does: others would be held up by what a killed one holds."""

    directory: Path

    def put(self, kind: str, text: str = "") -> None:
        line = f"{kind}\t{' '.join(text.split())}\n".encode()
        file = os.open(
            self.directory / str(os.getpid()), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        os.write(file, line)
        os.close(file)


def _work(root: Path, url: str, seed: float, limit: int, directory: Path) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    chosen, report = random.Random(seed), Report(directory)
    book, storage, _ = storm_book(root, url, limit)
    try:
        while True:
            dataset_id = chosen.choice(DATASETS)
            if chosen.random() < 0.1:
                book.invalidate(dataset_id.hex, everywhere=chosen.random() < 0.5)
                report.put("invalidated")
                continue
            with book.reading() as lease:
                result = lease.acquire(dataset_id)
                if result is not None:
                    _check(result.kept, dataset_id, chosen, report)
                    continue
            _produce(book, storage, dataset_id, chosen, report)
    finally:
        book.close()
        storage.close()


def _produce(
    book: SharedResults,
    storage: EmbeddedStorage,
    dataset_id: IntermediateDataSetID,
    chosen: random.Random,
    report: Report,
) -> None:
    claim = book.claim(dataset_id, dataset_id.hex, 2.0, alone=False)
    if not isinstance(claim, Claim):
        report.put("waited")
        return
    try:
        try:
            kept = written(storage, dataset_id, partitions_of(dataset_id))
        except StorageError as error:
            report.put("not written", str(error))
            return
        time.sleep(chosen.uniform(0.0, 0.05))
        facts = ProductionFacts(
            is_checkable=True,
            lifetime=chosen.choice([None, 2.0, 600.0]),
            seconds=chosen.uniform(1.0, 100.0),
        )
        result = book.commit(claim, kept, wanted=True, facts=facts)
        _check(result.kept, dataset_id, chosen, report)
        book.release([result])
        report.put("refused" if result.refusal else "produced")
    finally:
        book.abandon(claim)


def _check(
    kept: KeptDataSet, dataset_id: IntermediateDataSetID, chosen: random.Random, report: Report
) -> None:
    time.sleep(chosen.uniform(0.0, 0.1))
    try:
        tables = [pyarrow.parquet.read_table(location) for location in kept.locations]
    except (OSError, pyarrow.ArrowException) as error:
        report.put("failed", f"{dataset_id}: {error}")
        return
    values = Counter(value for table in tables for value in table.column("a").to_pylist())
    if values != Counter({int(dataset_id.hex, 16): _ROWS * _PARTITIONS}):
        report.put("wrong", f"{dataset_id}: {values}")
    report.put("read")


def partitions_of(dataset_id: IntermediateDataSetID) -> list[list[int]]:
    """What a result holds."""
    return [[int(dataset_id.hex, 16)] * _ROWS] * _PARTITIONS


def storm_book(root: Path, url: str, limit: int) -> tuple[SharedResults, EmbeddedStorage, Catalog]:
    """The book of a program in the storm, where half of the results are wanted."""
    return book_of(
        root,
        url,
        limit=limit,
        lease_seconds=LEASE_SECONDS,
        is_wanted=lambda digest: digest[-1] in "02468",
    )


def nothing_is_left(root: Path, url: str, limit: int) -> None:
    """What those that were killed have left is cleared up, and all that is kept can be read."""
    book, storage, catalog = storm_book(root, url, limit)
    # Any program that goes on clears up after those that were killed.
    assert book.may_find(lambda digest: False) in (True, False)
    book._look_after(catalog)
    kept = catalog.search.all()
    assert sum(each.bytes for each in kept) <= limit
    for garbage in find_garbage(root, catalog):
        assert garbage.remove(), garbage
    assert list(find_garbage(root, catalog)) == []
    lying = {path.name for path in (root / "shared" / "datasets").iterdir()}
    assert lying == {each.name for each in kept if each.is_shared}
    assert not list((root / "shared" / "staging").iterdir())
    # All of it can be read, and what isn't there can be produced.
    for dataset_id in DATASETS:
        with book.reading() as lease:
            if lease.acquire(dataset_id) is None:
                storage.remove(written(storage, dataset_id, partitions_of(dataset_id)))
    book.close()
    storage.close()
