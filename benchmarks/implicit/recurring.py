"""TPC-H's queries with other parameters each time, and queries of which nothing repeats."""

from __future__ import annotations

import re
from random import Random

from benchmarks import tpch
from benchmarks.implicit.workload import Query

_DATE = re.compile(r"'(199\d)(-\d\d-\d\d)'")
# Words of a group may take each other's place.
_GROUPS = (
    ("BUILDING", "AUTOMOBILE", "MACHINERY", "HOUSEHOLD", "FURNITURE"),
    ("EUROPE", "ASIA", "AMERICA", "AFRICA", "MIDDLE EAST"),
    ("FRANCE", "GERMANY", "BRAZIL", "SAUDI ARABIA", "CANADA", "KENYA"),
    ("MAIL", "SHIP", "AIR", "RAIL"),
    ("Brand#23", "Brand#12", "Brand#34", "Brand#45"),
)
_TABLES = re.compile(r"FROM [^()]*?(?=WHERE|GROUP|ORDER|LEFT|\Z)|JOIN \w+", re.DOTALL)
_FIRST_COLUMNS = {
    "customer": "c_custkey",
    "lineitem": "l_orderkey",
    "nation": "n_nationkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey",
    "region": "r_regionkey",
    "supplier": "s_suppkey",
}
_KEYS = ("l_shipmode", "l_returnflag", "l_linestatus", "l_shipinstruct", "l_tax")


def repeated(seed: int, times: int) -> list[Query]:
    """The 22 queries, several times, each time with other parameters.

    Args:
        seed: of the parameters.
        times: how often.
    """
    rng = Random(seed)
    return [
        Query(f"{name}, {time + 1}", _with_parameters(sql, rng))
        for time in range(times)
        for name, sql in tpch.QUERIES.items()
    ]


def _with_parameters(sql: str, rng: Random) -> str:
    shift = rng.choice([-1, 0, 1])
    sql = _DATE.sub(lambda found: f"'{_year(int(found[1]) + shift)}{found[2]}'", sql)
    for group in _GROUPS:
        turn = rng.randrange(len(group))
        others = {word: group[(index + turn) % len(group)] for index, word in enumerate(group)}
        words = "|".join(map(re.escape, group))
        sql = re.sub(f"'({words})'", lambda found, others=others: f"'{others[found[1]]}'", sql)  # type: ignore[misc]
    return sql


def _year(year: int) -> int:
    return min(max(year, 1992), 1998)


def nothing_repeats(seed: int, turn: int) -> list[Query]:
    """A hundred queries that have nothing in common.

    Args:
        seed: of the queries.
        turn: another one asks for the same rows by conditions that no query had before, so that
            Spark compiles each query once.
    """
    return [*_nothing_twice(seed, 34, turn), *_other_rows(66, turn)]


def _nothing_twice(seed: int, queries: int, turn: int) -> list[Query]:
    """Aggregates of which no two read the same rows.

    Args:
        seed: of the queries.
        queries: how many.
        turn: see `nothing_repeats`.
    """
    rng = Random(seed)
    found = []
    for number in range(queries):
        key, low = rng.choice(_KEYS), number * 37 % 1000
        condition = f"l_orderkey % 1000 >= {low} AND l_partkey % 97 <> {number}"
        condition += f" AND l_orderkey <> {-1 - number - turn * queries}"
        # Not even the join is asked for twice: it is one of other rows.
        tables = f"(SELECT * FROM lineitem WHERE {condition})"
        measure = "l_extendedprice"
        if number % 2:
            tables, measure = f"{tables} JOIN orders ON l_orderkey = o_orderkey", "o_totalprice"
        columns = f"{key} AS k, sum({measure}) AS m, count(*) AS n"
        sql = f"SELECT {columns} FROM {tables} GROUP BY {key}"
        found.append(Query(f"query {number + 1}", sql))
    return found


def _other_rows(queries: int, turn: int) -> list[Query]:
    """The 22 queries by turns, each time over other rows of all tables.

    Args:
        queries: how many.
        turn: see `nothing_repeats`.
    """
    names = [*tpch.QUERIES]
    return [
        Query(
            f"{names[number % len(names)]} over rows {number}",
            _over(names[number % len(names)], number + turn * queries),
        )
        for number in range(queries)
    ]


def _over(name: str, number: int) -> str:
    words = re.compile(rf"\b({'|'.join(_FIRST_COLUMNS)})\b")

    def some(table: re.Match[str]) -> str:
        # It leaves out nothing, which nobody knows before.
        return f"(SELECT * FROM {table[0]} WHERE {_FIRST_COLUMNS[table[0]]} <> {-1 - number})"

    return _TABLES.sub(lambda found: words.sub(some, found[0]), tpch.QUERIES[name])
