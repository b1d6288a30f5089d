"""Where a query is cut, found out before its job begins."""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.graph.plan_cuts import CutLimits
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.optimized_query import CutQuery, OptimizedQueries


@dataclass(frozen=True, slots=True)
class PlannedCuts:
    """Where a query is cut.

    Attributes:
        asked: the query over the analyzed plan.
        cut: what Spark's optimizer makes of it, and where that is cut.
        limits: those that it is cut by.
    """

    asked: Query
    cut: CutQuery
    limits: CutLimits

    def by(self, limits: CutLimits, queries: OptimizedQueries) -> PlannedCuts:
        """The same query, cut by limits that may be others.

        Args:
            limits: when a cut is worth it.
            queries: reads what Spark is about to run.
        """
        if limits == self.limits:
            return self
        cuts = tuple(queries.cuts(self.cut.query, limits))
        return replace(self, cut=replace(self.cut, cuts=cuts), limits=limits)
