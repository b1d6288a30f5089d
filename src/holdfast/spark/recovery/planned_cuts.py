"""Where a query is cut, found out before its job begins."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.optimized_query import CutQuery


@dataclass(frozen=True, slots=True)
class PlannedCuts:
    """Where a query is cut.

    Attributes:
        asked: the query over the analyzed plan.
        cut: what Spark's optimizer makes of it, and where that is cut.
    """

    asked: Query
    cut: CutQuery
