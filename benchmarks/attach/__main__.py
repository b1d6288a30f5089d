"""`python -m benchmarks.attach`: what an attached session costs beside plain Spark.

Where nothing can be read, and where what is cached is first read by MLlib or by a stream.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import tpch
from benchmarks.attach import first_readers, nothing_kept, start
from benchmarks.attach.sides import sides
from benchmarks.figure_report import write

PARTS = ("start", "trivial", "planning", "tpch", "readers")


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-attach", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=5, help="of each query, and each process")
    parser.add_argument("--counts", type=int, default=200, help="of trivial actions")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    parts = PARTS if arguments.only is None else (arguments.only,)
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures = start.measure(arguments.rounds) if "start" in parts else []
    if parts != ("start",):
        with (
            tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary,
            sides(Path(temporary).resolve()) as both,
        ):
            if "trivial" in parts:
                figures += nothing_kept.trivial(both, arguments.counts)
            if "planning" in parts:
                figures += nothing_kept.planning(both, arguments.rounds)
            if {"tpch", "readers"}.intersection(parts):
                data = tpch.generate(arguments.output / "data", arguments.scale)
                for session in (both.plain, both.attached):
                    tpch.register(session, data)
            if "tpch" in parts:
                figures += nothing_kept.queries(both, arguments.rounds)
            if "readers" in parts:
                figures += first_readers.measure(both, arguments.rounds, Path(temporary).resolve())
    write(figures, arguments.output / "attach.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
