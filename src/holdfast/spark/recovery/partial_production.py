"""A plan that is run in the tasks of a split: those of them that are missing, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.runtime.vertex_runner import NotKeptError
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.recovery.split_signature import Split, fixed_execution, split_of
from holdfast.storage.kept_dataset import KeptDataSet


def some_partitions(
    spark: SparkSession,
    plan: Any,
    split: Split,
    missing: Sequence[int],
    kept: Sequence[KeptDataSet] = (),
) -> Any:
    """A plan of which partition `j` is the partition `missing[j]` of another one.

    Runs nothing but what is broadcast to the tasks.

    Args:
        spark: the session that runs it.
        plan: the JVM's analyzed plan, which runs in one stage over files.
        split: how the partitions that are there were dealt.
        missing: which partitions to run, in ascending order.
        kept: datasets that the plan reads.

    Returns:
        the JVM's analyzed plan.

    Raises:
        NotKeptError: when the plan would be dealt to tasks in another way now, so that its
            partitions can't be told apart.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", step 4.
    """
    if split_of(spark, plan, kept) != split:
        raise NotKeptError("its files are dealt to tasks in another way than when it began")
    dataset = fixed_execution(spark, plan)
    rows = dataset.queryExecution().toRdd()
    # Asked of the very partitions that are about to run.
    if rows.getNumPartitions() != split.parallelism:
        raise NotKeptError(f"it has {rows.getNumPartitions()} partitions now")
    jvm: Any = spark.sparkContext._jvm
    wanted = JvmMembers.of(spark).to_seq(list(missing)).toSet()
    some = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, wanted)
    part = spark._jsparkSession.internalCreateDataFrame(some, dataset.schema(), False)
    return part.queryExecution().analyzed()
