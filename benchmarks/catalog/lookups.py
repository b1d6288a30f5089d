"""Looking up the digests of one plan among very many results."""

from __future__ import annotations

import hashlib
import json
import random
import time
import uuid
from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, cast, func, literal, select, text

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_scope import THE_CATALOG
from holdfast.catalog.catalog_url import SQLITE
from holdfast.catalog.cataloged_result import (
    MadeFrom,
    ProgramIdentity,
    ResultState,
)
from holdfast.catalog.records import checksum, packed, packed_sources, packed_statistics
from holdfast.catalog.schema import HOLDERS, MANIFESTS, RESULTS
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import (
    DataSetDescription,
    KeptDataSet,
    KeptPartition,
    Manifest,
)

STORAGE = "5" * 32
DIGESTS = 200
_KEPT = 5


def fill(database: CatalogDatabase, results: int) -> None:
    """Records results that stay.

    The database makes them itself, of one row, and the indexes at the end: a million rows that came
    one by one would keep the benchmark waiting for long.

    Args:
        database: an empty catalog.
        results: how many.
    """
    now = time.time()
    series = select(literal(0).label("n")).cte("series", recursive=True)
    series = series.union_all(select(series.c.n + 1).where(series.c.n + 1 < results))
    made = select(series.c.n + 1, func.dataset_of(series.c.n)).cte("made")
    number, dataset_id = made.c
    indexes = [*RESULTS.indexes, *HOLDERS.indexes]
    with database.writing() as connection:
        _define_dataset_of(connection)
        for index in indexes:
            index.drop(connection)
        rows = {
            RESULTS: _row(number, dataset_id, now),
            HOLDERS: {"result": number, "application": THE_CATALOG, "until": now + 1e6},
            MANIFESTS: {"result": number, **_manifest()},
        }
        for table, row in rows.items():
            values = [
                # A parameter of a query that inserts has no type of its own to PostgreSQL.
                each if isinstance(each, ColumnElement) else cast(literal(each), table.c[key].type)
                for key, each in row.items()
            ]
            connection.execute(table.insert().from_select(list(row), select(*values)))
        for index in indexes:
            index.create(connection)
    if not database.is_file:
        # A server does so by itself in a while.
        with database.writing() as connection:
            connection.execute(text("ANALYZE"))


def _define_dataset_of(connection: Connection) -> None:
    """Has the database know `_dataset`."""
    if connection.dialect.name == SQLITE:
        driver: Any = connection.connection.driver_connection
        driver.create_function("dataset_of", 1, _dataset, deterministic=True)
        return
    # Programs give up sooner than a server has made so many rows.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    connection.execute(
        text(
            "CREATE FUNCTION dataset_of(number integer) RETURNS text IMMUTABLE "
            "RETURN encode(sha256(convert_to(number::text, 'UTF8')), 'hex')"
        )
    )


def measure(database: CatalogDatabase, results: int, rounds: int) -> Iterator[float]:
    """Looks up the digests of plans of which some nodes are kept.

    Args:
        database: a catalog that was filled.
        results: with how many.
        rounds: how often.

    Yields:
        how long each took, in seconds.
    """
    program = ProgramIdentity(ApplicationID.random(), "ana", ("staff",), "node-1", 1)
    catalog = Catalog(database, lambda: STORAGE, lambda: "e" * 64, program, 60.0)
    chosen = random.Random(1)
    for number in range(-10, rounds):
        kept = [_dataset(chosen.randrange(results)) for _ in range(_KEPT)]
        others = [_dataset(results + chosen.randrange(results)) for _ in range(DIGESTS - _KEPT)]
        asked = list(map(IntermediateDataSetID, chosen.sample(kept + others, DIGESTS)))
        started = time.perf_counter()
        found = catalog.search.find(asked)
        elapsed = time.perf_counter() - started
        assert {each.hex for each in found} == set(kept)
        if number >= 0:
            yield elapsed


def _dataset(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _manifest() -> dict[str, Any]:
    """As large as that of a result with a few partitions; all have the same."""
    partitions = tuple(
        KeptPartition(
            index=index,
            file=f"part-{index:05d}-{uuid.uuid4()}-c000.zstd.parquet",
            bytes=125_000 + index,
            rows=1_250,
            version=f"{index} {time.time_ns()}",
        )
        for index in range(8)
    )
    description = DataSetDescription(
        dataset_id=_dataset(0), computes="Aggregate", columns=(), spark_version="4.3.0"
    )
    kept = KeptDataSet(
        directories=(f"/kept/shared/datasets/{_dataset(0)}-00000000",),
        manifest=Manifest(created="2026-11-23", dataset=description, partitions=partitions),
        name=f"{_dataset(0)}-00000000",
    )
    files = (FileVersion("file:/data/customer.parquet", 1, 2, "inode 3"),)
    content = packed(kept)
    return {
        "checksum": checksum(content),
        "content": content,
        "made_from": packed_sources(MadeFrom(files, {"spark.sql.ansi.enabled": "true"})),
        "statistics": packed_statistics({"k": ColumnStatistics("1", "3", 0)}),
    }


def _row(number: ColumnElement[Any], dataset_id: ColumnElement[Any], now: float) -> dict[str, Any]:
    name = dataset_id.concat("-00000000")
    return {
        "number": number,
        "storage": STORAGE,
        "environment": "e" * 64,
        "dataset_id": dataset_id,
        "digest": dataset_id,
        "shape": dataset_id,
        "name": name,
        "state": ResultState.KEPT.value,
        "computes": "Aggregate, Join over customer.parquet, orders and 2 more",
        "directories": literal('["/kept/shared/datasets/').concat(name).concat('"]'),
        "is_shared": 1,
        "audience": Audience.USER.value,
        "user_name": "ana",
        "group_name": "staff",
        "host": "node-1",
        "application": "a" * 32,
        "bytes": 1_000_000,
        "row_count": 10_000,
        "partitions": 8,
        "seconds": 10.0,
        "cpu_seconds": 20.0,
        "created": now,
        "lifetime": 1e6,
        "uses": 0,
        "saved_seconds": 0.0,
        "used": json.dumps([now]),
    }
