"""How much past queries tell of the next ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from holdfast.advice.past_query import PastQuery

# What is asked every day counts nearly as if it had been now, and what was asked a month ago next
# to nothing.
_HALF_LIFE = timedelta(days=7).total_seconds()


def always(_: PastQuery) -> float:
    """All count as much."""
    return 1.0


def fading(now: float) -> Callable[[PastQuery], float]:
    """The older a query is, the less it counts: half as much each week.

    Args:
        now: in seconds since 1970; what has a later clock counts as what runs now.

    >>> from holdfast.advice.past_query import PlanPart
    >>> part = PlanPart("a", "Join", 1.0, 0)
    >>> [fading(14 * 86_400.0)(PastQuery("a", "p", 1, "", day * 86_400.0, 1.0, part))
    ...     for day in (0, 7, 14, 15)]
    [0.25, 0.5, 1.0, 1.0]
    """

    def weight(query: PastQuery) -> float:
        return float(0.5 ** (max(0.0, now - query.started) / _HALF_LIFE))

    return weight
