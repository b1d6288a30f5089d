"""Who gets the results that are sealed: the user's other programs, where they have the same key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from sqlalchemy import URL

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import Audience, ProgramIdentity
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.ids import JobID
from holdfast.plan.reasons import Why
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.result_book import Claim, ProductionFacts
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.storage.sealed_batches import OWN_CLASSES
from holdfast.storage.shared_directory import SHARED, SharedDirectory
from tests.catalog.results import DATASET, STORAGE

DIGEST = "d" * 64
LASTING = ProductionFacts(is_checkable=True, seconds=1.0, lifetime=600.0)


@dataclass(frozen=True)
class Program:
    """One program: its book, its files and its view of the catalog."""

    book: SharedResults
    storage: EmbeddedStorage
    catalog: Catalog

    def produce(self, counts: list[int], seal: str | None = "label") -> None:
        """A job that keeps batches of so many records each."""
        claim = self.book.claim(DATASET, DIGEST, alone=False)
        assert isinstance(claim, Claim)
        job = JobID.random()
        staged = self.storage.stage(job, DATASET)
        table = pyarrow.table({"records": pyarrow.array(counts, pyarrow.int32())})
        pyarrow.parquet.write_table(table, staged.directory / "part-00000-x-c000.parquet")
        described = DataSetDescription(
            dataset_id=DATASET.hex, computes="batches", columns=(), spark_version="", seal=seal
        )
        kept = self.storage.publish(staged, described)
        self.storage.end_job(job)
        self.book.release([self.book.commit(claim, kept, wanted=True, facts=LASTING)])

    def finds(self) -> bool:
        """Whether a job finds it, and reads it."""
        found = DATASET in self.book.find([DATASET])
        with self.book.reading() as lease:
            assert (lease.acquire(DATASET) is not None) == found
        return found


Start = Callable[..., Program]


@pytest.fixture
def start(url: URL, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def make(
            user: str = "ana", audience: Audience = Audience.USER, *, has_key: bool = True
        ) -> Program:
            storage = EmbeddedStorage(tmp_path / "kept")
            identity = ProgramIdentity(storage.application, user, ("staff",), "node-1", 1)
            catalog = Catalog(
                CatalogDatabase(url), lambda: STORAGE, lambda: "e" * 64, identity, 600.0
            )
            policy = SharingPolicy(
                audience,
                lambda kept: None,
                lambda paths: None,
                lambda digest: True,
                why_own_seal=lambda: None if has_key else "no key",
            )
            place = EmbeddedSharingPlace(storage, SharedDirectory(tmp_path / "kept" / SHARED))
            book = SharedResults(
                GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0), place, policy
            )
            stack.callback(storage.close)
            stack.callback(book.close)
            return Program(book, storage, catalog)

        yield make


def test_programs_of_one_user_read_them_with_the_key_they_have_in_common(start: Start) -> None:
    start().produce([1, 400])
    assert start().finds()


def test_whoever_has_another_key_neither_reads_nor_offers_any(start: Start) -> None:
    start().produce([1, 400])
    other = start(has_key=False)
    assert not other.finds()
    other.produce([1, 400])
    (offered, own) = other.catalog.search.all()
    assert (offered.audience, own.audience) == (Audience.USER, Audience.NOBODY)
    assert (offered.reasons, own.reasons) == ((), (Why.OWN_SEAL.of("no key"),))
    # What it can't read is not damaged, and stays for those who can; it was used by nobody.
    assert offered.uses == 0 and start().finds()


@pytest.mark.parametrize("audience", [Audience.GROUP, Audience.ALL])
def test_they_are_for_no_other_user_whatever_else_is_shared(
    start: Start, audience: Audience
) -> None:
    start("ana", audience).produce([1, 400])
    assert not start("bob", audience).finds() and start("ana", audience).finds()


@pytest.mark.parametrize("counts", [[1, OWN_CLASSES + 2], [OWN_CLASSES + 1]])
def test_those_whose_records_bring_classes_along_are_for_their_program(
    start: Start, counts: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    program = start()
    program.produce(counts)
    assert program.finds() and not start().finds()
    (result,) = program.catalog.search.all()
    assert result.audience is Audience.NOBODY and result.lifetime is None
    assert result.reasons == (Why.OWN_CLASSES.of(),)
    assert "Define them in a module" in caplog.text
