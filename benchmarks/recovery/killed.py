"""What a second start takes when the first one was killed half-way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import tpch
from benchmarks.figure import Figure
from benchmarks.recovery.overhead import MEDIAN_TARGET, WORST_TARGET
from benchmarks.recovery.session import Where

FRACTIONS = (0.25, 0.5, 0.75)
MEDIAN_MARGIN = 0.10
WORST_MARGIN = 0.25
_HEAVY = "q01 q03 q04 q05 q07 q08 q09 q10 q12 q17 q18 q21"
HEAVY = tuple(_HEAVY.split())
"""Queries that take long enough to be killed in."""

_SECONDS = 900
_LITTLE = 0.01


@dataclass(frozen=True)
class _Place:
    data: Path
    little: Path
    home: Path
    where: Where

    def run(self, query: str, way: str, dying: float | None = None) -> dict[str, Any] | None:
        """Runs a program; returns what it told, or None where it has killed itself."""
        command = [
            *(sys.executable, "-m", "benchmarks.recovery.killed_program", query),
            *("--data", str(self.data), "--little", str(self.little)),
            *("--home", str(self.home), "--way", way),
            *("--where", str(self.where)),
            *(() if dying is None else ("--die-after", str(dying))),
        ]
        ended = subprocess.run(
            command,
            env=os.environ | self.where.environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            start_new_session=True,
        )
        if ended.returncode == -signal.SIGKILL:
            return None
        assert ended.returncode == 0, ended.stderr
        told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return told


def measure(
    data: Path,
    home: Path,
    queries: Sequence[str],
    rounds: int,
    progress: Callable[[str], None],
    where: Where,
    fractions: Sequence[float] = FRACTIONS,
    median_margin: float = MEDIAN_MARGIN,
) -> list[Figure]:
    """Kills jobs when a fraction of their task time is done, and starts them a second time.

    Times are from the making of the environment to the rows, so that waiting counts. Each process
    has run the query before, several times over little data and then over all of it, so that it
    plans and reads as one does that has run for hours.

    Args:
        data: the directory of TPC-H's tables.
        home: what is kept and recorded goes here.
        queries: names of queries.
        rounds: how many are counted.
        progress: is told what goes on.
        where: the programs run there.
        fractions: of the task time, when programs are killed.
        median_margin: by how much a second start may take longer than what was left to do.

    Returns:
        a figure for each query and fraction, for each fraction the median and the worst of all
        queries, and what recovery cost where nothing was killed.

    Raises:
        AssertionError: when a second start gives other rows.
    """
    figures: list[Figure] = []
    over_all: dict[float, list[float]] = {fraction: [] for fraction in fractions}
    overheads: list[float] = []
    little = tpch.generate(home, _LITTLE)
    for query in queries:
        ratios: dict[float, list[float]] = {fraction: [] for fraction in fractions}
        sides: dict[float, str] = {}
        overhead: list[float] = []
        for number in range(rounds):
            place = _Place(data, little, home / f"{query}-{number}", where)
            place.home.mkdir(parents=True)
            plain = place.run(query, "plain")
            full = place.run(query, "recovery")
            by_hand = place.run(query, "checkpoint")
            assert plain and full and by_hand
            assert plain["rows"] == full["rows"] == by_hand["rows"]
            overhead.append(full["seconds"] / plain["seconds"])
            progress(
                f"{query}: plain {plain['seconds']:.1f} s, recovery {full['seconds']:.1f} s, "
                f"checkpoint() {by_hand['seconds']:.1f} s"
            )
            for fraction in fractions:
                died = place.run(query, "recovery", fraction * full["task_seconds"])
                if died is not None:
                    progress(f"{query} ended before {fraction:.0%} of its task time was seen")
                    continue
                second = place.run(query, "recovery")
                assert second is not None and second["rows"] == plain["rows"]
                ratio = second["seconds"] / full["seconds"]
                ratios[fraction].append(ratio)
                recovered = second["vertices"].count("recovered")
                sides[fraction] = (
                    f"{second['seconds']:.1f} s / {full['seconds']:.1f} s, "
                    f"{recovered} recovered of {len(full['vertices']) - 1}; "
                    f"with checkpoint() {by_hand['seconds']:.1f} s, and all again"
                )
                progress(f"{query} killed at {fraction:.0%}: {ratio:.2f}, {sides[fraction]}")
            shutil.rmtree(place.home)
        for fraction, found in ratios.items():
            if found:
                over_all[fraction].append(statistics.median(found))
                figures.append(_figure(query, fraction, found, WORST_MARGIN, sides[fraction]))
        overheads.append(statistics.median(overhead))
    count = f"the medians of {len(queries)} queries"
    for fraction, medians in over_all.items():
        if medians:
            figures.append(_figure("median", fraction, medians, median_margin, count))
            figures.append(_figure("worst", fraction, [max(medians)], WORST_MARGIN, count))
    return [
        *figures,
        _overhead("median", overheads, MEDIAN_TARGET, count),
        _overhead("worst", [max(overheads)], WORST_TARGET, count),
    ]


def _figure(
    query: str, fraction: float, ratios: Sequence[float], margin: float, sides: str
) -> Figure:
    what = f"{query} killed at {fraction:.0%}: second start / full job"
    return Figure(what, tuple(ratios), "ratio", 1 - fraction + margin, False, sides)


def _overhead(query: str, ratios: Sequence[float], target: float, sides: str) -> Figure:
    what = f"{query} not killed: with recovery / plain Spark"
    return Figure(what, tuple(ratios), "ratio", target, False, sides)
