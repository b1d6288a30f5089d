"""What the parts of a query have cost that has been run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.past_query import PlanPart
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.summary import summarize
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.size_estimates import SizeEstimates


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a query has taken.

    Attributes:
        seconds: of its tasks.
        known: of what was read instead of being computed, or was kept on the way: how many seconds
            of tasks it takes to compute, by keys of parts.
    """

    seconds: float
    known: Mapping[str, float]


def measured_parts(
    spark: SparkSession, query: Query, parts: Iterable[AskedPart], cost: QueryCost
) -> PlanPart:
    """The whole of a query, made of the parts that could be kept.

    What the query has taken is dealt out as its operators have worked by what is estimated.

    Args:
        spark: the session that has run it.
        query: over its analyzed plan.
        parts: the topmost ones that could be kept.
        cost: what it has taken.
    """
    estimates = SizeEstimates(spark, query)
    effort = _Effort(lambda node: estimates.facts(node).work)
    rate = cost.seconds / max(1, effort.below(query.root))

    def measured(part: AskedPart) -> PlanPart:
        size = estimates.facts(part.node).size * estimates.share_of(part.node, {*part.places})
        what = summarize(part.node)
        if part.key in cost.known:
            seconds = cost.known[part.key]
            own = (1 - _share_below(part, effort)) * seconds
            inputs: tuple[PlanPart, ...] = ()
        else:
            inputs = tuple(measured(each) for each in part.inputs)
            below = sum(each.seconds for each in inputs)
            seconds = rate * effort.below(part.node)
            own = seconds - below
        extra = max(0.0, own) * part.extra
        own = max(0.0, seconds - sum(each.seconds for each in inputs))
        return PlanPart(part.key, what, own, int(size), inputs, part.columns, extra)

    inputs = tuple(measured(each) for each in parts)
    own = cost.seconds - sum(each.seconds for each in inputs)
    return PlanPart(None, summarize(query.root), max(0.0, own), 0, inputs)


class _Effort:
    """How much work there is below nodes; what stands there twice is done once."""

    def __init__(self, work: Callable[[CanonicalNode], int]) -> None:
        self._work = work

    def below(self, root: CanonicalNode) -> int:
        nodes = {node.digest: node for node in root.walk()}
        return sum(self._work(node) for node in nodes.values())


def _share_below(part: AskedPart, effort: _Effort) -> float:
    inputs = sum(effort.below(each.node) for each in part.inputs)
    return inputs / max(1, effort.below(part.node))
