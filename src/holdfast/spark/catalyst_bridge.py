"""The way from DataFrames to canonical plans, and back with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.canonicalizer import Canonicalizer
from holdfast.plan.document import OperatorDocument
from holdfast.spark.cache_entries import reached_partitions
from holdfast.spark.fresh_plans import FreshPlans
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.last_run import LastRun
from holdfast.spark.plan_reader import PlanReader, PlanReading
from holdfast.spark.python_functions import passes_on, pickled_function_digest


@dataclass(frozen=True, slots=True)
class Query:
    """A DataFrame's plan in both its forms.

    Attributes:
        root: the canonical plan.
        plan: the analyzed plan in the JVM, over listed files, see `PlanReading.node`.
        reading: the way from the one's nodes to the other's.
        dataframe: whose plan it is, with what Spark has made of it; None for a plan alone.
        last_run: what its last job was run as, for the next one; None where each is planned anew.
    """

    root: CanonicalNode
    plan: Any
    reading: PlanReading
    dataframe: DataFrame | None = None
    last_run: LastRun | None = None

    @property
    def written(self) -> Any:
        """The analyzed plan in the JVM as it was written, which Spark's own cache knows."""
        return self.reading.original(self.root.handle)


Identified = Callable[[PlanReading], list[OperatorDocument]]
"""For a reading, its operators with what is not to count in digests taken out."""


class CatalystBridge:
    """Reads and rewrites the plans of one session.

    Args:
        spark: a classic session.
        session: a text that no other application has.
        portable: files count in digests as they look on every machine that has them.
    """

    def __init__(self, spark: SparkSession, session: str, *, portable: bool = False) -> None:
        self._spark = spark
        self._session = session
        self._portable = portable
        self._jvm = JvmMembers.of(spark)

    def query(self, dataframe: DataFrame) -> Query:
        """Reads a DataFrame's plan. Runs nothing."""
        reading = PlanReader.of(self._spark).read_of(dataframe)
        root = self.canonical(reading, reading.operators)
        return Query(root, reading.node(0), reading, DataFrame(dataframe._jdf, self._spark))

    def is_still(self, query: Query) -> bool:
        """Whether a query would be read the same again, so that its canonical plan is what it was.

        Args:
            query: whose reading says all, see `PlanReading`.
        """
        return PlanReader.of(self._spark).is_still(query.reading)

    def read(
        self, plan: Any, identified: Identified | None = None, *, as_written: bool = False
    ) -> Query:
        """Reads a resolved plan. Runs nothing.

        Args:
            plan: in the JVM; analyzed or optimized.
            identified: what the digests are taken of, given the plan's operators; the operators
                themselves by default.
            as_written: digests tell plans apart whose columns, or rows, may come in another order.
        """
        reader = PlanReader.of(self._spark)
        reading = reader.read(plan, self._spark._jsparkSession)
        operators = reading.operators if identified is None else identified(reading)
        root = self.canonical(reading, operators, as_written=as_written)
        return Query(root, reading.node(0), reading)

    def canonical(
        self, reading: PlanReading, operators: list[OperatorDocument], *, as_written: bool = False
    ) -> CanonicalNode:
        """The canonical form of what has been read.

        Args:
            reading: of a plan.
            operators: the reading's operators, or what is to count in their stead.
            as_written: see `read`.
        """
        reader = PlanReader.of(self._spark)
        canonicalizer = Canonicalizer(
            self._session,
            pickled_function_digest,
            lambda handle: reader.salt(reading, handle),
            as_written,
            self._portable,
            passes_on,
        )
        return canonicalizer.canonicalize(operators)

    def part(self, query: Query, node: CanonicalNode) -> Query | None:
        """A part of a query as a query of its own; None where it can't be run by itself.

        Args:
            query: over the analyzed plan.
            node: of its canonical plan.
        """
        if node is query.root:
            return query
        plan = query.reading.node(node.handle)
        try:
            is_whole = self._fresh.is_whole(plan)
        except UnsupportedSparkError:
            # Nothing is going to be kept then, and the job is to say so.
            return None
        return Query(node, plan, query.reading) if is_whole else None

    def detached(self, plan: Any, session: Any) -> Any:
        """A copy of a plan for another session, on which nothing else has an influence.

        Args:
            plan: in the JVM, of this session.
            session: the JVM's session that is to run it.
        """
        return self._fresh.detached(plan, self._spark._jsparkSession, session)

    def copied(self, plan: Any, session: Any) -> Any:
        """A copy of a plan that holds on to no settings, see `FreshPlans.copied`."""
        return self._fresh.copied(plan, session)

    @property
    def _fresh(self) -> FreshPlans:
        # To compile it takes a moment, which those who produce nothing need not wait for.
        return FreshPlans.of(self._spark)

    def substitute(self, query: Query, replacements: Mapping[int, Any]) -> Any:
        """The query's plan with some of its nodes replaced.

        Args:
            query: what to rewrite.
            replacements: for a node's handle the JVM's plan that takes its place; it puts out the
                same attributes, so that everything above keeps its meaning.

        Returns:
            the JVM's analyzed plan.
        """
        if not replacements:
            return query.plan
        plan = query.plan.transformDownWithSubqueries(self._partial_function(query, replacements))
        plan.setAnalyzed()
        return plan

    def runs_in(self, query: Query, session: Any) -> None:
        """A query that has been read is run in another session, such as a stream's.

        Args:
            query: of this session.
            session: the JVM's.
        """
        if not query.reading.is_as_written:
            reached_partitions(self._spark).extend(session)

    def listed_later(self, query: Query, plan: Any) -> Any:
        """A plan that lists its tables when it is run.

        Args:
            query: of which the plan is made.
            plan: in the JVM, perhaps over files that were listed for the query.
        """
        if query.reading.is_as_written:
            return plan
        made = plan.transformUpWithSubqueries(self._jvm.to_scala_map(query.reading.listed))
        made.setAnalyzed()
        return made

    def substitute_upwards(self, query: Query, replacements: Mapping[int, Any]) -> Any:
        """Like `substitute`, for plans that may have what they replace inside.

        Args:
            query: what to rewrite.
            replacements: as for `substitute`; of attributes that nothing above uses, some may be
                missing.
        """
        plan = query.plan.transformUpWithSubqueries(self._partial_function(query, replacements))
        plan.setAnalyzed()
        return plan

    def _partial_function(self, query: Query, replacements: Mapping[int, Any]) -> Any:
        pairs = self._jvm.hash_map()
        for handle, replacement in replacements.items():
            pairs.put(query.reading.node(handle), replacement)
        # A Scala map is a partial function, so Catalyst applies it to each node by itself.
        return self._jvm.to_scala_map(pairs)

    def dataframe(self, plan: Any, session: Any = None) -> DataFrame:
        """A plain DataFrame of an analyzed plan.

        Args:
            plan: in the JVM.
            session: the JVM's session that is to run it; that of the bridge by default.
        """
        session = session or self._spark._jsparkSession
        return DataFrame(self._jvm.of_rows(session, plan), self._spark)
