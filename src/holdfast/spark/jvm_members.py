"""Classes and functions of the JVM that planning needs, looked up once.

Each dot in `jvm.org.apache.spark…` is a round trip to the JVM, and planning has milliseconds.
"""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.spark.per_context import PerContext


class JvmMembers:
    """What is called in the JVM while plans are rewritten.

    Args:
        spark: a classic session in the JVM.

    Attributes:
        alias: `Alias(child, name, exprId, qualifier, metadata, keys)`; constructors, like the
            next ones.
        sort_order: `SortOrder(child, direction, nulls, same)`.
        ascending: the direction.
        nulls_first: where nulls go.
        all_of: `And(left, right)`.
        conjuncts_of: those of a condition, from the left, as a Scala sequence.
        project: `Project(columns, child)`.
        filter: `Filter(condition, child)`.
        join: `Join(left, right, kind, condition, hint)`.
        inner: the kind of join.
        no_hint: of a join.
        sort: `Sort(orders, global, child, hint)`.
        union: `Union(children, byName, allowMissing)`.
        query_stage: `LogicalQueryStage(logical, physical)`.
        logical_relation: `LogicalRelation(relation, output, table, streaming, stream)`.
        file_relation: `HadoopFsRelation(index, partitions, data, buckets, format, options,
            session)`.
        some: `Some(value)`.
        none: Scala's `None`.
        hash_map: `HashMap()`.
        type_from_json: the data type of a JSON text.
        to_seq: a Scala sequence of a Python list.
        to_scala_map: a Scala map of a Java map.
        of_rows: the Dataset of a session and a plan.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm = cast(Any, spark.sparkContext._jvm)
        catalyst = jvm.org.apache.spark.sql.catalyst
        expressions, logical = catalyst.expressions, catalyst.plans.logical
        self.alias = expressions.Alias
        self.sort_order = expressions.SortOrder
        self.ascending = getattr(getattr(expressions, "Ascending$"), "MODULE$")
        self.nulls_first = getattr(getattr(expressions, "NullsFirst$"), "MODULE$")
        self.all_of = expressions.And
        reordering = getattr(getattr(catalyst.optimizer, "ReorderJoin$"), "MODULE$")
        self.conjuncts_of = reordering.splitConjunctivePredicates
        self.project = logical.Project
        self.filter = logical.Filter
        self.join = logical.Join
        self.inner = getattr(getattr(catalyst.plans, "Inner$"), "MODULE$")
        self.no_hint = logical.JoinHint.NONE()
        self.sort = logical.Sort
        self.union = logical.Union
        self.query_stage = jvm.org.apache.spark.sql.execution.adaptive.LogicalQueryStage
        self.logical_relation = jvm.org.apache.spark.sql.execution.datasources.LogicalRelation
        self.file_relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation
        self.some = jvm.scala.Some
        self.none = jvm.scala.Option.empty()
        self.hash_map = jvm.java.util.HashMap
        self.type_from_json = jvm.org.apache.spark.sql.types.DataType.fromJson
        python_utils = jvm.org.apache.spark.api.python.PythonUtils
        self.to_seq = python_utils.toSeq
        self.to_scala_map = python_utils.toScalaMap
        self.of_rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows

    @staticmethod
    def of(spark: SparkSession) -> JvmMembers:
        """The members of `spark`'s JVM, shared by all who ask."""
        return _members.of(spark)


_members = PerContext(JvmMembers)
