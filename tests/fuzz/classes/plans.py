"""A query, and the same with any one thing changed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fuzz.family import SIZE, Family
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe, mutation, query


def pair(rng: Random) -> Pair:
    """Two queries that differ in one place."""
    first = query(rng, rng.randint(1, 3))
    second = mutation(rng, first)
    return Pair(dataframe(first.sql), dataframe(second), ordered=first.ordered)


def family(rng: Random) -> Family:
    """A query, and what comes of it by one change after another."""
    first = query(rng, rng.randint(1, 3))
    made = [first]
    for _ in range(SIZE - 1):
        made.append(replace(first, sql=mutation(rng, rng.choice(made))))
    return Family.of_plans((dataframe(each.sql) for each in made), ordered=first.ordered)
