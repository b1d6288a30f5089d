"""A catalog as it looks after months: very many results of several users, made in a moment."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from tests.catalog.results import publish_in, use_in

_DAY = 86_400.0
_USERS = ("ana", "bo", "cleo")
_TABLES = ("orders", "lineitem", "customers", "visits", "clicks", "rates")
_OPERATORS = ("Aggregate", "Filter", "Join", "Window", "Distinct")


def fill(root: Path, number: int, seed: int = 7) -> None:
    """Records results in the catalog of a storage directory, which need not be there: like one that
    is published and used.
    """
    root.mkdir(parents=True, exist_ok=True)
    publish_in(root, is_shared=True, lifetime=7 * _DAY)
    use_in(root)
    rng = Random(seed)
    with closing(sqlite3.connect(root / "catalog" / "catalog.db")) as connection, connection:
        connection.row_factory = sqlite3.Row
        (result,), (use,), (day,) = (
            map(dict, connection.execute(f"SELECT * FROM {table} LIMIT 1"))
            for table in ("results", "uses", "days")
        )
        results = [_result(rng, place, result) for place in range(1, number)]
        _insert(connection, "results", results)
        kept = [each for each in results if each["state"] == "kept"]
        holders = [
            # The catalog itself holds it.
            {"result": each["number"], "application": "", "until": each["last_used"] + 7 * _DAY}
            for each in kept
        ]
        _insert(connection, "holders", holders)
        of_users = ("application", "user_name")
        uses = [
            {key: value for key, value in use.items() if key != "number"}
            | {"result": each["number"], "used": each["last_used"]}
            | {key: each[key] for key in of_users}
            for each in results[::2]
        ]
        _insert(connection, "uses", uses)
        days = [
            day
            | {"day": day["day"] - back, "user_name": user}
            | {"uses": rng.randrange(1000), "saved_seconds": rng.random() * 9000}
            for back in range(60)
            for user in _USERS
        ]
        _insert(connection, "days", days)


def _insert(connection: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        names = ", ".join(rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", rows)


def _result(rng: Random, place: int, like: dict[str, Any]) -> dict[str, Any]:
    dataset = hashlib.sha256(f"{place}".encode()).hexdigest()
    name = f"{dataset}-{place:08x}"
    created = like["created"] - rng.random() * 30 * _DAY
    last = created + rng.random() * (like["created"] - created)
    operators = ", ".join(rng.sample(_OPERATORS, 2))
    is_gone = rng.random() < 0.1
    return like | {
        "number": like["number"] + place,
        "dataset_id": dataset,
        "digest": dataset[::-1],
        "name": name,
        "state": "gone" if is_gone else "kept",
        "computes": f"{operators} over {rng.choice(_TABLES)}, {rng.choice(_TABLES)}_{place % 997}",
        "directories": json.dumps([f"/kept/{name}"]),
        "audience": rng.choice(("user", "group", "all")),
        "user_name": rng.choice((*_USERS, "root")),
        "host": f"worker-{place % 9}",
        "application": f"{place % 500:032x}",
        "bytes": int(rng.paretovariate(0.6) * 100_000),
        "row_count": rng.randrange(10**7),
        "seconds": rng.random() * 300,
        "created": created,
        "uses": rng.randrange(40),
        "saved_seconds": rng.random() * 5000,
        "used": json.dumps([last]),
        "last_used": last,
        "why_gone": "evicted to make room" if is_gone else None,
        "gone": last if is_gone else None,
        "shape": dataset,
    }
