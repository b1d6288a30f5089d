"""Programs of one machine that share results: real files, a real catalog, no Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pyarrow.parquet
import pytest
from sqlalchemy import URL

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import MadeFrom, ProgramIdentity
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.file_version import FileVersion
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.result_book import Claim, KeptResult, ProductionFacts
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.shared_directory import SharedDirectory
from tests.catalog.programs import keep, written
from tests.catalog.results import DATASET, OTHER, STORAGE

DIGEST = "d" * 64
SOURCE = FileVersion("file:/orders.parquet", 1, 2)
FACTS = ProductionFacts(is_checkable=True, seconds=12.0, made_from=MadeFrom((SOURCE,)))
FOR_LONG = replace(FACTS, lifetime=600.0)
ROWS = [1, 1, 1, 2, 2, 2]


@dataclass
class Program:
    """One program: its book, its files and its view of the catalog."""

    book: SharedResults
    storage: EmbeddedStorage
    catalog: Catalog
    guarded: GuardedCatalog
    wanted: set[str] = field(default_factory=lambda: {DIGEST})
    unasked: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    limit: int | None = None
    has_renewed: Event = field(default_factory=Event)

    def write(
        self, values: Collection[int] = (1,), dataset_id: IntermediateDataSetID = DATASET
    ) -> KeptDataSet:
        """What the tasks of a production leave."""
        return written(self.storage, dataset_id, [[value] * 3 for value in values])

    def produce(
        self,
        values: Collection[int] = (1, 2),
        facts: ProductionFacts = FACTS,
        dataset_id: IntermediateDataSetID = DATASET,
    ) -> KeptResult:
        """A job that keeps a result."""
        kept = keep(self.book, dataset_id, DIGEST, lambda: self.write(values, dataset_id), facts)
        self._first_renewal()
        return kept

    def produce_unasked(
        self, letter: str, seconds: float = 12.0, *, partitions: int = 1, **facts: object
    ) -> IntermediateDataSetID:
        """Keeps something that no program has asked for."""
        digest, dataset_id = letter * 64, IntermediateDataSetID(letter * 64)
        self.wanted.add(digest)
        self.unasked.add(digest)
        made = replace(FOR_LONG, seconds=seconds, **facts)  # type: ignore[arg-type]
        write = lambda: self.write(range(partitions), dataset_id)  # noqa: E731
        keep(self.book, dataset_id, digest, write, made)
        return dataset_id

    def has_no_more_room(self) -> int:
        """From now on there is room for what is kept, and no more."""
        self.limit = sum(each.kept.bytes for each in self.book.find().values())
        return self.limit

    def claim(self, seconds: float | None = None) -> Claim | KeptResult | None:
        if seconds is None:
            return self.book.claim(DATASET, DIGEST, alone=False)
        return self.book.claim(DATASET, DIGEST, seconds, alone=False)

    def claims(self) -> Claim:
        """What it has to produce, as no other program does."""
        claim = self.claim()
        assert isinstance(claim, Claim)
        return claim

    def read(self, dataset_id: IntermediateDataSetID = DATASET) -> list[int] | None:
        """A job that reads a result: its values, or None where it isn't kept."""
        with self.book.reading() as lease:
            result = lease.acquire(dataset_id)
            found = None if result is None else rows(result.kept)
        self._first_renewal()
        return found

    def look_after(self) -> None:
        """What it does each time that it renews its lease."""
        self.book._look_after(self.catalog)

    def renewed(self, catalog: Catalog) -> None:
        """Its thread has renewed the lease."""
        self.book._look_after(catalog)
        self.has_renewed.set()

    def _first_renewal(self) -> None:
        # Its thread renews when it begins, which is not to be after a time that a test has pass.
        asked = self.guarded
        while (
            asked._thread is not None and not asked._is_away() and not self.has_renewed.wait(0.01)
        ):
            pass

    def close(self) -> None:
        self.book.close()
        self.storage.close()


def rows(kept: KeptDataSet) -> list[int]:
    tables = [pyarrow.parquet.read_table(location) for location in kept.locations]
    return sorted(value for table in tables for value in table.column("a").to_pylist())


def shared_names(program: Program) -> list[str]:
    """The names of what outlives its programs."""
    root = program.storage.stage(JobID.random(), OTHER).directory.parents[2]
    directory = root / "shared" / "datasets"
    # Another thread may be removing something, which it renames first.
    found = directory.iterdir() if directory.exists() else ()
    return sorted(path.name for path in found if not path.name.startswith("."))


Start = Callable[..., Program]


@pytest.fixture
def start(url: URL, tmp_path: Path) -> Iterator[Start]:
    """Starts programs on one storage directory."""
    started: list[Program] = []

    def make(
        user: str = "ana",
        audience: Audience = Audience.USER,
        retention: float | None = None,
        *,
        has_key: bool = True,
    ) -> Program:
        storage = EmbeddedStorage(tmp_path / "kept")
        identity = ProgramIdentity(
            storage.application, user, ("staff",), "node-1", os.getpid(), audience
        )
        catalog = Catalog(CatalogDatabase(url), lambda: STORAGE, lambda: "e" * 64, identity, 600.0)
        policy = SharingPolicy(
            audience,
            lambda kept: program.limit,
            lambda paths: next((path for path in paths if path in program.unreadable), None),
            lambda digest: digest in program.wanted,
            is_unasked=lambda digest: digest in program.unasked,
            retention_seconds=retention,
            user=user,
            why_own_seal=lambda: None if has_key else "no key",
        )
        place = EmbeddedSharingPlace(storage, SharedDirectory(tmp_path / "kept" / "shared"))
        guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)
        program = Program(SharedResults(guarded, place, policy), storage, catalog, guarded)
        guarded.on_renewal(program.renewed)
        started.append(program)
        return program

    yield make
    for program in started:
        program.close()
