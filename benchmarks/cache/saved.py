"""Measures how right the time is that jobs say they have saved, beside plain Spark's."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.analyst import QUESTIONS, joined
from benchmarks.figure import Figure
from holdfast import Environment

_MOST_OFF = 0.35
_WARM_UPS = 1
# A production is measured in a Spark that is warm, as those that it is compared with are.
_WARMING = 4

Ask = Callable[[DataFrame], DataFrame]


def measure(spark: SparkSession, environment: Environment, data: Path, rounds: int) -> list[Figure]:
    """An analyst's questions, and narrow ones about a wide join.

    Args:
        spark: the session.
        environment: over that session.
        data: TPC-H's tables.
        rounds: that count.
    """
    plain, ours = joined(spark, data), joined(environment, data)
    figures = [_measured(environment, "an analyst's questions", plain, ours, QUESTIONS, rounds)]
    environment.invalidate_all()
    plain, ours = _wide(spark, data), _wide(environment, data)
    figures.append(_measured(environment, "20 narrow queries", plain, ours, _narrow(), rounds))
    environment.invalidate_all()
    return figures


def _wide(source: SparkSession | Environment, data: Path) -> DataFrame:
    lineitem, orders = (
        source.read.parquet(str(data / f"{name}.parquet")) for name in ("lineitem", "orders")
    )
    return lineitem.join(orders, lineitem.l_orderkey == orders.o_orderkey)


def _narrow() -> list[Ask]:
    """Each has two or three of the 25 columns, and most some of the rows."""

    def of(key: str, measure: str, condition: str) -> Ask:
        return lambda table: table.where(condition).groupBy(key).agg(F.sum(measure))

    keys = ("l_shipmode", "o_orderpriority", "l_returnflag", "o_orderstatus", "l_linenumber")
    conditions = (
        "true",
        "l_quantity < 10",
        "o_orderdate >= DATE'1997-06-01'",
        "o_orderkey % 1000 = 7",
    )
    return [of(key, "l_extendedprice", condition) for key in keys for condition in conditions]


def _measured(
    environment: Environment,
    name: str,
    plain: DataFrame,
    ours: DataFrame,
    questions: Sequence[Ask],
    rounds: int,
) -> Figure:
    for ask in questions[:_WARMING]:
        ask(plain).collect()
    table = ours.cache()
    # The first one computes all of it.
    table.count()
    off = []
    for number in range(-_WARM_UPS, rounds):
        saved = without = own = 0.0
        for ask in questions:
            taken = _seconds(ask(plain))
            began = _seconds(ask(table))
            result = environment.last_job_result
            job = 0.0 if result is None else result.saved_seconds
            without, own, saved = without + taken, own + began, saved + job
            print(f"{name}: {taken:6.2f} s, {began:6.2f} s, {job:6.2f} s saved", file=sys.stderr)
        total = f"{without:.1f} s plain, {own:.1f} s with cache(), {saved:.1f} s said to be saved"
        print(f"{name}: {total}", file=sys.stderr)
        if number >= 0:
            off.append(abs(saved / max(without - own, 1e-9) - 1))
    what = f"time that {name} say they saved, off what they did"
    return Figure(what, tuple(off), "", _MOST_OFF, at_least=False, sides=total)


def _seconds(table: DataFrame) -> float:
    started = time.perf_counter()
    table.collect()
    return time.perf_counter() - started
