"""Spark's own cache, which may be older than what it was made of."""

from __future__ import annotations

from random import Random

from tests.fuzz.node import Node
from tests.fuzz.pair import start
from tests.fuzz.script import Build, Enter, Forget, Run, Script, Step

_ABOVE = ("", ".where('a > 0')", ".groupBy('b').count()", ".selectExpr('a + 1 AS a')",
          ".join(spark.range(3), F.col('a') == F.col('id'))")  # fmt: skip


def script(rng: Random, label: str) -> Script:
    """Files are held by Spark's cache, then replaced; later Spark lets go of them."""
    held, above = rng.choice(_ABOVE), rng.choice(_ABOVE)
    if rng.random() < 0.5:
        held = ""
    read = "spark.read.parquet(home + '/f')"
    rows = "[{'a': i, 'b': %r} for i in range(%d)]"
    old, new = rows % ("x", rng.choice([3, 4])), rows % (rng.choice("xy"), rng.choice([3, 5]))
    plan = Node(read + above)
    stale = Enter(
        "stale", f"parquet('f', {old}, stamp=1)\nhold({read}{held})\nparquet('f', {new}, stamp=2)"
    )
    fresh = Enter("fresh", "release()")
    steps: list[Step] = [
        start(rng, "from pyspark.sql import functions as F"),
        stale,
        *(Build("a", plan, cached=True), Run("a", past_cache=True)),
        *(fresh, Build("b", plan), Run("b")),
    ]
    if rng.random() < 0.5:
        again = Enter("held", f"hold({read}{held})\nparquet('f', {old}, stamp=3)")
        steps += [
            Forget(),
            Build("c", plan, cached=True),
            Run("c"),
            again,
            Build("d", plan),
            Run("d", past_cache=True),
        ]
    return Script(label, tuple(steps))
