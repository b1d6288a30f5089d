"""What is asked of the kept three-way join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


class Kind(Enum):
    """What a question needs of the join."""

    BROAD = "broad"
    NARROW = "few columns"
    SELECTIVE = "selective"


@dataclass(frozen=True)
class Question:
    """A job over the join."""

    name: str
    kind: Kind
    ask: Callable[[DataFrame], object]


def join(spark: SparkSession) -> DataFrame:
    """customer, orders and lineitem, with all their columns: 6 million rows at scale 1."""
    customer, orders, lineitem = map(spark.table, ("customer", "orders", "lineitem"))
    return customer.join(orders, F.col("c_custkey") == F.col("o_custkey")).join(
        lineitem, F.col("o_orderkey") == F.col("l_orderkey")
    )


def _revenue() -> Column:
    return F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))).alias("revenue")


QUESTIONS = [
    Question(
        "revenue by segment and year",
        Kind.BROAD,
        lambda t: (
            t.groupBy("c_mktsegment", F.year("o_orderdate").alias("y"))
            .agg(_revenue(), F.avg("l_quantity"), F.max("o_totalprice"), F.count("l_comment"))
            .collect()
        ),
    ),
    Question(
        "best customers",
        Kind.BROAD,
        lambda t: (
            t.groupBy("c_custkey", "c_name", "c_phone", "c_address")
            .agg(_revenue())
            .orderBy(F.desc("revenue"), "c_custkey")
            .limit(20)
            .collect()
        ),
    ),
    Question(
        "lines by ship mode", Kind.NARROW, lambda t: t.groupBy("l_shipmode").count().collect()
    ),
    Question(
        "lines by priority", Kind.NARROW, lambda t: t.groupBy("o_orderpriority").count().collect()
    ),
    Question(
        "one customer's lines",
        Kind.SELECTIVE,
        lambda t: (
            t.where(F.col("c_custkey") == 370).orderBy("o_orderkey", "l_linenumber").collect()
        ),
    ),
    Question(
        "the last month's urgent revenue",
        Kind.SELECTIVE,
        lambda t: (
            t.where("o_orderdate >= '1998-07-01' AND o_orderpriority = '1-URGENT'")
            .agg(_revenue())
            .collect()
        ),
    ),
]

FIRST = QUESTIONS[0]
