"""`python -m benchmarks.recovery`: what recovery costs, and what it saves."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import figure_report
from benchmarks.figure import Figure
from benchmarks.recovery import log

_PARTS = ("log",)


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-recovery", description=__doc__)
    parser.add_argument("--only", choices=_PARTS, action="append", help="a part; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--subtasks", type=int, default=log.SUBTASKS, help="of the log")
    parser.add_argument("--executors", type=int, default=log.EXECUTORS, help="of the log")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    parts = arguments.only or _PARTS
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        if "log" in parts:
            figures += log.measure(
                home / "log", arguments.subtasks, arguments.executors, arguments.rounds
            )
    figure_report.write(figures, arguments.output / "recovery.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
