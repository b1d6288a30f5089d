"""`python -m benchmarks.cache`: cache() against every other way of keeping a DataFrame."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import figure_report, tpch
from benchmarks.cache import hits, keeping, planning, report, saved, small_files
from benchmarks.cache.session import start
from benchmarks.cache.ways import Way, all_ways
from holdfast import Environment

PARTS = ("keeping", "planning", "hits", "small-files", "saved")


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-cache", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--planning-rounds", type=int, default=15)
    parser.add_argument("--hit-rounds", type=int, default=25)
    parser.add_argument("--small-file-rounds", type=int, default=1)
    parser.add_argument("--saved-rounds", type=int, default=1)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--ways", help="names of ways, comma-separated; all by default")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    parts = PARTS if arguments.only is None else (arguments.only,)
    data = tpch.generate(arguments.output / "data", arguments.scale)
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        spark = start(home)
        try:
            tpch.register(spark, data)
            timings: keeping.Timings = {}
            times: list[planning.PlanningTime] = []
            if "keeping" in parts:
                ways = all_ways(spark, home)
                if arguments.ways:
                    ways = _named(ways, arguments.ways.split(","))
                timings = keeping.measure(
                    spark, ways, arguments.rounds, lambda text: print(text, file=sys.stderr)
                )
            config = {"intermediate-result-storage.directory": str(home / "kept")}
            with Environment(spark, config=config) as environment:
                if "planning" in parts:
                    times = planning.measure(spark, environment, arguments.planning_rounds)
                if "hits" in parts:
                    figures = hits.measure(spark, environment, arguments.hit_rounds)
                    figure_report.write(figures, arguments.output / "bench-hits.json")
                if "small-files" in parts:
                    figures = small_files.measure(
                        spark, environment, home / "by-hand", arguments.small_file_rounds
                    )
                    figure_report.write(figures, arguments.output / "bench-small-files.json")
                if "saved" in parts:
                    figures = saved.measure(spark, environment, data, arguments.saved_rounds)
                    figure_report.write(figures, arguments.output / "bench-saved.json")
            if timings or times:
                report.write(timings, times, arguments.rounds, arguments.output, arguments.scale)
        finally:
            spark.stop()
    return 0


def _named(ways: list[Way], names: list[str]) -> list[Way]:
    by_name = {way.name: way for way in ways}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        sys.exit(f"No way is called {', '.join(unknown)}; there are {', '.join(by_name)}.")
    return [by_name[name] for name in names]


if __name__ == "__main__":
    sys.exit(main())
