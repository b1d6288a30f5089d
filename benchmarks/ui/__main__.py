"""`python -m benchmarks.ui`: how soon the page answers, among very many results and jobs."""

from __future__ import annotations

import argparse
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import figure_report
from benchmarks.figure import Figure
from holdfast.cli.catalog_access import catalog_in
from tests.catalog.results import produced, unlimited
from tests.ui.large_catalog import fill
from tests.ui.recorded_jobs import record_many

_PAGES = ("/", "/results", "/jobs", "/advice", "/why")
_FIRST_MS, _FILTER_MS, _LIVE_MS, _MOST_MB = 200.0, 150.0, 1000.0, 150.0
_EVENTS = 20
_KB = 1000


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-ui", description=__doc__)
    parser.add_argument("--results", type=int, default=100_000, help="how many there are")
    parser.add_argument("--jobs", type=int, default=10_000, help="how many are recorded")
    parser.add_argument("--requests", type=int, default=100, help="of each kind")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        fill(home / "kept", arguments.results)
        record_many(home / "jobs", arguments.jobs)
        made_from = f"{arguments.results:,} results, {arguments.jobs:,} jobs"
        with _served(home) as (process, url):
            for path in _PAGES:
                times = _times(arguments.requests, lambda path=path: _ask(url + path))
                figures.append(_figure(f"{path}, p95", times, _FIRST_MS, made_from))
            queries = _queries(arguments.requests)
            times = _times(arguments.requests, lambda: _ask(f"{url}/results?{next(queries)}"))
            figures.append(_figure("any filter of results, p95", times, _FILTER_MS, made_from))
            states = ("running", "ended", "recoverable", "damaged", "")
            turn = iter(range(10**9))
            times = _times(
                arguments.requests,
                lambda: _ask(f"{url}/jobs?text=job+{next(turn)}&state={states[next(turn) % 5]}"),
            )
            figures.append(_figure("any filter of jobs, p95", times, _FILTER_MS, made_from))
            figures.append(_figure("live event, p95", _live(home, url), _LIVE_MS, made_from))
            figures.append(
                Figure("memory", (_memory(process.pid),), "MB", _MOST_MB, False, made_from)
            )
    figure_report.write(figures, arguments.output / "ui.json")
    return 0


@contextmanager
def _served(home: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    arguments = ["--directory", str(home / "kept"), "--storage-dir", str(home / "jobs")]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "ui", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().rpartition(" at ")[2].strip().rstrip("/")
    finally:
        process.terminate()
        process.wait()


def _ask(url: str) -> None:
    with urllib.request.urlopen(url, timeout=60) as answer:
        answer.read()


def _times(number: int, ask: Callable[[], None]) -> list[float]:
    """How long each takes, in milliseconds; the very first one counts."""
    times = []
    for _ in range(number):
        begun = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begun) * 1000)
    return times


def _figure(what: str, times: Sequence[float], target: float, made_from: str) -> Figure:
    p95 = statistics.quantiles(times, n=20)[-1]
    return Figure(what, (p95,), "ms", target, False, f"{len(times)} times, {made_from}")


def _queries(seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    texts = ("", "join", "visits_9", "nothing like this", "worker-3", "over clicks", "%")
    sorts = ("computes", "owner", "created", "used", "uses", "size", "rows", "cost", "saved")
    while True:
        yield urllib.parse.urlencode(
            {
                "text": rng.choice(texts),
                "owner": rng.choice(("", "", "ana", "bo")),
                "state": rng.choice(("kept", "kept", "gone", "all")),
                "sort": rng.choice(sorts),
                "order": rng.choice(("up", "down")),
                "page": rng.choice((1, 1, 2, 30)),
            }
        )


def _live(home: Path, url: str) -> list[float]:
    """How long it takes from the publication of a result until the page is told, in ms."""
    told: queue.SimpleQueue[float] = queue.SimpleQueue()

    def listen() -> None:
        with urllib.request.urlopen(f"{url}/events", timeout=60) as stream:
            told.put(0.0)
            for line in stream:
                if line.startswith(b"event: happening"):
                    told.put(time.perf_counter())

    threading.Thread(target=listen, daemon=True).start()
    told.get()
    # What has happened before is not told.
    time.sleep(2)
    times = []
    with catalog_in(home / "kept") as catalog:
        assert catalog is not None
        for number in range(_EVENTS):
            time.sleep(0.1 + number * 0.037 % 0.5)
            catalog.publications.publish(produced(), None, unlimited)
            begun = time.perf_counter()
            times.append((told.get(timeout=30) - begun) * 1000)
    return times


def _memory(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    [line] = [each for each in status.splitlines() if each.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / _KB**2


if __name__ == "__main__":
    sys.exit(main())
