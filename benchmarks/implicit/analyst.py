"""An analyst's session: questions that drill into three joins, made from a seed."""

from __future__ import annotations

from random import Random

from benchmarks.implicit.workload import Query

_JOINS = {
    "customer, orders and lineitem": (
        "customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey",
        ("c_mktsegment", "o_orderpriority", "l_shipmode", "l_returnflag", "year(o_orderdate)"),
        (
            "sum(l_extendedprice * (1 - l_discount))",
            "sum(l_quantity)",
            "count(*)",
            "avg(l_extendedprice)",
        ),
        (
            "l_shipmode = 'AIR'",
            "o_orderdate >= DATE'1997-01-01'",
            "c_mktsegment = 'BUILDING'",
            "l_returnflag = 'R'",
        ),
    ),
    "part, supplier and lineitem": (
        "part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON l_suppkey = s_suppkey",
        ("p_brand", "p_size", "s_nationkey", "p_mfgr", "l_linestatus"),
        ("sum(l_extendedprice)", "sum(l_quantity)", "count(*)", "max(l_extendedprice)"),
        ("p_size < 10", "p_brand = 'Brand#23'", "s_nationkey = 7", "p_mfgr = 'Manufacturer#1'"),
    ),
    "part, supplier and partsupp": (
        "partsupp JOIN part ON ps_partkey = p_partkey JOIN supplier ON ps_suppkey = s_suppkey",
        ("p_brand", "p_type", "s_nationkey", "p_container"),
        ("sum(ps_supplycost * ps_availqty)", "min(ps_supplycost)", "count(*)"),
        ("p_size < 10", "s_nationkey = 7", "p_container LIKE 'SM%'"),
    ),
}
_FROM_THE_JOIN = 0.4
_SAME_AGAIN = 0.15


def session(seed: int, queries: int) -> list[Query]:
    """What an analyst asks: of a join, then of the answer in more and more detail.

    Args:
        seed: of the session.
        queries: how many.
    """
    rng = Random(seed)
    asked: list[Query] = []
    last = ""
    for number in range(queries):
        draw = rng.random()
        if not last or draw < _FROM_THE_JOIN:
            last = _aggregate(rng)
            sql = last
        elif draw < _FROM_THE_JOIN + _SAME_AGAIN:
            sql = last
        else:
            sql = _drilled(rng, last)
        asked.append(Query(f"question {number + 1}", sql))
    return asked


def _aggregate(rng: Random) -> str:
    tables, dimensions, measures, filters = _JOINS[rng.choice([*_JOINS])]
    keys = rng.sample(dimensions, rng.choice([1, 2, 2]))
    chosen = rng.sample(measures, 2)
    columns = [f"{each} AS k{index}" for index, each in enumerate(keys)]
    columns += [f"{each} AS m{index}" for index, each in enumerate(chosen)]
    where = f" WHERE {rng.choice(filters)}" if rng.random() < 0.3 else ""
    return f"SELECT {', '.join(columns)} FROM {tables}{where} GROUP BY {', '.join(keys)}"


def _drilled(rng: Random, aggregate: str) -> str:
    """A question about an answer: its extremes, a part of it, its totals, shares of it."""
    return rng.choice(
        (
            f"SELECT * FROM ({aggregate}) ORDER BY m0 DESC, k0 LIMIT 10",
            f"SELECT * FROM ({aggregate}) WHERE m1 > (SELECT avg(m1) FROM ({aggregate}))",
            f"SELECT k0, sum(m0) AS m0, count(*) AS n FROM ({aggregate}) GROUP BY k0",
            f"SELECT *, rank() OVER (ORDER BY m0 DESC) AS r FROM ({aggregate})",
            f"SELECT count(*) AS n, max(m0) AS m0, min(m1) AS m1 FROM ({aggregate})",
        )
    )
