"""The classes of mutation: each makes cases of its kind from a source of chance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from tests.fuzz.classes import (
    aggregates,
    arithmetic,
    functions,
    literals,
    live,
    malformed,
    metadata,
    moved_partitions,
    plans,
    programs,
    push_down,
    python_steps,
    registry,
    rewrites,
    settings,
    sources,
    throwing,
)
from tests.fuzz.family import Family, together
from tests.fuzz.pair import Pair, played
from tests.fuzz.script import Script

PAIRS: dict[str, Callable[[Random], Pair]] = {
    "aggregates": aggregates.pair,
    "arithmetic": arithmetic.pair,
    "functions": functions.pair,
    "literals": literals.pair,
    "malformed": malformed.pair,
    "metadata": metadata.pair,
    "moved-partitions": moved_partitions.pair,
    "plans": plans.pair,
    "push-down": push_down.pair,
    "python-steps": python_steps.pair,
    "registry": registry.pair,
    "rewrites": rewrites.pair,
    "settings": settings.pair,
    "sources": sources.pair,
}
"""Those that make pairs, whose digests alone tell much."""

FAMILIES: dict[str, Callable[[Random], Family]] = {
    "aggregates": aggregates.family,
    "arithmetic": arithmetic.family,
    "functions": functions.family,
    "literals": literals.family,
    "malformed": malformed.family,
    "metadata": metadata.family,
    "moved-partitions": moved_partitions.family,
    "plans": plans.family,
    "push-down": push_down.family,
    "python-steps": python_steps.family,
    "registry": registry.family,
    "rewrites": rewrites.family,
    "settings": settings.family,
    "sources": sources.family,
}
"""Those that make many computations that are nearly one."""

SCRIPTS: dict[str, Callable[[Random, str], Script]] = {
    "live-order": live.order,
    "live-partitions": live.partitions,
    "programs": programs.of_spark,
    "throwing": throwing.script,
    "programs-hive": programs.of_hive,
}
"""Those whose cases are more than two computations."""

CLASSES = (*PAIRS, *SCRIPTS)

HIVE = frozenset({"programs-hive"})
"""Those that need Hive's tables; Spark refuses them where a session has none."""

_STEADY = frozenset(
    {
        *("arithmetic", "live-order", "live-partitions", "malformed", "moved-partitions"),
        *("programs", "programs-hive", "throwing"),
    }
)


def case(name: str, seed: int) -> Script:
    """The case of a class and a seed: the same one each time."""
    label = f"{name} {seed}"
    rng = Random(label)
    made = SCRIPTS[name](rng, label) if name in SCRIPTS else played(label, rng, PAIRS[name](rng))
    return replace(made, is_steady=name in _STEADY)


def pair_of(name: str, seed: int) -> Pair:
    """The pair that the case of a class and a seed is made of."""
    return PAIRS[name](Random(f"{name} {seed}"))


def family_of(name: str, seed: int) -> Family:
    """The family of a class and a seed: the same one each time."""
    return FAMILIES[name](Random(f"{name} family {seed}"))


def case_of(name: str, seed: int, family: Family) -> Script:
    """The case of a family of a class, of which some may be left out."""
    label = f"{name} family {seed}"
    return replace(together(label, Random(label), family), is_steady=name in _STEADY)
