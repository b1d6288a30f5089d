"""A query that has been run: what its parts cost, and which of them others have computed too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A part of a query's plan that could be cached, with all below it; or the whole query.

    Attributes:
        key: the same for parts that compute the same over the same; None where that isn't known,
            so that nothing is like it.
        what: what it computes, for people.
        own_seconds: of tasks, without what its inputs have cost.
        bytes: of its rows, as they were shuffled, broadcast or collected, or else estimated.
        inputs: the parts that it is made of.
        columns: what the columns that the query uses are of the part's rows; empty where a key
            stands for certain columns.
        template: the same for parts that compute the same with whatever literals, over whatever
            versions of their files; None where that isn't known.
        extra_seconds: of tasks, that computing all of its rows would have taken more, where the
            query uses some alone.
        generation: of which parts with the same key are; what is kept of one serves no other one.
        rows: how many it has; None where no query has told.
        seconds: of its tasks and of all below it: what it cost to compute.
    """

    key: str | None
    what: str
    own_seconds: float
    bytes: int
    inputs: tuple[PlanPart, ...] = ()
    columns: tuple[str, ...] = ()
    extra_seconds: float = 0.0
    template: str | None = None
    generation: str = ""
    rows: int | None = None
    seconds: float = field(init=False)

    def __post_init__(self) -> None:
        below = sum(each.seconds for each in self.inputs)
        object.__setattr__(self, "seconds", self.own_seconds + below)

    def walk(self) -> Iterator[PlanPart]:
        """The part and all below it, upper ones first."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting.extend(reversed(part.inputs))


@dataclass(frozen=True, slots=True)
class PastQuery:
    """A query that has ended well.

    Attributes:
        application: the identifier of the program that ran it, as Spark has given it.
        program: the program's name.
        number: tells it from other queries of the program.
        what: what ran it, as Spark says it, such as `count at report.py:12`.
        started: when it began, in seconds since 1970.
        elapsed: how long it took, in seconds.
        root: the whole query.
        bytes_read: of files; 0 where unknown.
        shuffle_bytes: that its tasks have written for others; 0 where unknown.
        reused: how many shuffles and broadcasts of earlier queries it has read.
        reused_seconds: that the tasks of these had taken.
    """

    application: str
    program: str
    number: int
    what: str
    started: float
    elapsed: float
    root: PlanPart
    bytes_read: int = 0
    shuffle_bytes: int = 0
    reused: int = 0
    reused_seconds: float = 0.0
