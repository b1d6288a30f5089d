"""Says how what was measured compares with what was to be reached."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.datastream.jobs import CachedRDD, Streams, Timings
from benchmarks.datastream.memory import Peaks
from benchmarks.figure import Figure

_MEBIBYTE = 1 << 20
_MAY_GROW = 64.0


def against_rdd(timings: Timings) -> list[Figure]:
    """First and later jobs, in terms of the cached RDD's.

    Args:
        timings: of both.
    """
    ours, theirs = timings[Streams.name], timings[CachedRDD.name]
    first = [round_[0] for round_ in ours], [round_[0] for round_ in theirs]
    later = (
        [statistics.mean(round_[1:]) for round_ in ours],
        [statistics.mean(round_[1:]) for round_ in theirs],
    )
    return [
        _ratio("first job / the cached RDD's", *first, target=1.0),
        _ratio("a later job / the cached RDD's", *later, target=1.2),
    ]


def _ratio(what: str, ours: Sequence[float], theirs: Sequence[float], target: float) -> Figure:
    ratios = tuple(our / their for our, their in zip(ours, theirs, strict=True))
    sides = f"{statistics.median(ours):.3f} s, {statistics.median(theirs):.3f} s"
    return Figure(what, ratios, "ratio", target, at_least=False, sides=sides)


def against_flink(timings: Timings, theirs: Sequence[float] | None) -> list[Figure]:
    """How many times as fast a later job is as PyFlink's fastest one.

    Args:
        timings: of both ways on Spark.
        theirs: seconds of each of PyFlink's jobs; None where it didn't run.
    """
    if theirs is None:
        return []
    # PyFlink's second job may compute what it has kept once more, so its best one is taken.
    best = min(theirs[1:])
    ours = [statistics.mean(round_[1:]) for round_ in timings[Streams.name]]
    shown = ", ".join(f"{seconds:.1f}" for seconds in theirs)
    sides = f"PyFlink's jobs: {shown} s; ours {statistics.median(ours):.3f} s"
    ratios = tuple(best / our for our in ours)
    return [Figure("PyFlink's fastest later job / a later job", ratios, "ratio", 40.0, True, sides)]


def of_memory(peaks: tuple[Peaks, Peaks]) -> list[Figure]:
    """By how many MiB each kind of process has grown with ten times as many records.

    Args:
        peaks: of a tenth of the records, and of all of them.
    """
    tenth, all_ = peaks
    figures = []
    for kind, most in all_.bytes.items():
        before = tenth.bytes[kind]
        sides = (
            f"{before / _MEBIBYTE:,.0f} MiB with {tenth.records:,} records, "
            f"{most / _MEBIBYTE:,.0f} MiB with {all_.records:,}"
        )
        grown = (most - before) / _MEBIBYTE
        figures.append(Figure(f"growth of {kind}", (grown,), "MiB", _MAY_GROW, False, sides))
    return figures
