"""Programs without Spark: a book, a storage and a view of the catalog, and what tasks leave."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.this_program import this_program
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.result_book import Claim, KeptResult, ProductionFacts, ResultBook
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.shared_directory import SHARED, SharedDirectory
from tests.catalog.results import STORAGE


def book_of(
    root: Path,
    url: str,
    *,
    limit: int | None = None,
    lease_seconds: float = 60.0,
    is_wanted: Callable[[str], bool] = lambda digest: True,
) -> tuple[SharedResults, EmbeddedStorage, Catalog]:
    """A program's book, its storage and its view of the catalog."""
    storage = EmbeddedStorage(root)
    program = this_program(storage.application)
    catalog = Catalog(
        CatalogDatabase(url), lambda: STORAGE, lambda: "e" * 64, program, lease_seconds
    )
    place = EmbeddedSharingPlace(storage, SharedDirectory(root / SHARED))
    policy = SharingPolicy(Audience.USER, lambda kept: limit, lambda paths: None, is_wanted)
    return (
        SharedResults(
            GuardedCatalog(lambda: catalog, catalog.database.is_there, lease_seconds), place, policy
        ),
        storage,
        catalog,
    )


def keep(
    book: ResultBook,
    dataset_id: IntermediateDataSetID,
    digest: str,
    write: Callable[[], KeptDataSet],
    facts: ProductionFacts,
) -> KeptResult:
    """A job that keeps a result."""
    claim = book.claim(dataset_id, digest, alone=bool(facts.reasons))
    assert isinstance(claim, Claim), claim
    result = book.commit(claim, write(), wanted=True, facts=facts)
    book.release([result])
    return result


def written(
    storage: TaskExecutorStorage,
    dataset_id: IntermediateDataSetID,
    partitions: Sequence[list[int]],
    host: str | None = None,
) -> KeptDataSet:
    """What the tasks of a production leave: for each partition the values of its one column."""
    job = JobID.random()
    staged = storage.stage(job, dataset_id)
    if host is not None:
        # As Spark's tasks do, also where the executor has lost the program.
        staged.directory.mkdir(parents=True, exist_ok=True)
    for index, values in enumerate(partitions):
        file = staged.directory / f"part-{index:05d}-x-c000.zstd.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"a": values}), file)
    description = DataSetDescription(
        dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    placed = None
    if host is not None:
        placed = [WrittenPartition(index, host, len(each)) for index, each in enumerate(partitions)]
    kept = storage.publish(staged, description, placed)
    storage.end_job(job)
    return kept


@contextmanager
def keep_for_each_reason(root: Path) -> Iterator[tuple[dict[str, Reason], dict[str, str]]]:
    """A program that runs, and in which each reason is that of a result, kept or not."""
    reasons = {why.name: why.of("<a thing & another>", "of it") for why in Why}
    book, storage, catalog = book_of(root, str(in_directory(root)))
    try:
        for kind, reason in reasons.items():
            dataset = IntermediateDataSetID(hashlib.sha256(kind.encode()).hexdigest())
            digest = f"{kind:x<64}"
            if reason.where is Validity.NOWHERE:
                book.refused(dataset, digest, f"computes {kind}", reason)
                continue
            facts = ProductionFacts(is_checkable=True, lifetime=60.0, reasons=(reason,))
            keep(book, dataset, digest, partial(written, storage, dataset, [(1,)]), facts)
        yield reasons, {each.reasons[0].kind: each.name for each in catalog.reading.all()}
    finally:
        book.close()
        storage.close()
