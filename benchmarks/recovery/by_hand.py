"""`checkpoint()` placed by hand, at the very cuts that recovery makes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.graph.plan_cuts import CutLimits
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.substitution import find_matches
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.optimized_query import OptimizedQueries
from holdfast.spark.session_settings import session_inputs


def checkpointed(spark: SparkSession, text: str) -> DataFrame:
    """A query above checkpoints; these are made at once, as `checkpoint()` does.

    Args:
        spark: a session with a checkpoint directory.
        text: the query.
    """
    bridge = CatalystBridge(spark, "by hand")
    analyzed = spark.sql(text)._jdf.queryExecution().analyzed()
    cut_query = OptimizedQueries(spark, bridge).cut(analyzed, session_inputs(spark), CutLimits())
    assert cut_query is not None
    made: dict[str, Any] = {}

    def above(part: Query, root: CanonicalNode, below_root: bool) -> DataFrame:
        nodes = find_matches(root, lambda node: node.digest in made, below_root=below_root)
        replacements = {node.handle: made[node.digest] for node in nodes}
        return bridge.dataframe(bridge.substitute(part, replacements))

    for cut in cut_query.cuts:
        part = above(cut.query, cut.node, True).checkpoint()
        made[cut.node.digest] = part._jdf.logicalPlan()
    return above(cut_query.query, cut_query.query.root, False)
