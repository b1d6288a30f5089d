"""Many processes that need one missing result at the same time."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.result_book import Claim, ProductionFacts
from tests.catalog.programs import book_of, written

_LEASE_SECONDS = 60.0
_STORAGE = "5" * 32


@dataclass(frozen=True, slots=True)
class Round:
    """What became of one result.

    Attributes:
        producers: how many processes have produced it.
        produced: how long the first one of them took, in seconds.
        waited: how long the one that waited for longest had to, in seconds.
        answers: how many processes have it in the end.
    """

    producers: int
    produced: float
    waited: float
    answers: int


def measure(url: str, processes: int, rounds: int, seconds: float) -> Iterator[Round]:
    """Has processes ask for one result after the other, all at once.

    Args:
        url: of an empty catalog.
        processes: how many.
        rounds: how many results.
        seconds: how long each takes to produce.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    barrier, answers = context.Barrier(processes), context.Queue()
    with tempfile.TemporaryDirectory(prefix="stampede-") as home:
        running = [
            context.Process(
                target=_ask, args=(url, home, rounds, seconds, barrier, answers), daemon=True
            )
            for _ in range(processes)
        ]
        for process in running:
            process.start()
        for _ in range(rounds):
            found = [answers.get(timeout=600) for _ in range(processes)]
            produced = [seconds for is_producer, seconds, _ in found if is_producer]
            yield Round(
                len(produced),
                min(produced, default=0.0),
                max((seconds for is_producer, seconds, _ in found if not is_producer), default=0.0),
                sum(has_it for _, _, has_it in found),
            )
        for process in running:
            process.join()


def _ask(url: str, home: str, rounds: int, seconds: float, barrier: Barrier, answers: Any) -> None:
    book, storage, _ = book_of(Path(home), url)
    for number in range(rounds):
        dataset_id = IntermediateDataSetID(f"{number:064x}")
        barrier.wait()
        started = time.perf_counter()
        claim = book.claim(dataset_id, dataset_id.hex, alone=False)
        if isinstance(claim, Claim):
            time.sleep(seconds)
            facts = ProductionFacts(is_checkable=True, seconds=seconds)
            kept = written(storage, dataset_id, [list(range(1000))] * 4)
            book.release([book.commit(claim, kept, wanted=True, facts=facts)])
        elapsed = time.perf_counter() - started
        has_it = dataset_id in book.find([dataset_id])
        answers.put((isinstance(claim, Claim), elapsed, has_it))
        # Nobody ends, and takes its results along, before all have asked for them.
        barrier.wait()
    book.close()
    storage.close()
