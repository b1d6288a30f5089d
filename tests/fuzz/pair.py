"""Two computations that are nearly one, and the order in which they are tried."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.fuzz.node import Node
from tests.fuzz.script import Build, Enter, Forget, Run, Script, Step

# A plan of twenty rows runs for less time than its code would take to compile.
_BASE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Pair:
    """A computation and a mutation of it, each with the statements before it is made or run."""

    first: Node
    second: Node
    setup: str = ""
    first_state: str = ""
    second_state: str = ""
    ordered: bool = False
    expects: str = ""
    """Where the second one may read what the first one has kept, as what it is counted."""


def start(rng: Random, setup: str = "") -> Enter:
    """The first step of a case: small settings, and one of several ways to run Spark."""
    settings = {**_BASE, "spark.sql.adaptive.enabled": rng.choice(["true", "false"])}
    if rng.random() < 0.1:
        settings = {"spark.sql.shuffle.partitions": "2"}
    lines = [f"setting({key!r}, {value!r})" for key, value in settings.items()]
    return Enter("start", "\n".join([*lines, *([setup] if setup else [])]))


def briefly(label: str, rng: Random, pair: Pair) -> Script:
    """The case of a pair in one order, to show what digests have told."""
    steps: list[Step] = [
        start(rng, pair.setup),
        *(Enter("first", pair.first_state), Build("a", pair.first, cached=True), Run("a")),
        *(Enter("second", pair.second_state), Build("b", pair.second), Run("b", pair.ordered)),
    ]
    return Script(label, tuple(steps))


def played(label: str, rng: Random, pair: Pair) -> Script:
    """The case of a pair, in both orders."""
    first, second = Enter("first", pair.first_state), Enter("second", pair.second_state)
    ordered = pair.ordered
    steps: list[Step] = [
        start(rng, pair.setup),
        *(first, Build("a", pair.first, cached=True), Run("a", ordered)),
        *(second, Build("b", pair.second), Run("b", ordered, expects_read=pair.expects)),
        *(first, Build("a_again", pair.first), Run("a_again", ordered, expects_read="itself")),
        Forget(),
        *(second, Build("b_kept", pair.second, cached=True)),
        *(first, Build("a_early", pair.first)),
        *(second, Run("b_kept", ordered)),
        *(first, Run("a_early", ordered)),
    ]
    if not (pair.first_state or pair.second_state):
        steps = [step for step in steps if step not in (first, second)]
    return Script(label, tuple(steps))
