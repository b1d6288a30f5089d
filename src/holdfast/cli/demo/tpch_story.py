"""An analyst's session over TPC-H: who orders what, and what it brings in."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from holdfast.cli.demo.parquet_folder import ParquetTable, StorySource
from holdfast.cli.demo.story import Question, Story

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "customer": {"c_custkey": "bigint", "c_name": "string", "c_mktsegment": "string"},
    "orders": {
        "o_orderkey": "bigint",
        "o_custkey": "bigint",
        "o_orderdate": "date",
        "o_orderpriority": "string",
    },
    "lineitem": {
        "l_orderkey": "bigint",
        "l_quantity": "decimal(15,2)",
        "l_extendedprice": "decimal(15,2)",
        "l_discount": "decimal(15,2)",
        "l_returnflag": "string",
        "l_shipmode": "string",
        "l_shipdate": "date",
    },
}
"""The columns that the session needs of each table, with TPC-H's own types."""


def tpch_story(title: str, tables: Mapping[str, ParquetTable]) -> Story:
    """The session over TPC-H's tables.

    Args:
        title: what data it is about.
        tables: TPC-H's tables by name, with at least `COLUMNS`.
    """
    used = {name: tables[name] for name in COLUMNS}
    return Story(
        title,
        tuple(used.values()),
        "customer joined with orders joined with lineitem",
        functools.partial(_joined, used),
        (
            Question("Revenue by market segment", _revenue_by_segment, is_ordered=True),
            Question("Revenue by quarter", _revenue_by_quarter, is_ordered=True),
            Question("The ten best customers", _best_customers, is_ordered=True),
            Question("Days to shipping by priority", _days_to_shipping),
            Question("Returned goods by ship mode", _returned_goods),
            Question("Big orders open on 15 March 1995", _open_orders, is_ordered=True),
            Question("The best month of each segment", _best_months),
            Question("The orders of customer 4", _orders_of_a_customer, is_ordered=True),
        ),
    )


def _joined(tables: Mapping[str, ParquetTable], source: StorySource) -> DataFrame:
    customer, orders, lineitem = (
        # A TPC-H of the user's own may have floats for decimals, whose sums depend on their order.
        tables[name].read(source).select([F.col(c).cast(t).alias(c) for c, t in columns.items()])
        for name, columns in COLUMNS.items()
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


def _revenue_by_segment(joined: DataFrame) -> DataFrame:
    return joined.groupBy("c_mktsegment").agg(_total("revenue")).orderBy("c_mktsegment")


def _revenue_by_quarter(joined: DataFrame) -> DataFrame:
    quarter = F.trunc("o_orderdate", "quarter").alias("quarter")
    return joined.groupBy(quarter).agg(_total("revenue"), F.count("*")).orderBy("quarter")


def _best_customers(joined: DataFrame) -> DataFrame:
    by_customer = joined.groupBy("c_custkey", "c_name").agg(_total("revenue"))
    return by_customer.orderBy(F.desc("revenue"), "c_custkey").limit(10)


def _days_to_shipping(joined: DataFrame) -> DataFrame:
    days = F.datediff("l_shipdate", "o_orderdate")
    return joined.groupBy("o_orderpriority").agg(F.sum(days), F.max(days), F.count("*"))


def _returned_goods(joined: DataFrame) -> DataFrame:
    returned = joined.where(F.col("l_returnflag") == "R")
    return returned.groupBy("l_shipmode").agg(_total("l_quantity"), F.avg("l_extendedprice"))


def _open_orders(joined: DataFrame) -> DataFrame:
    day = F.lit("1995-03-15").cast("date")
    is_open = (F.col("o_orderdate") < day) & (F.col("l_shipdate") > day)
    of_builders = joined.where((F.col("c_mktsegment") == "BUILDING") & is_open)
    by_order = of_builders.groupBy("o_orderkey", "o_orderdate").agg(_total("revenue"))
    return by_order.orderBy(F.desc("revenue"), "o_orderdate", "o_orderkey").limit(10)


def _best_months(joined: DataFrame) -> DataFrame:
    month = F.trunc("o_orderdate", "month").alias("month")
    monthly = joined.groupBy("c_mktsegment", month).agg(_total("revenue"))
    best_first = Window.partitionBy("c_mktsegment").orderBy(F.desc("revenue"), "month")
    return monthly.withColumn("place", F.row_number().over(best_first)).where("place = 1")


def _orders_of_a_customer(joined: DataFrame) -> DataFrame:
    of_customer = joined.where(F.col("c_custkey") == 4)
    by_order = of_customer.groupBy("o_orderkey", "o_orderdate", "o_orderpriority")
    return by_order.agg(_total("revenue"), F.count("*")).orderBy("o_orderdate", "o_orderkey")
