"""`python -m benchmarks.eventstore`: how many events a second are recorded and replayed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import figure_report
from benchmarks.eventstore.log import Round, measure
from benchmarks.figure import Figure

_RATE = 200_000
_SLOWEST = 100.0
_BYTES = 150


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-eventstore", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        rounds = measure(Path(temporary) / "log", arguments.events, arguments.rounds)
    figure_report.write(_figures(rounds), arguments.output / "eventstore.json")
    return 0


def _figures(rounds: Sequence[Round]) -> list[Figure]:
    of_processor = "seconds of the processor, all threads"
    slowest = tuple(each.slowest * 1e3 for each in rounds)
    sizes = tuple(each.bytes / each.events for each in rounds)
    return [
        _rate("handed over", rounds, lambda each: each.handed_over, ""),
        _rate("appended, until all are synced", rounds, lambda each: each.appended, ""),
        _rate("appended", rounds, lambda each: each.appended_busy, of_processor),
        _rate("replayed", rounds, lambda each: each.replayed, ""),
        _rate("replayed", rounds, lambda each: each.replayed_busy, of_processor),
        Figure("the slowest of all hand-overs", slowest, "ms", _SLOWEST, False),
        Figure("size of an event on disk", sizes, "bytes", _BYTES, False),
    ]


def _rate(
    what: str, rounds: Sequence[Round], seconds: Callable[[Round], float], sides: str
) -> Figure:
    rates = tuple(each.events / seconds(each) for each in rounds)
    return Figure(what, rates, "events/s", _RATE, True, sides)


if __name__ == "__main__":
    sys.exit(main())
