"""`python -m benchmarks.taskexecutor`: what a task executor costs beside files and nginx."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import tpch
from benchmarks.cache.session import start
from benchmarks.taskexecutor import scan, serving
from benchmarks.taskexecutor.processes import nginx_program

_SERVED = "file to four clients, throughput / nginx"
_SCANNED = "scan of lineitem, time / local files"


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-taskexecutor", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds")
    parser.add_argument("--only", choices=("serving", "scan"))
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: dict[str, list[tuple[float, float]]] = {}
    program = nginx_program()
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        if arguments.only != "scan" and program is None:
            print("nginx is not installed, so nothing is compared with it", file=sys.stderr)
        elif arguments.only != "scan" and program is not None:
            (home / "serving").mkdir()
            figures[_SERVED] = serving.measure(home / "serving", program, arguments.rounds)
        if arguments.only != "serving":
            data = tpch.generate(arguments.output / "data", arguments.scale)
            spark = start(home)
            try:
                lineitem = (data / "lineitem.parquet").resolve()
                figures[_SCANNED] = scan.measure(spark, home / "scan", lineitem, arguments.rounds)
            finally:
                spark.stop()
    _report(figures, arguments.output / "taskexecutor.json")
    return 0


def _report(figures: dict[str, list[tuple[float, float]]], path: Path) -> None:
    targets = {_SERVED: ("at least", 0.8), _SCANNED: ("at most", 1.15)}
    table = Table("what", "ratio", "from", "to", "target", "ours", "other")
    document = {}
    for what, rounds in figures.items():
        ratios = [ours / other for ours, other in rounds]
        bound, target = targets[what]
        table.add_row(
            what,
            f"{statistics.median(ratios):.3f}",
            f"{min(ratios):.3f}",
            f"{max(ratios):.3f}",
            f"{bound} {target}",
            *(_shown(statistics.median(each)) for each in zip(*rounds, strict=True)),
        )
        document[what] = {"ratio": statistics.median(ratios), "rounds": rounds}
    Console().print(table)
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")


def _shown(figure: float) -> str:
    return f"{figure / 1e9:.2f} GB/s" if figure > 1e6 else f"{figure:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
