"""The way from DataFrames to canonical plans, and back with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.canonicalizer import Canonicalizer
from holdfast.plan.document import OperatorDocument
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.plan_reader import PlanReader, PlanReading
from holdfast.spark.python_functions import pickled_function_digest


@dataclass(frozen=True, slots=True)
class Query:
    """A DataFrame's plan in both its forms.

    Attributes:
        root: the canonical plan.
        plan: the analyzed plan in the JVM.
        reading: the way from the one's nodes to the other's.
    """

    root: CanonicalNode
    plan: Any
    reading: PlanReading


Identified = Callable[[PlanReading], list[OperatorDocument]]
"""For a reading, its operators with what is not to count in digests taken out."""


class CatalystBridge:
    """Reads and rewrites the plans of one session.

    Args:
        spark: a classic session.
        session: a text that no other application has.
    """

    def __init__(self, spark: SparkSession, session: str) -> None:
        self._spark = spark
        self._session = session
        self._jvm = JvmMembers.of(spark)

    def query(self, dataframe: DataFrame) -> Query:
        """Reads a DataFrame's plan. Runs nothing."""
        return self.read(dataframe._jdf.queryExecution().analyzed())

    def read(self, plan: Any, identified: Identified | None = None) -> Query:
        """Reads a resolved plan. Runs nothing.

        Args:
            plan: in the JVM; analyzed or optimized.
            identified: what the digests are taken of, given the plan's operators; the operators
                themselves unless told.
        """
        reader = PlanReader.of(self._spark)
        reading = reader.read(plan)
        operators = reading.operators if identified is None else identified(reading)
        return Query(self.canonical(reading, operators), plan, reading)

    def canonical(self, reading: PlanReading, operators: list[OperatorDocument]) -> CanonicalNode:
        """The canonical form of what has been read.

        Args:
            reading: of a plan.
            operators: the reading's operators, or what is to count in their stead.
        """
        reader = PlanReader.of(self._spark)
        canonicalizer = Canonicalizer(
            self._session,
            reading.inline_name,
            pickled_function_digest,
            lambda handle: reader.salt(reading.node(handle)),
        )
        return canonicalizer.canonicalize(operators)

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
        pairs = self._jvm.hash_map()
        for handle, replacement in replacements.items():
            pairs.put(query.reading.node(handle), replacement)
        # A Scala map is a partial function, so Catalyst applies it to each node by itself.
        rule = self._jvm.to_scala_map(pairs)
        plan = query.plan.transformDownWithSubqueries(rule)
        plan.setAnalyzed()
        return plan

    def dataframe(self, plan: Any) -> DataFrame:
        """A plain DataFrame of an analyzed plan."""
        return DataFrame(self._jvm.of_rows(self._spark._jsparkSession, plan), self._spark)
