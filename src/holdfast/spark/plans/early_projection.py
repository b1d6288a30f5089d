"""Queries in which columns are dropped early, so that a part of them is what is kept elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import AskedPart
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.canonicalizer import digest_of
from holdfast.plan.terms import digests
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.jvm_members import JvmMembers


class EarlyProjections:
    """Drops columns of parts of queries that nothing above the parts uses.

    Args:
        spark: the session that runs the queries.
        bridge: reads and rewrites its plans.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._jvm = JvmMembers.of(spark)

    def of(self, query: Query, parts: Sequence[tuple[AskedPart, frozenset[str]]]) -> Query:
        """A query with the same rows in which these parts put out these columns alone.

        Args:
            query: over the analyzed plan.
            parts: of it, none of them below another one, and for each what the columns are of its
                rows that stay: at least those that are used above it.
        """
        replacements = {
            part.top.handle: self._projected(query, part, columns)
            for part, columns in parts
            if part.top.digest != digest_of(part.node.rows, columns)
        }
        if not replacements:
            return query
        return self._bridge.read(self._bridge.substitute_upwards(query, replacements))

    def _projected(self, query: Query, part: AskedPart, columns: frozenset[str]) -> Any:
        plan, top = (query.reading.node(each.handle) for each in (part.node, part.top))
        # Of equal columns each may be used.
        kept = [place for place, column in enumerate(part.node.columns) if column.digest in columns]
        # What is kept may have more than this query uses, which calls columns as it likes.
        return self._project(top.output(), part.used, self._project(plan.output(), kept, plan))

    def _project(self, attributes: Any, places: Iterable[int], child: Any) -> Any:
        columns = [attributes.apply(place) for place in places]
        return self._jvm.project(self._jvm.to_seq(columns), child)


def part_with(
    root: CanonicalNode, node: CanonicalNode, columns: frozenset[str]
) -> CanonicalNode | None:
    """The part of a plan that has the rows of a node, and these columns; None where none has.

    Args:
        root: the canonical plan of what `EarlyProjections.of` has given.
        node: of the canonical plan of what that was made of.
        columns: what they are of the rows.
    """
    for each in root.walk():
        # What distributes the rows of another node has them as well.
        if each.layout is not None or each.rows.digest != node.rows.digest:
            continue
        if columns == frozenset(digests(each.columns)):
            return each
    return None
