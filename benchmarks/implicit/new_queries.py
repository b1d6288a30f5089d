"""What queries take that have nothing in common with others, so that they gain nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

from pyspark.sql import SparkSession

from benchmarks import tpch
from benchmarks.attach.sides import Sides, cpu_seconds, seconds
from benchmarks.figure import Figure
from benchmarks.implicit import recurring
from benchmarks.implicit.workload import Query

_WARM_UPS = 24
# As many are asked without a pause.
_IN_A_ROW = 25
_RATIO, _MEDIAN_MS, _TENTH_MS = 1.05, 30.0, 200.0
_MS = 1_000

Row = Sequence[Query]
T = TypeVar("T")


def figures(both: Sides, tables: Path, seed: int) -> list[Figure]:
    """What each of a hundred queries takes; and what they take when one is asked after the other.

    What is learned in the background has ended before plain Spark's turn. In a row of queries it
    goes on beside the next ones, and the row's end waits for it.

    Args:
        both: the sessions.
        tables: TPC-H's.
        seed: of the queries.
    """
    for session in (both.plain, both.attached):
        tpch.register(session, tables)
    warm_ups = [recurring.nothing_repeats(seed, turn)[-_WARM_UPS:] for turn in (0, 1)]
    _by_turns(both, *([[each] for each in row] for row in warm_ups), seconds)
    one, other = ([[each] for each in recurring.nothing_repeats(seed, turn)] for turn in (2, 3))
    found = _of_each(*_by_turns(both, one, other, seconds))
    in_rows = (_rows(recurring.nothing_repeats(seed, turn)) for turn in (4, 5))
    of_plain, of_ours = _by_turns(both, *in_rows, _seconds_and_cpu)
    for index, what in enumerate(("time", "CPU time")):
        plain, ours = (sum(row[index] for row in side) for side in (of_plain, of_ours))
        what = f"nothing repeats: {what} of all queries in rows of {_IN_A_ROW} / plain"
        took = f"{ours:.1f} s / {plain:.1f} s"
        found.append(Figure(what, (ours / plain,), "ratio", _RATIO, False, took))
    return found


def _seconds_and_cpu(step: Callable[[], object]) -> tuple[float, float]:
    cpu: list[float] = []
    return seconds(lambda: cpu.append(cpu_seconds(step))), cpu[0]


def _rows(queries: Row) -> list[Row]:
    starts = range(0, len(queries), _IN_A_ROW)
    return [queries[start : start + _IN_A_ROW] for start in starts]


def _by_turns(
    both: Sides,
    plain: Sequence[Row],
    ours: Sequence[Row],
    measured: Callable[[Callable[[], object]], T],
) -> tuple[list[T], list[T]]:
    """What rows of queries take on either side."""
    times: tuple[list[T], list[T]] = ([], [])

    def taken(session: SparkSession, row: Row) -> T:
        def asked() -> None:
            for query in row:
                session.sql(query.sql).collect()
            if len(row) > 1:
                _learned(both)

        took = measured(asked)
        _learned(both)
        return took

    for number, rows in enumerate(zip(plain, ours, strict=True)):
        turns = list(zip(times, (both.plain, both.attached), rows, strict=True))
        # What comes second finds files and classes warm.
        for side, session, row in turns if number % 2 else reversed(turns):
            side.append(taken(session, row))
        print(rows[0][0].name, times[0][-1], times[1][-1], file=sys.stderr)
    return times


def _learned(both: Sides) -> None:
    recurring_results = both.attached.holdfast._implicit.recurring
    if recurring_results is not None:
        recurring_results.learn_all()


def _of_each(plain: Sequence[float], ours: Sequence[float]) -> list[Figure]:
    pairs = list(zip(ours, plain, strict=True))
    what = f"nothing repeats: of {len(pairs)} queries"
    medians = f"{_MS * median(ours):,.0f} ms / {_MS * median(plain):,.0f} ms"
    ratios = [one / other for one, other in pairs]
    longer = [_MS * (one - other) for one, other in pairs]
    *_, tenth = quantiles(longer, n=10)
    return [
        Figure(f"{what} the median / plain", (median(ratios),), "ratio", _RATIO, False, medians),
        Figure(f"{what} the median less plain", (median(longer),), "ms", _MEDIAN_MS, False),
        Figure(f"{what} one in ten takes longer by", (tenth,), "ms", _TENTH_MS, False),
    ]
