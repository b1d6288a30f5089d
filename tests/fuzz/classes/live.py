"""Queries that nothing is cached of, which may read the shuffles that others have left."""

from __future__ import annotations

from random import Random

from tests.fuzz.classes import arithmetic, moved_partitions
from tests.fuzz.family import Family, together
from tests.fuzz.script import Script

_MOST = 6


def order(rng: Random, label: str) -> Script:
    """A query with its operands in several orders."""
    return _played(rng, label, arithmetic.family(rng))


def partitions(rng: Random, label: str) -> Script:
    """A query while partitions move."""
    return _played(rng, label, moved_partitions.family(rng))


def _played(rng: Random, label: str, family: Family) -> Script:
    return together(label, rng, family.only(family.variants[:_MOST]), cached=False)
