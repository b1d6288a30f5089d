"""An analyst's questions of TPC-H: who orders what, and what it brings in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast import Environment

_COLUMNS = {
    "customer": ["c_custkey", "c_name", "c_mktsegment"],
    "orders": ["o_orderkey", "o_custkey", "o_orderdate", "o_orderpriority"],
    "lineitem": [
        "l_orderkey",
        "l_quantity",
        "l_extendedprice",
        "l_discount",
        "l_returnflag",
        "l_shipmode",
        "l_shipdate",
    ],
}


def joined(source: SparkSession | Environment, data: Path) -> DataFrame:
    """What the questions are about: customers, their orders, and the orders' items.

    Args:
        source: what reads the tables.
        data: where TPC-H's tables lie.
    """
    customer, orders, lineitem = (
        source.read.parquet(str(data / f"{name}.parquet")).select(*columns)
        for name, columns in _COLUMNS.items()
    )
    revenue = F.col("l_extendedprice") * (1 - F.col("l_discount"))
    return (
        customer.join(orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(lineitem, F.col("o_orderkey") == F.col("l_orderkey"))
        .withColumn("revenue", revenue.cast("decimal(18,4)"))
        .drop("o_custkey", "l_orderkey")
    )


def _total(column: str) -> Column:
    return F.sum(column).alias(column)


def _revenue_by_segment(of: DataFrame) -> DataFrame:
    return of.groupBy("c_mktsegment").agg(_total("revenue")).orderBy("c_mktsegment")


def _revenue_by_quarter(of: DataFrame) -> DataFrame:
    quarter = F.trunc("o_orderdate", "quarter").alias("quarter")
    return of.groupBy(quarter).agg(_total("revenue"), F.count("*")).orderBy("quarter")


def _best_customers(of: DataFrame) -> DataFrame:
    by_customer = of.groupBy("c_custkey", "c_name").agg(_total("revenue"))
    return by_customer.orderBy(F.desc("revenue"), "c_custkey").limit(10)


def _days_to_shipping(of: DataFrame) -> DataFrame:
    days = F.datediff("l_shipdate", "o_orderdate")
    return of.groupBy("o_orderpriority").agg(F.sum(days), F.max(days), F.count("*"))


def _returned_goods(of: DataFrame) -> DataFrame:
    returned = of.where(F.col("l_returnflag") == "R")
    return returned.groupBy("l_shipmode").agg(_total("l_quantity"), F.avg("l_extendedprice"))


def _open_orders(of: DataFrame) -> DataFrame:
    day = F.lit("1995-03-15").cast("date")
    is_open = (F.col("o_orderdate") < day) & (F.col("l_shipdate") > day)
    of_builders = of.where((F.col("c_mktsegment") == "BUILDING") & is_open)
    by_order = of_builders.groupBy("o_orderkey", "o_orderdate").agg(_total("revenue"))
    return by_order.orderBy(F.desc("revenue"), "o_orderdate", "o_orderkey").limit(10)


def _best_months(of: DataFrame) -> DataFrame:
    month = F.trunc("o_orderdate", "month").alias("month")
    monthly = of.groupBy("c_mktsegment", month).agg(_total("revenue"))
    best_first = Window.partitionBy("c_mktsegment").orderBy(F.desc("revenue"), "month")
    return monthly.withColumn("place", F.row_number().over(best_first)).where("place = 1")


def _orders_of_a_customer(of: DataFrame) -> DataFrame:
    of_customer = of.where(F.col("c_custkey") == 4)
    by_order = of_customer.groupBy("o_orderkey", "o_orderdate", "o_orderpriority")
    return by_order.agg(_total("revenue"), F.count("*")).orderBy("o_orderdate", "o_orderkey")


QUESTIONS: tuple[Callable[[DataFrame], DataFrame], ...] = (
    _revenue_by_segment,
    _revenue_by_quarter,
    _best_customers,
    _days_to_shipping,
    _returned_goods,
    _open_orders,
    _best_months,
    _orders_of_a_customer,
)
"""Each of the joined table."""
