"""Looking up the digests of one plan among very many results."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Iterator
from typing import Any

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_scope import THE_CATALOG
from holdfast.catalog.cataloged_result import Audience, ProgramIdentity, ResultState
from holdfast.catalog.schema import HOLDERS, RESULTS
from holdfast.ids import ApplicationID, IntermediateDataSetID

STORAGE = "5" * 32
DIGESTS = 200
_KEPT = 5
_BATCH = 20_000


def fill(database: CatalogDatabase, results: int) -> None:
    """Records results that stay.

    Args:
        database: an empty catalog.
        results: how many.
    """
    now = time.time()
    for first in range(0, results, _BATCH):
        numbers = range(first, min(results, first + _BATCH))
        with database.writing() as connection:
            connection.execute(RESULTS.insert(), [_row(number, now) for number in numbers])
            holders = [
                {"result": number + 1, "application": THE_CATALOG, "until": now + 1e6}
                for number in numbers
            ]
            connection.execute(HOLDERS.insert(), holders)


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


def _row(number: int, now: float) -> dict[str, Any]:
    dataset_id = _dataset(number)
    return {
        "storage": STORAGE,
        "environment": "e" * 64,
        "dataset_id": dataset_id,
        "digest": dataset_id,
        "shape": dataset_id,
        "name": f"{dataset_id}-00000000",
        "state": ResultState.KEPT.value,
        "computes": "Aggregate, Join over customer.parquet, orders and 2 more",
        "directories": json.dumps([f"/kept/shared/datasets/{dataset_id}-00000000"]),
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
        "cpu_seconds": None,
        "created": now,
        "lifetime": 1e6,
        "uses": 0,
        "saved_seconds": 0.0,
        "used": json.dumps([now]),
        "why_gone": None,
    }
