"""What actions cost beside plain Spark's, where nothing that is kept can be read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import tpch
from benchmarks.attach.sides import Sides, seconds
from benchmarks.figure import Figure

_UNRELATED = 50
_OPERATORS = 300
_COLUMNS = 2_000


def trivial(both: Sides, rounds: int) -> list[Figure]:
    """Counts of ten rows, with nothing kept and with results of other sources kept.

    Args:
        both: the sessions.
        rounds: how many counts on each side.
    """
    nothing = both.ratios(_count_ten, rounds, warm_ups=20)
    for number in range(_UNRELATED):
        both.attached.range(1_000 + number).selectExpr(f"id % {number + 2} AS k").cache().count()
    unrelated = both.ratios(_count_ten, rounds, warm_ups=20)
    both.attached.catalog.clearCache()
    return [
        _ratio("count of 10 rows, nothing kept", *nothing, 1.05),
        _ratio(f"count of 10 rows, {_UNRELATED} unrelated results kept", *unrelated, 1.15),
    ]


def queries(both: Sides, rounds: int) -> list[Figure]:
    """TPC-H's queries, while results of other sources are kept.

    Args:
        both: the sessions, which know the tables.
        rounds: of each query.
    """
    both.attached.range(1_000).distinct().cache().count()
    ratios = {}
    for name, text in tpch.QUERIES.items():
        ratios[name] = both.ratios(lambda spark, text=text: spark.sql(text).collect(), rounds)
    both.attached.catalog.clearCache()
    each = [statistics.median(ours) / statistics.median(plain) for plain, ours in ratios.values()]
    return [
        Figure(
            "TPC-H, nothing matches: median",
            (statistics.median(each),),
            "ratio",
            1.02,
            at_least=False,
        ),
        *(_ratio(f"TPC-H {name}", plain, ours, 1.10) for name, (plain, ours) in ratios.items()),
    ]


def planning(both: Sides, rounds: int) -> list[Figure]:
    """Reading large plans of which something might be kept, beside Spark's own planning of them.

    Args:
        both: the sessions.
        rounds: of each.
    """
    shapes: list[tuple[str, Callable[[SparkSession], DataFrame]]] = [
        (f"a plan of {_OPERATORS} operators", _deep),
        (f"a table of {_COLUMNS:,} columns", _wide),
    ]
    figures = []
    for what, make in shapes:
        # The same source, so that the plan has to be read.
        make(both.attached).selectExpr("count(*)").cache()
        spark, ours = [], []
        for number in range(-2, rounds):
            planned = seconds(lambda make=make: _planned(make(both.plain)))
            table = make(both.attached)
            read = seconds(lambda table=table: both.attached.holdfast.substituted(table))  # type: ignore[attr-defined]
            if number >= 0:
                spark.append(planned)
                ours.append(read)
        both.attached.catalog.clearCache()
        figures.append(
            Figure(
                f"{what}: reading it / Spark's analysis and planning",
                tuple(one / other for one, other in zip(ours, spark, strict=True)),
                "ratio",
                0.3,
                at_least=False,
                sides=_sides(spark, ours),
            )
        )
    return figures


def _count_ten(spark: SparkSession) -> int:
    return spark.range(10).count()


def _deep(spark: SparkSession) -> DataFrame:
    start = spark.range(100)
    return reduce(
        lambda df, n: df.where(F.col("id") != n) if n % 2 else df.withColumn("id", F.col("id") + n),
        range(_OPERATORS),
        start,
    )


def _wide(spark: SparkSession) -> DataFrame:
    return spark.range(100).select(*((F.col("id") + n).alias(f"c{n}") for n in range(_COLUMNS)))


def _planned(df: DataFrame) -> None:
    df._jdf.queryExecution().executedPlan()  # type: ignore[operator]


def _ratio(what: str, plain: Sequence[float], ours: Sequence[float], target: float) -> Figure:
    ratio = statistics.median(ours) / statistics.median(plain)
    return Figure(what, (ratio,), "ratio", target, at_least=False, sides=_sides(plain, ours))


def _sides(plain: Sequence[float], ours: Sequence[float]) -> str:
    one, other = (1_000 * statistics.median(each) for each in (ours, plain))
    return f"{one:,.1f} ms / {other:,.1f} ms"
