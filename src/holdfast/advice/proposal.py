"""What is proposed to be cached, and what that would have saved."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.advice.past_query import PastQuery


@dataclass(frozen=True, slots=True)
class StorageRates:
    """How fast a task writes and reads what is kept, in bytes of rows a second.

    Attributes:
        written: of writing rows.
        read: of reading them again.
    """

    written: float = 48 * 2**20
    read: float = 128 * 2**20


AS_IN_FILES = StorageRates(written=10 * 2**20, read=32 * 2**20)
"""The same where bytes are counted as Parquet has them, compressed."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A part of several queries that is worth keeping.

    Attributes:
        key: of the part, see `PlanPart`.
        what: what it computes, for people.
        bytes: of its rows, where a query has needed most of their columns.
        seconds: of tasks, to compute it, in the median of all queries.
        queries: those that would have read it, or computed it to be kept, in order.
        reads: how often it would have been read.
        saved_seconds: of tasks: what reading it would have saved, less what writing it would have
            cost.
    """

    key: str
    what: str
    bytes: int
    seconds: float
    queries: tuple[PastQuery, ...]
    reads: int
    saved_seconds: float
