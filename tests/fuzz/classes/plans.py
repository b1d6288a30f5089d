"""A query, and the same with any one thing changed."""

from __future__ import annotations

from random import Random

from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe, mutation, query


def pair(rng: Random) -> Pair:
    """Two queries that differ in one place."""
    first = query(rng, rng.randint(1, 3))
    second = mutation(rng, first)
    return Pair(dataframe(first.sql), dataframe(second), ordered=first.ordered)
