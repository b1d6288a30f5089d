"""Measures what reading a kept table costs beside reading the same Parquet files by hand."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.cache.questions import QUESTIONS, Kind, join
from benchmarks.figure import Figure
from holdfast import Environment
from holdfast.api.table import Table
from holdfast.spark.session_settings import session_inputs

_OPERATORS = 20
_FILES = 16
_WARM_UPS = 4
_RATIO, _EXTRA_MS, _PLANNING_MS = 1.1, 25.0, 15.0

Ask = Callable[[DataFrame], object]


@dataclass(frozen=True)
class _Kept:
    """A kept table, and the files that it is kept in."""

    table: Table
    files: list[str]


def measure(spark: SparkSession, environment: Environment, rounds: int) -> list[Figure]:
    """Hits on a large table and on a small one, first ones and later ones, and their planning.

    Args:
        spark: the session, which has TPC-H's tables.
        environment: over that session.
        rounds: that count, of each measurement.
    """
    figures = []
    large = _keep(environment, join(spark))
    for question in QUESTIONS:
        if question.kind is Kind.SELECTIVE:
            figures += _of_new_objects(spark, question.name, large, question.ask, rounds)
    figures += _of_one_object("one customer's orders", spark, large, _of_customer, rounds)
    figures += _planning(environment, large.table, rounds)
    small = _keep(environment, _small(spark))
    assert len(small.files) == _FILES, small.files
    figures += _of_new_objects(spark, f"a small table of {_FILES} files", small, _few, rounds)
    figures += _of_one_object(f"a small table of {_FILES} files", spark, small, _of_few, rounds)
    figures += _first(spark, environment, rounds)
    environment.invalidate_all()
    return figures


def _small(spark: SparkSession, above: int = -1) -> DataFrame:
    orders = spark.table("orders").where(F.col("o_custkey") > above)
    grouped = orders.groupBy("o_custkey").agg(F.count("*").alias("n"))
    return grouped.repartition(_FILES, "o_custkey")


def _of_customer(table: DataFrame) -> DataFrame:
    return table.where("c_custkey = 370").groupBy("o_orderkey").agg(F.count("*").alias("n"))


def _of_few(table: DataFrame) -> DataFrame:
    return table.where("o_custkey < 500").groupBy("n").agg(F.count("*").alias("customers"))


def _few(table: DataFrame) -> object:
    return _of_few(table).collect()


def _keep(environment: Environment, df: DataFrame) -> _Kept:
    table = environment.from_dataframe(df).cache()
    table.count()
    result = environment.last_job_result
    assert result is not None
    (partitions,) = result.persistent_result_partitions.descriptors.values()
    return _Kept(table, [each.location for each in partitions])


def _of_new_objects(
    spark: SparkSession, what: str, kept: _Kept, ask: Ask, rounds: int
) -> list[Figure]:
    """The same question over and over, each time of a new DataFrame, as programs ask."""
    read = spark.read.parquet(*kept.files)
    seconds = _in_turn(
        {
            "ours": lambda: ask(kept.table),
            "read": lambda: ask(spark.read.parquet(*kept.files)),
            "again": lambda: ask(read),
        },
        rounds,
    )
    return [
        _ratio(f"{what}: hit / files read by hand", seconds, "ours", "read"),
        _ratio(f"{what}: hit / by hand, read once for all", seconds, "ours", "again"),
        _extra(f"{what}: hit beyond files read by hand", seconds, "ours", "read"),
    ]


def _of_one_object(
    what: str,
    spark: SparkSession,
    kept: _Kept,
    query: Callable[[DataFrame], DataFrame],
    rounds: int,
) -> list[Figure]:
    """Further actions of one object, of which Spark has the plan and the shuffles."""
    ours, by_hand = query(kept.table), query(spark.read.parquet(*kept.files))
    figures = []
    for name, ask in (("collect()", _collected), ("count()", _counted)):
        seconds = _in_turn({"ours": partial(ask, ours), "hand": partial(ask, by_hand)}, rounds)
        what_of_it = f"{what}: {name} again of the same object"
        figures += [
            _ratio(f"{what_of_it}: hit / by hand", seconds, "ours", "hand"),
            _extra(f"{what_of_it}: hit beyond by hand", seconds, "ours", "hand"),
        ]
    return figures


def _first(spark: SparkSession, environment: Environment, rounds: int) -> list[Figure]:
    """The first time that a table is read, by a session that has not seen its files before."""
    ours, by_hand = [], []
    for number in range(-1, rounds):
        kept = _keep(environment, _small(spark, above=-number - 10))
        jobs = {
            "hand": lambda kept=kept: _few(spark.read.parquet(*kept.files)),
            "ours": lambda kept=kept: _few(kept.table),
        }
        # Whoever comes second finds the files' pages warm.
        for name in jobs if number % 2 else reversed(jobs):
            taken = _seconds(jobs[name])
            if number >= 0:
                (ours if name == "ours" else by_hand).append(taken)
        kept.table.invalidate_cache()
    seconds = {"ours": ours, "hand": by_hand}
    what = f"the first read of a small table of {_FILES} files"
    return [
        _ratio(f"{what}: hit / files read by hand", seconds, "ours", "hand"),
        _extra(f"{what}: hit beyond files read by hand", seconds, "ours", "hand"),
    ]


def _planning(environment: Environment, table: DataFrame, rounds: int) -> list[Figure]:
    """Reading the plan, digests and substitution of a longer query, step by step."""
    bridge, steps = environment._bridge, dict[str, list[float]]()
    for number in range(-_WARM_UPS, rounds):
        query = _chain(table)
        taken = {"reading the plan and its digests": _seconds(lambda q=query: bridge.query(q))}
        taken["reading the settings"] = _seconds(lambda: session_inputs(environment._plain))
        # A query that nothing is known of yet.
        query = _chain(table)
        taken["all, with look-up and substitution"] = _seconds(
            lambda q=query: environment.substituted(q)
        )
        if number >= 0:
            for step, seconds in taken.items():
                steps.setdefault(step, []).append(1_000 * seconds)
    return [
        Figure(f"{_OPERATORS} operators: {step}", tuple(taken), "ms", _PLANNING_MS, at_least=False)
        for step, taken in steps.items()
    ]


def _chain(df: DataFrame) -> DataFrame:
    for number in range(_OPERATORS - 1):
        if number % 2:
            df = df.where(F.col("l_quantity") > number % 7)
        else:
            df = df.withColumn("l_discount", F.col("l_discount") + number)
    return df.groupBy("l_shipmode").agg(F.sum("l_discount").alias("discount"))


def _collected(df: DataFrame) -> object:
    return df.collect()


def _counted(df: DataFrame) -> object:
    return df.count()


def _in_turn(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """How long each side takes, by turns, in seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(-_WARM_UPS, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            taken = _seconds(sides[name])
            if number >= 0:
                seconds[name].append(taken)
    return seconds


def _seconds(step: Callable[[], object]) -> float:
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def _ratio(what: str, seconds: Mapping[str, Sequence[float]], ours: str, other: str) -> Figure:
    one, another = (statistics.median(seconds[name]) for name in (ours, other))
    sides = f"{1_000 * one:,.1f} ms / {1_000 * another:,.1f} ms"
    return Figure(what, (one / another,), "ratio", _RATIO, at_least=False, sides=sides)


def _extra(what: str, seconds: Mapping[str, Sequence[float]], ours: str, other: str) -> Figure:
    one, another = (statistics.median(seconds[name]) for name in (ours, other))
    return Figure(what, (1_000 * (one - another),), "ms", _EXTRA_MS, at_least=False)
