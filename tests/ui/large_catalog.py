"""A catalog as it looks after months: very many results of several users, made in a moment."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_scope import THE_CATALOG
from holdfast.catalog.schema import DAYS, HOLDERS, RESULTS, USES
from holdfast.cli.catalog_access import catalog_in
from holdfast.files.directory_identity import directory_identity

_DAY = 86_400.0
_TABLES = ("orders", "lineitem", "customers", "visits", "clicks", "rates")
_OPERATORS = ("Aggregate", "Filter", "Join", "Window", "Distinct")


def fill(root: Path, number: int, seed: int = 7) -> None:
    """Records results in the catalog of a storage directory, which need not be there."""
    root.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    with catalog_in(root, make=True) as catalog:
        assert catalog is not None
        with catalog.database.reading() as connection:
            now = catalog.database.now(connection)
        storage = directory_identity(root)
        _insert(catalog, [_row(rng, place, now, storage) for place in range(number)], rng)
        with catalog.database.writing() as connection:
            connection.execute(
                DAYS.insert(),
                [
                    {
                        "day": int(now // _DAY) - back,
                        "user_name": user,
                        "uses": rng.randrange(1000),
                        "read_bytes": rng.randrange(10**11),
                        "saved_seconds": rng.random() * 9000,
                        "kept": rng.randrange(200),
                        "kept_bytes": rng.randrange(10**10),
                        "produced_seconds": rng.random() * 4000,
                    }
                    for back in range(60)
                    for user in ("ana", "bo", "cleo")
                ],
            )


def _row(rng: Random, place: int, now: float, storage: str) -> dict[str, object]:
    dataset = hashlib.sha256(f"{place}".encode()).hexdigest()
    created = now - rng.random() * 30 * _DAY
    last = created + rng.random() * (now - created)
    operators = ", ".join(rng.sample(_OPERATORS, 2))
    is_gone = rng.random() < 0.1
    return {
        "storage": storage,
        "environment": "e" * 64,
        "dataset_id": dataset,
        "digest": dataset[::-1],
        "name": f"{dataset}-{place:08x}",
        "state": "gone" if is_gone else "kept",
        "computes": f"{operators} over {rng.choice(_TABLES)}, {rng.choice(_TABLES)}_{place % 997}",
        "directories": json.dumps([f"/kept/{dataset}-{place:08x}"]),
        "is_shared": 1,
        "audience": rng.choice(("user", "group", "all")),
        "user_name": rng.choice(("ana", "bo", "cleo", "root")),
        "group_name": "staff",
        "host": f"worker-{place % 9}",
        "application": f"{place % 500:032x}",
        "bytes": int(rng.paretovariate(0.6) * 100_000),
        "row_count": rng.randrange(10**7),
        "partitions": rng.randrange(1, 64),
        "seconds": rng.random() * 300,
        "cpu_seconds": rng.random() * 900,
        "created": created,
        "lifetime": 7 * _DAY,
        "uses": rng.randrange(40),
        "saved_seconds": rng.random() * 5000,
        "used": json.dumps([last]),
        "last_used": last,
        "why_gone": "evicted to make room" if is_gone else None,
        "gone": last if is_gone else None,
        "shape": dataset,
    }


def _insert(catalog: Catalog, rows: list[dict[str, object]], rng: Random) -> None:
    with catalog.database.writing() as connection:
        connection.execute(RESULTS.insert(), rows)
        datasets = [row["dataset_id"] for row in rows]
        recorded = connection.execute(RESULTS.select().where(RESULTS.c.dataset_id.in_(datasets)))
        numbers = {row.name: row.number for row in recorded}
        connection.execute(
            HOLDERS.insert(),
            [
                {
                    "result": numbers[row["name"]],
                    "application": THE_CATALOG,
                    "until": float(str(row["last_used"])) + 7 * _DAY,
                }
                for row in rows
                if row["state"] == "kept"
            ],
        )
        connection.execute(
            USES.insert(),
            [
                {
                    "result": numbers[row["name"]],
                    "application": row["application"],
                    "user_name": row["user_name"],
                    "used": row["last_used"],
                    "saved_seconds": row["seconds"],
                }
                for row in rows
                if rng.random() < 0.5
            ],
        )
