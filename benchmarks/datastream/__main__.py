"""`python -m benchmarks.datastream`: DataStream.cache() beside a cached RDD and PyFlink."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import figure_report
from benchmarks.datastream import flink, jobs, memory, report
from benchmarks.datastream.session import start
from benchmarks.figure import Figure


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-datastream", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds")
    parser.add_argument("--without-flink", action="store_true", help="don't run PyFlink")
    parser.add_argument("--only", choices=("speed", "memory"))
    parser.add_argument("--memory-records", type=int, default=20_000_000)
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        if arguments.only != "memory":
            with start(home / "speed", memory="4g") as spark:
                timings = jobs.measure(spark, home, arguments.records, arguments.rounds, _tell)
            figures += report.against_rdd(timings)
            if not arguments.without_flink:
                theirs = flink.measure(arguments.output / "flink", home, arguments.records, _tell)
                figures += report.against_flink(timings, theirs)
        if arguments.only != "speed":
            with start(home / "memory", memory="1g", touched=True) as spark:
                peaks = memory.measure(spark, home, arguments.memory_records, _tell)
            figures += report.of_memory(peaks)
    figure_report.write(figures, arguments.output / "datastream.json")
    return 0


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
