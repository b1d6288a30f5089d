"""What a program asks Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Query:
    """A query of a program's.

    Attributes:
        name: tells it from others.
        sql: its text, over the tables of TPC-H.
        change: made to the tables in a directory before it is asked.
        is_first: a new program asks it.
    """

    name: str
    sql: str
    change: Callable[[Path], None] | None = None
    is_first: bool = False


@dataclass(frozen=True)
class Workload:
    """What a program asks, one after the other.

    Attributes:
        queries: in order.
        target: what all of them may take with the implicit cache, where they take 1 without.
    """

    queries: list[Query]
    target: float
