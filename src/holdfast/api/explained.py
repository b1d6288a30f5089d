"""What a job of a table would read of what is kept, and what it would compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """What a job makes of a part of its plan that is cached, or kept by another program."""

    READ = "read"
    TO_BE_KEPT = "to be kept by the next job"
    RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a plan that is cached, or kept by another program.

    Attributes:
        fate: what the next job makes of it.
        name: what it computes.
        facts: what else there is to say of it, a line each.
    """

    fate: Fate
    name: str
    facts: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """It as `explain()` shows it."""
        yield f"{self.fate.value}: {self.name}"
        yield from (f"  {fact}" for fact in self.facts)
