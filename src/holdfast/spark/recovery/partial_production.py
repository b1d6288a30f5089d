"""Runs those partitions of a plan that are missing, and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_writer import PartitionWriter
from holdfast.spark.recovery.split_signature import Split, split_of
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet


class SplitChangedError(Exception):
    """A plan isn't dealt to tasks any more as it was, so its partitions can't be told apart."""


class PartialProduction:
    """Writes some partitions of plans that run in one stage over files.

    Args:
        spark: the session that runs them.
        writer: writes what they put out.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", step 4.
    """

    def __init__(self, spark: SparkSession, writer: PartitionWriter) -> None:
        self._spark = spark
        self._writer = writer
        self._jvm = JvmMembers.of(spark)

    def write(
        self,
        plan: Any,
        description: DataSetDescription,
        directory: Path,
        settings: Mapping[str, str],
        split: Split,
        missing: Sequence[int],
        kept: Sequence[KeptDataSet] = (),
    ) -> None:
        """Computes the missing partitions of a plan and writes them into a directory.

        The file of index `j` holds the partition `missing[j]`.

        Args:
            plan: the JVM's analyzed plan.
            description: how its columns are kept.
            directory: an empty directory on each machine that tasks run on.
            settings: what is set beside the person's settings while it runs.
            split: how the partitions that are there were dealt.
            missing: which partitions to run, in ascending order.
            kept: datasets that the plan reads.

        Raises:
            SplitChangedError: when the plan would be dealt in another way now, or its rows carry
                their place among all rows.
            pyspark.errors.PySparkException: whatever the Spark job fails with.
        """
        if description.position_column is not None:
            raise SplitChangedError("its rows carry their place among all rows")
        if split_of(self._spark, plan, kept) != split:
            raise SplitChangedError("its files are dealt to tasks in another way")
        dataset = self._jvm.of_rows(self._spark._jsparkSession, plan)
        rows = dataset.queryExecution().toRdd()
        # Asked of the very partitions that are about to run.
        if rows.getNumPartitions() != split.parallelism:
            raise SplitChangedError(f"it has {rows.getNumPartitions()} partitions now")
        jvm: Any = self._spark.sparkContext._jvm
        wanted = self._jvm.to_seq(list(missing)).toSet()
        some = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(rows, wanted)
        session = self._spark._jsparkSession
        part = session.internalCreateDataFrame(some, dataset.schema(), False)
        self._writer.write(part.queryExecution().analyzed(), description, directory, settings)
