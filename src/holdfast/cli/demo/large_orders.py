"""The job of the driver that is killed: TPC-H's query 18, who has placed the largest orders."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.parquet as pq

from holdfast.cli.demo.parquet_folder import ParquetTable

TITLE = "The customers with the largest orders (query 18 of TPC-H)"

COLUMNS: Mapping[str, frozenset[str]] = {
    "customer": frozenset(("c_custkey", "c_name")),
    "orders": frozenset(("o_orderkey", "o_custkey", "o_orderdate", "o_totalprice")),
    "lineitem": frozenset(("l_orderkey", "l_quantity")),
}
"""What it reads of each table."""

QUERY = """
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (
    SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
"""


def can_be_asked(tables: Mapping[str, ParquetTable]) -> bool:
    """Whether there is everything that it reads.

    Args:
        tables: the tables by name.
    """
    return all(
        name in tables and columns <= _columns(tables[name]) for name, columns in COLUMNS.items()
    )


def _columns(table: ParquetTable) -> frozenset[str]:
    return frozenset(map(str.lower, pq.read_schema(table.files[0]).names))
