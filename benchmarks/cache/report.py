"""Says how the measurements compare with what was to be reached, as a table, JSON and a picture."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from rich.console import Console
from rich.table import Table

from benchmarks.cache.keeping import FIRST_JOB, KEPT_ALONE, Timings
from benchmarks.cache.planning import SIZES, PlanningTime
from benchmarks.cache.questions import QUESTIONS, Kind

PERSIST = "persist(MEMORY_AND_DISK)"
BY_HAND = "Parquet by hand"
PLAIN = "plain Spark"
TWO_JOBS = "Holdfast in two jobs"
OURS = "Holdfast"


_BY_HAND = {Kind.BROAD: 1.05, Kind.SELECTIVE: 1.12, Kind.NARROW: 1.2}
_TARGETS: list[tuple[str, str, str, float]] = [
    *(
        (f"first job / {other}", FIRST_JOB, other, target)
        for other, target in {PERSIST: 0.6, PLAIN: 1.5, TWO_JOBS: 0.75, BY_HAND: 1.1}.items()
    ),
    (f"kept alone / {BY_HAND}", KEPT_ALONE, BY_HAND, 1.05),
    *(
        (
            f"{question.name} ({question.kind.value}) / {PERSIST}",
            question.name,
            PERSIST,
            0.9 if question.kind is Kind.BROAD else 0.5,
        )
        for question in QUESTIONS
    ),
    *(
        (
            f"{question.name} ({question.kind.value}) / {BY_HAND}",
            question.name,
            BY_HAND,
            _BY_HAND[question.kind],
        )
        for question in QUESTIONS
    ),
]
"""What is said of it, a measure, the way that Holdfast is compared with, at most."""


@dataclass(frozen=True)
class Verdict:
    """A ratio that was to be reached.

    Attributes:
        what: what was compared.
        ratio: the median of the rounds' ratios.
        target: what it was to be at most.
    """

    what: str
    ratio: float
    target: float

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.ratio <= self.target


def verdicts(timings: Timings) -> list[Verdict]:
    """Every ratio of keeping and asking that has a target, of the ways that were measured."""
    return [
        Verdict(what, _ratio(timings, measure, other), target)
        for what, measure, other, target in _TARGETS
        if {OURS, other} <= timings[measure].keys()
    ]


def planning_verdicts(times: list[PlanningTime]) -> list[Verdict]:
    """Every ratio of planning that has a target."""
    tpch = [time for time in times if time.query.startswith("q")]
    judged = [
        Verdict(
            "planning of the 22 queries / Spark's",
            sum(time.holdfast for time in tpch) / sum(time.spark for time in tpch),
            0.3,
        )
    ]
    longest = next(time for time in times if time.query == f"{SIZES[-1]} operators")
    judged.append(Verdict(f"planning of {longest.query} / Spark's", longest.ratio, 0.3))
    shorter = next(time for time in times if time.query == f"{SIZES[-2]} operators")
    growth = (longest.holdfast / shorter.holdfast) / (SIZES[-1] / SIZES[-2])
    judged.append(Verdict(f"growth from {shorter.query} to {longest.query} / linear", growth, 1.1))
    return judged


def _ratio(timings: Timings, measure: str, other: str) -> float:
    pairs = zip(timings[measure][OURS], timings[measure][other], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def write(
    timings: Timings, planning: list[PlanningTime], rounds: int, directory: Path, scale: float
) -> None:
    """Prints the tables and writes `bench-cache.json` and `bench-cache.png`."""
    console = Console(width=140)
    judged = (verdicts(timings) if timings else []) + (
        planning_verdicts(planning) if planning else []
    )
    if timings:
        console.print(_timing_table(timings, rounds, scale))
    if planning:
        console.print(_planning_table(planning))
    console.print(_verdict_table(judged))
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "bench-cache.json").write_text(
        json.dumps(
            {
                "scale": scale,
                "rounds": rounds,
                "seconds": timings,
                "planning": [asdict(time) for time in planning],
                "ratios": [asdict(verdict) | {"reached": verdict.reached} for verdict in judged],
            },
            indent=2,
        )
    )
    if timings:
        _draw(timings, directory / "bench-cache.png", scale)
    console.print(f"Written to {directory}/bench-cache.json and .png")


def _timing_table(timings: Timings, rounds: int, scale: float) -> Table:
    ways = list(timings[FIRST_JOB])
    table = Table(title=f"TPC-H scale {scale:g}: seconds, median of {rounds} rounds")
    table.add_column("measure")
    for way in ways:
        table.add_column(way, justify="right")
    for measure, by_way in timings.items():
        table.add_row(measure, *(f"{statistics.median(by_way[way]):.3f}" for way in ways))
    return table


def _planning_table(times: list[PlanningTime]) -> Table:
    table = Table(title="Planning: milliseconds, median")
    for heading in ("query", "Spark", "Holdfast", "ratio"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for time in times:
        table.add_row(
            time.query,
            f"{time.spark * 1000:.1f}",
            f"{time.holdfast * 1000:.1f}",
            f"{time.ratio:.2f}",
        )
    return table


def _verdict_table(judged: list[Verdict]) -> Table:
    table = Table(title="Ratios, median of the rounds")
    table.add_column("ratio of Holdfast to")
    for heading in ("ratio", "at most", "reached"):
        table.add_column(heading, justify="right")
    for verdict in judged:
        table.add_row(
            verdict.what,
            f"{verdict.ratio:.2f}",
            f"{verdict.target:.2f}",
            "yes" if verdict.reached else "NO",
        )
    return table


def _draw(timings: Timings, path: Path, scale: float) -> None:
    measures = list(timings)
    ways = list(timings[FIRST_JOB])
    figure, axes = plt.subplots(figsize=(11, 0.75 * len(measures) + 2), layout="constrained")
    height = 0.8 / len(ways)
    for number, way in enumerate(ways):
        places = [row + number * height for row in range(len(measures))]
        axes.barh(
            places, [statistics.median(timings[name][way]) for name in measures], height, label=way
        )
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(measures))], measures)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("seconds (median, logarithmic)")
    axes.set_title(f"A three-way join of TPC-H scale {scale:g}, kept and then queried")
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
