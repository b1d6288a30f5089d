"""What a program asks Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query of a program's.

    Attributes:
        name: tells it from others.
        sql: its text, over the tables of TPC-H.
    """

    name: str
    sql: str
