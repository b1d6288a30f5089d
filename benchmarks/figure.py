"""Something measured, and what was to be reached."""

from __future__ import annotations

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Something measured, and what was to be reached.

    Attributes:
        what: what was measured.
        values: one for each counted round.
        unit: what they count.
        target: what was to be reached.
        at_least: whether more is better.
        sides: what a ratio was made from, in words.
    """

    what: str
    values: tuple[float, ...]
    unit: str
    target: float
    at_least: bool
    sides: str = ""

    @property
    def value(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.values)

    @property
    def reached(self) -> bool:
        """Whether the median is what was to be reached."""
        return self.value >= self.target if self.at_least else self.value <= self.target
