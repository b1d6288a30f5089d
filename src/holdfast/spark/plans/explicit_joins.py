"""Queries with conditions of joins in their joins, not in filters above these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import SparkSession

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.implicit_joins import ImplicitJoin, implicit_joins
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.jvm_members import JvmMembers


class ExplicitJoins:
    """Writes `FROM a, b WHERE a.x = b.y AND …` as `FROM a JOIN b ON a.x = b.y WHERE …`.

    So what several queries join has one form in all of them, without the other conditions.

    Args:
        spark: the session that runs the queries.
        bridge: reads and rewrites its plans.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._jvm = JvmMembers.of(spark)

    def of(self, query: Query) -> Query:
        """A query with the same rows; the same object where all joins have their conditions.

        Args:
            query: over the analyzed plan.
        """
        nodes = {node.handle: node for node in query.root.walk()}
        written = {
            each.filter: self._written(query, nodes[each.filter], each)
            for each in implicit_joins(query.root, query.reading.operators)
        }
        replacements = {handle: plan for handle, plan in written.items() if plan is not None}
        if not replacements:
            return query
        return self._bridge.read(self._bridge.substitute(query, replacements))

    def _written(self, query: Query, node: CanonicalNode, join: ImplicitJoin) -> Any:
        plan, reading = query.reading.node(node.handle), query.reading
        split = self._jvm.conjuncts_of(plan.condition())
        if split.size() != len(join.others) + sum(map(len, join.conditions)):
            # What was read is simpler than what is written, such as without `1 = 1`.
            return None
        conjuncts = [split.apply(number) for number in range(split.size())]
        first, *others = join.inputs
        joined = reading.node(first)
        for handle, numbers in zip(others, join.conditions, strict=True):
            condition = self._jvm.some(self._all(conjuncts, numbers))
            other = reading.node(handle)
            joined = self._jvm.join(joined, other, self._jvm.inner, condition, self._jvm.no_hint)
        if not join.in_order:
            joined = self._jvm.project(plan.output(), joined)
        if not join.others:
            return joined
        return self._jvm.filter(self._all(conjuncts, join.others), joined)

    def _all(self, conjuncts: Sequence[Any], numbers: Sequence[int]) -> Any:
        return reduce(self._jvm.all_of, [conjuncts[number] for number in numbers])
