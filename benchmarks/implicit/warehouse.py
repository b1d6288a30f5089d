"""What a warehouse is asked in a day: much of it again, while files change, made from a seed.

Queries of warehouses are repetitive, and their tables are written all the time, as van Renen et al.
find for Amazon Redshift ("Why TPC Is Not Enough", VLDB 2024). Here 45 % of the queries have been
asked before, and 25 % with other literals.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from benchmarks import tpch
from benchmarks.implicit.workload import Query

_SAME_AGAIN = 0.45
_OTHER_LITERALS = 0.25
_SKEW = 0.6
# As many queries from one change of the files to the next.
_UNCHANGED = 20
_APPENDED_ROWS = 20_000

_REVENUE = "sum(l_extendedprice * (1 - l_discount))"
_DASHBOARDS = (
    "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS q, count(*) AS n FROM lineitem "
    "WHERE l_shipdate <= DATE'{year}-09-02' GROUP BY l_returnflag, l_linestatus",
    "SELECT o_orderpriority, count(*) AS n FROM orders JOIN lineitem ON o_orderkey = l_orderkey "
    "WHERE o_orderdate >= DATE'{year}-01-01' AND l_commitdate < l_receiptdate "
    "GROUP BY o_orderpriority",
    "SELECT c_mktsegment, sum(o_totalprice) AS t FROM customer "
    "JOIN orders ON c_custkey = o_custkey WHERE year(o_orderdate) = {year} GROUP BY c_mktsegment",
    f"SELECT c_nationkey, {_REVENUE} AS r FROM customer JOIN orders ON c_custkey = o_custkey "
    "JOIN lineitem ON o_orderkey = l_orderkey WHERE c_mktsegment = '{segment}' "
    "GROUP BY c_nationkey",
    "SELECT p_brand, avg(l_quantity) AS q FROM part JOIN lineitem ON p_partkey = l_partkey "
    "WHERE p_size < {size} GROUP BY p_brand",
    "SELECT s_nationkey, sum(ps_supplycost * ps_availqty) AS v FROM partsupp "
    "JOIN supplier ON ps_suppkey = s_suppkey WHERE ps_availqty > {size} GROUP BY s_nationkey",
    "SELECT o_custkey, sum(o_totalprice) AS t FROM orders GROUP BY o_custkey "
    "ORDER BY t DESC, o_custkey LIMIT {size}",
    "SELECT n, count(*) AS customers FROM (SELECT o_custkey, count(*) AS n FROM orders "
    "GROUP BY o_custkey) WHERE n > {size} GROUP BY n",
)
_SEGMENTS = ("BUILDING", "AUTOMOBILE", "MACHINERY", "HOUSEHOLD", "FURNITURE")
_DIMENSIONS = ("l_shipmode", "l_shipinstruct", "o_orderpriority", "o_orderstatus", "l_returnflag")


def day(seed: int, queries: int) -> list[Query]:
    """A day's queries.

    Args:
        seed: of the day.
        queries: how many.
    """
    rng = Random(seed)
    asked: list[str] = []
    found = []
    for number in range(queries):
        draw = rng.random()
        if asked and draw < _SAME_AGAIN:
            # Some are asked much more often than others.
            weights = [(place + 1) ** -_SKEW for place in range(len(asked))]
            [sql] = rng.choices(asked, weights)
        elif draw < _SAME_AGAIN + _OTHER_LITERALS:
            sql = rng.choice(_DASHBOARDS).format(
                year=rng.randrange(1993, 1999),
                segment=rng.choice(_SEGMENTS),
                size=rng.randrange(5, 30),
            )
        else:
            sql = _new(rng, number)
        if sql not in asked:
            asked.append(sql)
        change = _change(rng, number) if number % _UNCHANGED == _UNCHANGED - 1 else None
        found.append(Query(f"query {number + 1}", sql, change))
    return found


def _new(rng: Random, number: int) -> str:
    """A query that nobody has asked before."""
    key = rng.choice(_DIMENSIONS)
    return (
        f"SELECT {key} AS k, {_REVENUE} AS r, count(*) AS n FROM orders "
        f"JOIN lineitem ON o_orderkey = l_orderkey WHERE l_suppkey % 1000 <> {number} "
        f"AND o_custkey % 10 < {rng.randrange(2, 9)} GROUP BY {key}"
    )


def _change(rng: Random, number: int) -> partial[None]:
    if rng.random() < 0.6:
        return partial(_append, name=rng.choice(["lineitem", "orders"]), number=number)
    return partial(_overwrite, name=rng.choice(["customer", "part", "supplier"]), number=number)


def copied(data: Path, home: Path) -> Path:
    """The tables as directories of files, which may be added to.

    Args:
        data: TPC-H's tables, a file each, which stay as they are.
        home: a directory on the same file system.
    """
    for table in tpch.TABLES:
        directory = home / f"{table}.parquet"
        directory.mkdir(parents=True)
        os.link(data / f"{table}.parquet", directory / "part-0.parquet")
    return home


def _append(tables: Path, name: str, number: int) -> None:
    """More rows, which are some of the first once again."""
    directory = tables / f"{name}.parquet"
    first = pq.ParquetFile(directory / "part-0.parquet").read_row_group(0)
    rows = first.slice(number % 50 * 100, _APPENDED_ROWS)
    pq.write_table(rows, directory / f"part-{number}.parquet")


def _overwrite(tables: Path, name: str, number: int) -> None:
    """The table without some of its rows, in other files."""
    directory = tables / f"{name}.parquet"
    before = [*directory.iterdir()]
    rows = pq.read_table(directory)
    pq.write_table(rows.slice(number), directory / f"part-0-{number}.parquet")
    for each in before:
        each.unlink()
