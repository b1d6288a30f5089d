"""Spark's own examples of each of its functions, with one literal changed."""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

from pyspark import SparkContext

from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe

_EXAMPLE = re.compile(r"^\s*> (SELECT .*);$", re.MULTILINE | re.IGNORECASE)
_LITERAL = re.compile(r"'[^'\\]*'|\b\d+(?:\.\d+)?\b|\btrue\b|\bfalse\b|\bNULL\b", re.IGNORECASE)
_NUMBERS = ("0", "1", "2", "3", "10", "-1", "2.5", "0.0", "100")
_TEXTS = ("''", "'a'", "'1'", "'b'", "'2020-01-02'", "'[1]'", "'{\"a\":1}'", "'yyyy'", "'UTC'")


@cache
def _examples() -> tuple[str, ...]:
    """As the Spark that runs documents them."""
    context: Any = SparkContext._active_spark_context
    utils = context._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    texts = {
        text
        for info in utils.listBuiltinFunctionInfos()
        for text in _EXAMPLE.findall(info.getExamples().replace("_FUNC_", info.getName()))
    }
    return tuple(sorted(texts))


def pair(rng: Random) -> Pair:
    """An example, and the same with another literal or with two arguments swapped."""
    first = rng.choice(_examples())
    return Pair(
        dataframe(Node(first, kind="plan")), dataframe(Node(_changed(rng, first), kind="plan"))
    )


def family(rng: Random) -> Family:
    """An example, and the same with other literals."""
    first = rng.choice(_examples())
    texts = [first, *(_changed(rng, first) for _ in range(2 * SIZE))]
    return Family.of_plans(dataframe(Node(text, kind="plan")) for text in texts)


def _changed(rng: Random, text: str) -> str:
    found = list(_LITERAL.finditer(text))
    if not found or rng.random() < 0.1:
        return text
    if len(found) > 1 and rng.random() < 0.2:
        one, other = sorted(rng.sample(found, 2), key=lambda match: match.start())
        return (
            text[: one.start()] + other[0] + text[one.end() : other.start()] + one[0]
            + text[other.end() :]
        )  # fmt: skip
    match = rng.choice(found)
    old = match[0]
    if old.startswith("'"):
        new = rng.choice(
            [*_TEXTS, f"'{old[1:-1]} '", f"'{old[1:-1].swapcase()}'", f"{old} COLLATE UTF8_LCASE"]
        )
    elif old[0].isdigit():
        new = rng.choice(
            [*_NUMBERS, f"{old}L" if old.isdigit() else old, f"{old}D", f"CAST({old} AS STRING)"]
        )
    else:
        new = rng.choice(["true", "false", "NULL", "CAST(NULL AS INT)"])
    return text[: match.start()] + new + text[match.end() :]
