"""Programs without Spark: a book, a storage and a view of the catalog, and what tasks leave."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import Audience, ProgramIdentity
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
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
    program = ProgramIdentity(storage.application, "ana", ("staff",), "node-1", os.getpid())
    catalog = Catalog(
        CatalogDatabase(url), lambda: STORAGE, lambda: "e" * 64, program, lease_seconds
    )
    place = EmbeddedSharingPlace(storage, SharedDirectory(root / SHARED))
    policy = SharingPolicy(Audience.USER, lambda kept: limit, lambda paths: None, is_wanted)
    return SharedResults(GuardedCatalog(catalog, lease_seconds), place, policy), storage, catalog


def written(
    storage: EmbeddedStorage, dataset_id: IntermediateDataSetID, partitions: Sequence[list[int]]
) -> KeptDataSet:
    """What the tasks of a production leave: for each partition the values of its one column."""
    job = JobID.random()
    staged = storage.stage(job, dataset_id)
    for index, values in enumerate(partitions):
        file = staged.directory / f"part-{index:05d}-x-c000.zstd.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"a": values}), file)
    description = DataSetDescription(
        dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    kept = storage.publish(staged, description)
    storage.end_job(job)
    return kept
