"""A plan that is run in the tasks of a split: those of them that are missing, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_runner import NotKeptError
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.recovery.split_signature import Split


def some_partitions(spark: SparkSession, split: Split, missing: Sequence[int]) -> Any:
    """A plan of which partition `j` is the partition `missing[j]` of the one that was split.

    Runs nothing but what is broadcast to the tasks.

    Args:
        spark: the session that runs it.
        split: how the partitions that are there were dealt.
        missing: which partitions to run, in ascending order.

    Returns:
        the JVM's analyzed plan.

    Raises:
        NotKeptError: when the plan would be dealt to tasks in another way now, so that its
            partitions can't be told apart.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", step 4.
    """
    rows = split.execution.toRdd()
    # A plan with broadcasts can't be asked before.
    if rows.getNumPartitions() != split.parallelism:
        raise NotKeptError(
            Why.FAILED.of(
                f"it has {rows.getNumPartitions()} partitions, expected {split.parallelism}"
            )
        )
    jvm: Any = spark.sparkContext._jvm
    wanted = JvmMembers.of(spark).to_seq(list(missing)).toSet()
    some = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, wanted)
    schema = split.execution.analyzed().schema()
    part = spark._jsparkSession.internalCreateDataFrame(some, schema, False)
    return part.queryExecution().analyzed()
