"""Where a query is cut, found out before its job begins."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.recovery.optimized_query import Cut


@dataclass(frozen=True, slots=True)
class PlannedCuts:
    """Where a query is cut.

    Attributes:
        asked: the query over the analyzed plan.
        optimized: what Spark's optimizer makes of it.
        cuts: where that is cut, lower ones first.
    """

    asked: Query
    optimized: Query
    cuts: tuple[Cut, ...]
