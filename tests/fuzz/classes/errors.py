"""What fails for some rows or columns, below a query that asks for none of these."""

from __future__ import annotations

from random import Random

from tests.fuzz.node import Node, listed
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe

_FAILING = listed(r"""
CAST(s AS INT) ~ 1 / (i - 3) ~ array(1, 2)[i] ~ raise_error(s) ~ assert_true(i < 3)
map('a', 1, s, 2) ~ CAST(i * 100 AS TINYINT) ~ to_date(s, 'yyyy')
(SELECT k2 FROM other WHERE i2 > i)
""")
_SOURCES = ("wide", "files", "(SELECT * FROM wide WHERE i < 3)", "(SELECT * FROM files LIMIT 2)")
_ABOVE = (
    "SELECT k FROM ({}) AS t",
    "SELECT count(*) AS c FROM ({}) AS t",
    "SELECT k, e FROM ({}) AS t WHERE i < 2",
    "SELECT k, e FROM ({}) AS t WHERE false",
    "SELECT k FROM ({}) AS t LIMIT 1",
    "SELECT max(k) AS m FROM ({}) AS t WHERE i = 1",
    "SELECT * FROM ({}) AS t",
)


def pair(rng: Random) -> Pair:
    """A query that may fail, and one above it that may not."""
    failing, source = rng.choice(_FAILING), rng.choice(_SOURCES)
    first = Node(f"SELECT k, i, {failing} AS e FROM {source}", kind="plan")
    above = Node(rng.choice(_ABOVE), (first,), "plan")
    return Pair(dataframe(first), dataframe(above))
