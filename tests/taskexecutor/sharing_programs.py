"""Programs on a task executor that share results, without Spark."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event
from pathlib import Path

import pyarrow.parquet

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import MadeFrom, ProgramIdentity
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.result_record import ResultRecord
from holdfast.catalog.this_program import this_program
from holdfast.errors import StorageError
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.runtime.cluster_directory import cluster_identity
from holdfast.runtime.cluster_sharing_place import ClusterSharingPlace
from holdfast.runtime.result_book import KeptResult, ProductionFacts
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.reading.webhdfs import read_root
from holdfast.version import __version__
from tests.catalog import results as cataloged
from tests.catalog.programs import keep, written
from tests.taskexecutor.callers import Caller, write

DATASET = IntermediateDataSetID("1" * 64)
DIGEST = "d" * 64
LIFETIME = 600.0
FACTS = ProductionFacts(
    is_checkable=True,
    seconds=12.0,
    made_from=MadeFrom((FileVersion("file:/orders.parquet", 1, 2),)),
)
_HOST = "127.0.0.1"


@dataclass
class SharingProgram:
    """One program: its book, its storage and its view of the catalog."""

    book: SharedResults
    storage: TaskExecutorStorage
    catalog: Catalog
    place: ClusterSharingPlace

    @classmethod
    def on(cls, url: str, address: str, token: str, lease_seconds: float = 600.0) -> SharingProgram:
        storage = TaskExecutorStorage(
            {address: RemoteTaskExecutor(address, token)},
            ApplicationID.random(),
            lease_seconds=lease_seconds,
            heartbeat_seconds=0.2,
            version=__version__,
        )
        database = CatalogDatabase(url)
        place = ClusterSharingPlace(
            storage, database.identity, lambda where, whose: read_root(where, token, whose)
        )
        identity = ProgramIdentity(storage.application, "ana", ("staff",), "node-1", os.getpid())
        catalog = Catalog(database, place.identity, lambda: "e" * 64, identity, lease_seconds)
        policy = SharingPolicy(
            Audience.USER, lambda kept: None, lambda paths: None, lambda digest: True
        )
        book = SharedResults(
            GuardedCatalog(lambda: catalog, catalog.database.is_there, lease_seconds), place, policy
        )
        return cls(book, storage, catalog, place)

    def produce(
        self,
        values: Sequence[int] = (1, 2),
        lifetime: float | None = LIFETIME,
        dataset_id: IntermediateDataSetID = DATASET,
    ) -> KeptResult:
        """A job that keeps a result: of each value a partition."""
        partitions = [[value] * 3 for value in values]

        def write() -> KeptDataSet:
            return written(self.storage, dataset_id, partitions, _HOST)

        return keep(self.book, dataset_id, DIGEST, write, replace(FACTS, lifetime=lifetime))

    def read(self, dataset_id: IntermediateDataSetID = DATASET) -> list[int] | None:
        """A job that reads a result: its values, or None where it isn't kept."""
        with self.book.reading() as lease:
            result = lease.acquire(dataset_id)
            return None if result is None else rows(result.kept)

    def close(self) -> None:
        self.book.close()
        self.storage.close()
        self.catalog.database.close()


StartProgram = Callable[..., SharingProgram]


def rows(kept: KeptDataSet) -> list[int]:
    """What Spark would read."""
    found: list[int] = []
    for location in kept.locations:
        address, _, path = location.removeprefix("webhdfs://").partition("/")
        url = f"http://{address}/webhdfs/v1/{path}?op=OPEN&offset=0"
        with urllib.request.urlopen(url) as response:
            table = pyarrow.parquet.read_table(io.BytesIO(response.read()))
        found += table.column("a").to_pylist()
    return sorted(found)


def held_files(directory: Path, application: str = "*") -> list[Path]:
    """The published partitions on an executor; what vanishes meanwhile is passed over."""
    found = (
        Path(folder, name)
        for datasets in directory.glob(f"application-{application}/datasets")
        for folder, _, names in os.walk(datasets)
        for name in names
    )
    return sorted(path for path in found if path.name.startswith("part-"))


def keep_in_parts(gateways: Sequence[RemoteTaskExecutor], url: str, number: int) -> str:
    """A program keeps a result with a partition on each of two executors, and ends; its name."""
    output, database = OutputID(DATASET, "0badcafe"), CatalogDatabase(url)
    identity, parts = database.identity(), []
    callers = [Caller(gateway).connect() for gateway in gateways]
    for index, caller in enumerate(callers):
        write(caller.open(output), index)
        (part,) = caller.finish(output, [index], number)
        caller.promote(output, (part,))
        parts.append(part)
    whole = cataloged.kept(DATASET)
    manifest = whole.manifest.model_copy(update={"partitions": tuple(parts)})
    made = cataloged.produced(
        DATASET, kept=whole.model_copy(update={"manifest": manifest}), lifetime=LIFETIME
    )
    program = this_program(ApplicationID.random())
    result = ResultRecord.of(made, program, "e" * 64).model_dump_json()
    for caller in callers:
        caller.gateway.hold_output(caller.application, output, identity, result)
        caller.gateway.unregister_application(caller.application)
    database.close()
    return output.name


def holders_recorded(
    gateways: Sequence[RemoteTaskExecutor], url: str, name: str
) -> list[tuple[int, str]]:
    """Where the catalog has each partition of the result: its index, and the executor's host."""
    database = CatalogDatabase(url)
    storage = cluster_identity([gateway.describe().executor_id for gateway in gateways])
    program = this_program(ApplicationID.random())
    catalog = Catalog(database, lambda: storage, lambda: "e" * 64, program, 60.0)
    kept = catalog.search.find([DATASET])[DATASET].kept
    database.close()
    assert kept.name == name
    return [(part.index, kept.directories[holder].split("/")[2]) for part, holder in kept.placed]


def main(url: str, address: str, token: str, seed: str | None, has_kept: Event) -> None:
    """Keeps a result for ten minutes, and waits; with a seed it keeps others without an end."""
    program = SharingProgram.on(url, address, token, lease_seconds=5.0)
    if seed is None:
        program.produce()
        has_kept.set()
        time.sleep(600)
    for number in itertools.count():
        dataset_id = IntermediateDataSetID(hashlib.sha256(f"{seed} {number}".encode()).hexdigest())
        with suppress(StorageError):
            program.produce(dataset_id=dataset_id)
        has_kept.set()
