"""`python -m benchmarks.taskexecutor`: what task executors and their book-keeping cost."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks import figure_report, tpch
from benchmarks.cache.session import start
from benchmarks.figure import Figure
from benchmarks.taskexecutor import embedded, lost, scan, serving, trackers
from benchmarks.taskexecutor.processes import nginx_program

_PARTS = ("serving", "scan", "trackers", "embedded", "lost", "lost-on-cluster")


def main() -> int:
    """Measures, prints, writes; returns 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="bench-taskexecutor", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds")
    parser.add_argument("--only", choices=_PARTS, action="append", help="a part; may be repeated")
    parser.add_argument("--partitions", type=int, default=trackers.PARTITIONS)
    parser.add_argument("--executors", type=int, default=trackers.EXECUTORS)
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    parts = arguments.only or _PARTS
    arguments.output.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary:
        home = Path(temporary).resolve()
        if "trackers" in parts:
            figures += trackers.measure(arguments.partitions, arguments.executors)
        if "serving" in parts:
            figures += _serving(home, arguments.rounds)
        if {"scan", "embedded", "lost", "lost-on-cluster"} & set(parts):
            data = tpch.generate(arguments.output / "data", arguments.scale)
            if {"scan", "embedded", "lost"} & set(parts):
                figures += _on_spark(parts, home, data, arguments.rounds)
            if "lost-on-cluster" in parts:
                figures += _on_cluster(home, data, arguments.rounds)
    figure_report.write(figures, arguments.output / "taskexecutor.json")
    return 0


def _serving(home: Path, rounds: int) -> list[Figure]:
    program = nginx_program()
    if program is None:
        print("nginx is not installed, so nothing is compared with it", file=sys.stderr)
        return []
    (home / "serving").mkdir()
    pairs = serving.measure(home / "serving", program, rounds)
    ours, other = (statistics.median(each) / 1e9 for each in zip(*pairs, strict=True))
    sides = f"{ours:.2f} / {other:.2f} GB/s"
    ratios = tuple(a / b for a, b in pairs)
    return [Figure("file to four clients: throughput / nginx", ratios, "ratio", 0.8, True, sides)]


def _on_spark(parts: Sequence[str], home: Path, data: Path, rounds: int) -> list[Figure]:
    figures = []
    spark = start(home)
    try:
        if "scan" in parts:
            lineitem = (data / "lineitem.parquet").resolve()
            pairs = scan.measure(spark, home / "scan", lineitem, rounds)
            figures.append(_ratio("scan of lineitem: time / local files", pairs, 1.15))
        if "embedded" in parts:
            tpch.register(spark, data)
            for kind, pairs in embedded.measure(spark, home / "embedded", rounds).items():
                what = f"embedded tracking, share of the job's time: {kind}"
                # What is measured without the disk's share alone has a target.
                target = 1.0 if kind == embedded.ALL_JOBS_AND_DISK else 0.02
                figures.append(_ratio(what, pairs, target))
        if "lost" in parts:
            pairs = lost.measure(spark, home / "lost", data, rounds)
            what = f"1 of {lost.PARTITIONS} partitions lost: time / producing all"
            figures.append(_ratio(what, pairs, 0.25))
    finally:
        spark.stop()
    return figures


def _on_cluster(home: Path, data: Path, rounds: int) -> list[Figure]:
    alone = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=alone) as pool:
        pairs = pool.submit(lost.measure_on_cluster, home / "cluster", data, rounds).result()
    return [_ratio("one of two task executors lost: time / producing all", pairs, 0.65)]


def _ratio(what: str, pairs: Sequence[tuple[float, float]], target: float) -> Figure:
    ours, other = (statistics.median(each) for each in zip(*pairs, strict=True))
    ratios = tuple(a / b for a, b in pairs)
    return Figure(what, ratios, "ratio", target, False, f"{ours:.3f} / {other:.3f} s")


if __name__ == "__main__":
    sys.exit(main())
