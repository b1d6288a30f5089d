"""`python -m benchmarks.recovery`: what recovery costs, and what it saves."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import figure_report, tpch
from benchmarks.figure import Figure
from benchmarks.recovery import killed, log, speed

_LOG, _OVERHEAD, _KILLED, _ON_CLUSTER = "log", "overhead", "killed", "killed-on-cluster"
_PARTS = (_LOG, _OVERHEAD, _KILLED, _ON_CLUSTER)
_OF_KILLS = {_KILLED: speed.measure_killed, _ON_CLUSTER: speed.measure_killed_on_cluster}


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-recovery", description=__doc__)
    parser.add_argument("--only", choices=_PARTS, action="append", help="a part; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--subtasks", type=int, default=log.SUBTASKS, help="of the log")
    parser.add_argument("--executors", type=int, default=log.EXECUTORS, help="of the log")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--data", type=Path, help="TPC-H's tables, if they are there already")
    parser.add_argument("--queries", help="names, comma-separated; all, or the heavy ones")
    parser.add_argument(
        "--fractions",
        type=lambda text: tuple(map(float, text.split(","))),
        default=killed.FRACTIONS,
        help="of a job's task time, when it is killed; comma-separated",
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    parts = arguments.only or _PARTS
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        if _LOG in parts:
            figures += log.measure(
                home / "log", arguments.subtasks, arguments.executors, arguments.rounds
            )
        if any(part != _LOG for part in parts):
            data = arguments.data or tpch.generate(arguments.output / "data", arguments.scale)
            queries = arguments.queries.split(",") if arguments.queries else None
        if _OVERHEAD in parts:
            figures += speed.measure_overhead(
                home / _OVERHEAD, data, arguments.rounds, _tell, queries
            )
        for part, measure in _OF_KILLS.items():
            if part in parts:
                figures += measure(
                    home / part, data, arguments.rounds, _tell, queries, arguments.fractions
                )
    figure_report.write(figures, arguments.output / "recovery.json")
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
