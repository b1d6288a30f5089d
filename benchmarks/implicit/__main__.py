"""`python -m benchmarks.implicit`: programs that cache nothing, plain and with implicit caching."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import tpch
from benchmarks.attach.sides import Sides, seconds, sides
from benchmarks.figure import Figure
from benchmarks.figure_report import write
from benchmarks.implicit import analyst, new_queries, programs, recurring, warehouse
from benchmarks.implicit.workload import Workload
from holdfast.cli.main import main as holdfast_command
from holdfast.runtime.vertex_outcome import VertexOutcome

_SEED = 16
_CLOSE = 1e-9
WORKLOADS = {
    "an analyst's session": Workload(analyst.session(_SEED, 40), 0.5),
    "TPC-H three times": Workload(recurring.repeated(_SEED, 3), 0.85),
    "five programs": Workload(programs.in_turn(_SEED, 5, 8), 0.6),
    "a warehouse's day": Workload(warehouse.day(_SEED, 200), 0.65),
}
_NOTHING_REPEATS = "nothing repeats"
_RIGHT = 0.9
_ALL = 1_000
_WARM_UP = (
    "SELECT o_orderstatus, count(*) FROM lineitem JOIN orders ON l_orderkey = o_orderkey GROUP BY 1"
)


def main() -> int:
    """Measures, prints, writes; returns 1 where an answer was another one than plain Spark's."""
    parser = argparse.ArgumentParser(prog="bench-implicit", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument(
        "--shuffles", action="store_true", help="with nothing but shuffles of earlier queries"
    )
    parser.add_argument(
        "--budget", help="bytes that kept results may have, such as 64 mb (default: any number)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="how often each workload is measured, each time in another Spark; two and more have "
        "either side come first in each query",
    )
    parser.add_argument("--only", choices=[*WORKLOADS, _NOTHING_REPEATS], action="append")
    parser.add_argument("--output", type=Path, default=Path("build/bench"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    data = tpch.generate(arguments.output / "data", arguments.scale)
    config: dict[str, object] = {
        "implicit-cache.enabled": True,
        "implicit-cache.results.enabled": not arguments.shuffles,
    }
    if arguments.budget is not None:
        config["intermediate-result-storage.max-size"] = arguments.budget
    figures: list[Figure] = []
    wrong: list[str] = []
    for name in arguments.only or [*WORKLOADS, _NOTHING_REPEATS]:
        if name == _NOTHING_REPEATS:
            with (
                tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary,
                sides(Path(temporary).resolve(), config) as both,
            ):
                tables = warehouse.copied(data.resolve(), Path(temporary) / "tables")
                figures += new_queries.figures(both, tables, _SEED)
            continue
        rounds = []
        for number in range(arguments.rounds):
            with (
                tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as temporary,
                sides(Path(temporary).resolve(), config) as both,
            ):
                tables = warehouse.copied(data.resolve(), Path(temporary) / "tables")
                rounds.append(_measured(both, name, WORKLOADS[name], tables, number, wrong))
        figures += _figures(name, WORKLOADS[name], rounds)
    write(figures, arguments.output / "implicit.json")
    print(f"wrong answers: {len(wrong)} {wrong}")
    return 1 if wrong else 0


@dataclass(frozen=True)
class _Round:
    """A workload, asked once on each side.

    Attributes:
        plain: what each query took with plain Spark, in seconds.
        ours: what it took with the implicit cache.
        reads: whether it read what was kept.
        unread: how many queries computed what was kept, as that seemed to take less.
        kept: how many bytes were kept in the end.
    """

    plain: list[float]
    ours: list[float]
    reads: list[bool]
    unread: int
    kept: int

    @property
    def ratio(self) -> float:
        return sum(self.ours) / sum(self.plain)


def _measured(
    both: Sides, name: str, workload: Workload, tables: Path, turn: int, wrong: list[str]
) -> _Round:
    """Each query once on each side, by turns, which another round takes the other way round."""
    for session in (both.plain, both.attached, both.plain):
        tpch.register(session, tables)
        session.sql(_WARM_UP).collect()
    plain, ours = [], []
    reads = []
    for number, query in enumerate(workload.queries):
        if query.is_first:
            both.begin_programs()
            for session in (both.plain, both.attached):
                tpch.register(session, tables)
        if query.change is not None:
            query.change(tables)
            for session in (both.plain, both.attached):
                tpch.register(session, tables)
        answers: dict[int, list[tuple[object, ...]]] = {}

        def ask(session: SparkSession, sql: str = query.sql) -> None:
            answers[id(session)] = [tuple(row) for row in session.sql(sql).collect()]  # noqa: B023

        pair = [(plain, both.plain), (ours, both.attached)]
        # Whoever comes second finds files and classes warm; every other query may be of a kind.
        for times, session in pair if (number // 2 + turn) % 2 else reversed(pair):
            times.append(seconds(lambda session=session: ask(session)))
        result = both.attached.holdfast.last_job_result
        reads.append(any(each.outcome is VertexOutcome.READ for each in result.vertices))
        if not _agree(*answers.values()):
            wrong.append(query.name)
        print(f"{name}: {query.name}: {plain[-1]:.2f} {ours[-1]:.2f}", file=sys.stderr)
    kept = sum(each.bytes or 0 for each in both.attached.holdfast.list_cached())
    return _Round(plain, ours, reads, _left_unread(both), kept)


def _left_unread(both: Sides) -> int:
    told = io.StringIO()
    directory = str(both.config["intermediate-result-storage.directory"])
    with contextlib.redirect_stdout(told):
        holdfast_command(["why", "--last", str(_ALL), "--json", "--directory", directory])
    queries = json.loads(told.getvalue())
    return sum(any(part["outcome"] == "not read" for part in each["parts"]) for each in queries)


def _figures(name: str, workload: Workload, rounds: list[_Round]) -> list[Figure]:
    middle = sorted(rounds, key=lambda each: each.ratio)[len(rounds) // 2]
    total = (
        f"{sum(middle.ours):.1f} s / {sum(middle.plain):.1f} s, {middle.kept / 2**20:.0f} MiB kept"
    )
    ratios = tuple(each.ratio for each in rounds)
    figures = [
        Figure(f"{name}: all queries / plain", ratios, "ratio", workload.target, False, total)
    ]
    right = [
        ours <= plain
        for each in rounds
        for plain, ours, read in zip(each.plain, each.ours, each.reads, strict=True)
        if read
    ]
    unread = sum(each.unread for each in rounds)
    if right or unread:
        # Nobody knows what reading would have taken: the worst is assumed.
        share = (sum(right) / (len(right) + unread),)
        what = f"{name}: queries that read what was kept, and took no longer than plain"
        counts = f"{sum(right)} of {len(right)}; {unread} left it unread"
        figures.append(Figure(what, share, "share", _RIGHT, True, counts))
    return figures


def _agree(one: list[tuple[object, ...]], other: list[tuple[object, ...]]) -> bool:
    if len(one) != len(other):
        return False
    pairs = zip(sorted(one, key=str), sorted(other, key=str), strict=True)
    return all(_same(a, b) for left, right in pairs for a, b in zip(left, right, strict=True))


def _same(one: object, other: object) -> bool:
    # Sums of floats differ in their last digits each time.
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_CLOSE)
    return one == other


if __name__ == "__main__":
    sys.exit(main())
