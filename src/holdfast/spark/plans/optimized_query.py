"""Queries over optimized plans: what Spark is about to run, in the form that cuts are made in."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.graph.plan_cuts import CutLimits, Facts, choose_cuts, is_worth_retaining
from holdfast.graph.task_sizes import PlanEffort, plan_effort
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.keepable_types import is_keepable
from holdfast.spark.plans.kept_sources import KeptSources
from holdfast.spark.plans.size_estimates import SizeEstimates
from holdfast.spark.session_settings import session_under
from holdfast.storage.kept_dataset import KeptDataSet

logger = logging.getLogger(__name__)

# What Spark adds to filter earlier at run time; it does so again when the rewritten plan is run.
_WITHOUT_RUNTIME_FILTERS = {
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
}


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a plan that is kept while the plan runs.

    Attributes:
        node: the part, as a node of the whole query; what is kept is read in its place.
        query: the part as a query of its own.
    """

    node: CanonicalNode
    query: Query


@dataclass(frozen=True, slots=True)
class CutQuery:
    """What Spark is about to run, and where it is cut.

    Attributes:
        query: an optimized query.
        cuts: its cuts, lower ones before those above them.
        retains: what its shuffles write is worth keeping.
        effort: what it reads and does.
    """

    query: Query
    cuts: tuple[Cut, ...]
    retains: bool
    effort: PlanEffort


class OptimizedQueries:
    """Reads what Spark's optimizer makes of plans.

    Args:
        spark: the session that runs them.
        bridge: reads and rewrites its plans.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._spark = spark
        self._bridge = bridge
        self._jvm = JvmMembers.of(spark)

    def of(self, plan: Any, inputs: SessionInputs, kept: Iterable[KeptDataSet] = ()) -> Query:
        """The optimized form of an analyzed plan. Runs nothing.

        The same plan over the same data has the same digests in every application, where it has no
        doubts. Filters that Spark adds for run time are left out: whoever runs the query's plan
        gets them anew.

        Args:
            plan: the JVM's analyzed plan.
            inputs: the settings that it runs under.
            kept: datasets of this application that the plan reads; they count by what they are the
                result of, and not by where they lie this time.
        """
        session = session_under(self._spark, inputs, _WITHOUT_RUNTIME_FILTERS)
        plan = self._bridge.copied(plan, session)
        optimized = self._jvm.of_rows(session, plan).queryExecution().optimizedPlan()
        sources = KeptSources(kept)
        # Partitions and map outputs of an earlier start go together with this one's.
        query = self._bridge.read(
            optimized, lambda reading: sources.named(reading.operators), as_written=True
        )
        return replace(query, root=sources.guarded(query.root, query.reading.operators))

    def cut(
        self,
        plan: Any,
        inputs: SessionInputs,
        limits: CutLimits,
        kept: Iterable[KeptDataSet] = (),
    ) -> CutQuery | None:
        """Where an analyzed plan is cut; None for one that can't be followed, which is logged.

        Args:
            plan: the JVM's analyzed plan.
            inputs: the settings that it runs under.
            limits: when a cut is worth it.
            kept: datasets of this application that the plan reads.

        Raises:
            PySparkException: when Spark itself doesn't take the plan.
        """
        try:
            query = self.of(plan, inputs, kept)
            facts = SizeEstimates(self._spark, query).facts
            cuts = tuple(self._cuts(query, facts, limits))
            retains = is_worth_retaining(query.root, facts, limits)
            return CutQuery(query, cuts, retains, plan_effort(query.root, facts))
        except PySparkException:
            raise
        except Exception:
            logger.warning("can't analyze a plan; running it without recovery", exc_info=True)
            return None

    def part(self, query: Query, node: CanonicalNode) -> Query:
        """A node of an optimized query as a query of its own."""
        plan = query.reading.node(node.handle)
        # An optimized plan is no input of the analyzer: it would be turned down, or changed.
        plan.setAnalyzed()
        return Query(node, plan, query.reading)

    def cuts(self, query: Query, limits: CutLimits | None = None) -> list[Cut]:
        """Where an optimized query is worth cutting, lower cuts before those above them.

        Args:
            query: what `of` gave.
            limits: when a cut is worth it.
        """
        return self._cuts(query, SizeEstimates(self._spark, query).facts, limits)

    def _cuts(self, query: Query, facts: Facts, limits: CutLimits | None) -> list[Cut]:
        return [
            Cut(node, self.part(query, node))
            for node in choose_cuts(query.root, facts, limits)
            if is_keepable(self._spark, query.reading.node(node.handle))
        ]
