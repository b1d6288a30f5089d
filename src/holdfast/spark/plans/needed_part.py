"""Which part of a result a query needs that reads it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import SparkSession

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL, OperatorDocument
from holdfast.plan.needed_columns import NeededColumns, used_columns
from holdfast.runtime.saved_time import NeededPart
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.effort import Effort
from holdfast.spark.plans.size_estimates import SizeEstimates

_FILTER = LOGICAL + "Filter"
# What Spark moves filters through.
_PASSES_FILTERS = frozenset(
    LOGICAL + name for name in ("Filter", "Project", "SubqueryAlias", "View", "ResolvedHint")
)


def needed_part(spark: SparkSession, query: Query, digest: str) -> NeededPart:
    """How much of a result a query needs.

    Args:
        spark: the session that runs it.
        query: over its analyzed plan, with the result's computation in it.
        digest: of the computation.
    """
    nodes = {node.handle: node for node in query.root.walk()}
    found = next((node for node in nodes.values() if node.digest == digest), None)
    if found is None:
        return NeededPart()
    estimates = SizeEstimates(spark, query)
    operators = query.reading.operators
    here = _effort(estimates, operators, nodes)
    whole = _effort(estimates, _below(operators, found.handle), nodes).of(found)
    passed = _passed(estimates, NeededColumns(operators), nodes, found)
    # Files are read before their rows are filtered.
    read = here.reading(found)
    work = (read + passed * (here.of(found) - read)) / max(1.0, whole)
    return NeededPart(min(1.0, work), here.share(found))


def _effort(
    estimates: SizeEstimates,
    operators: Sequence[OperatorDocument],
    nodes: Mapping[int, CanonicalNode],
) -> Effort:
    used = used_columns(operators, {handle: node.output for handle, node in nodes.items()})

    def needed(node: CanonicalNode) -> Collection[int] | None:
        return used.get(node.handle)

    return Effort(estimates, needed)


def _passed(
    estimates: SizeEstimates,
    needed: NeededColumns,
    nodes: Mapping[int, CanonicalNode],
    of: CanonicalNode,
) -> float:
    """Which part of a node's rows the filters above it let pass, by a guess."""
    passed, handle = 1.0, of.handle
    while (parent := needed.parent(handle)) is not None and parent["c"] in _PASSES_FILTERS:
        below, handle = nodes.get(handle), parent["i"]
        above = nodes.get(handle)
        if parent["c"] == _FILTER and below is not None and above is not None:
            passed *= estimates.rows(above) / max(1.0, estimates.rows(below))
    return min(1.0, passed)


def _below(operators: Sequence[OperatorDocument], handle: int) -> Sequence[OperatorDocument]:
    """A node and what is below it, of operators in pre-order."""
    start = next((place for place, each in enumerate(operators) if each["i"] == handle), 0)
    end, open_inputs = start, 1
    while open_inputs and end < len(operators):
        open_inputs += operators[end]["n"] - 1
        end += 1
    return operators[start:end]
