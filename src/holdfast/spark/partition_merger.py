"""Writes partitions together that are too small for a file of their own, before they are seen."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import StorageError, UnsupportedSparkError
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.failures import is_cancelled, reason
from holdfast.spark.interruptible import over_before_clearing
from holdfast.spark.java_classes import new_object
from holdfast.spark.job_description import described
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_reader import READ_OPTIONS, exact_format, file_schema, hadoop_path
from holdfast.spark.partition_writer import WRITE_SETTINGS, PartitionWriter
from holdfast.spark.per_context import PerContext
from holdfast.spark.session_settings import session_under
from holdfast.storage.intermediate_result_storage import StagedDataSet
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition
from holdfast.storage.merged_partitions import put_in_place
from holdfast.storage.partition_directory import found_partitions, partition_sizes
from holdfast.storage.small_partitions import groups_to_merge

Groups = Sequence[Sequence[KeptPartition]]

# Whoever looks for partitions passes over names that begin like that.
_MERGED = "_merged"

logger = logging.getLogger(__name__)


class PartitionMerger:
    """Has neighbours among small partitions written to one file, by a Spark job over these alone.

    Rows stay in their order. Where that fails, the partitions stay as they are.

    Args:
        spark: the session that has written them.
        writer: writes what takes their place.
    """

    def __init__(self, spark: SparkSession, writer: PartitionWriter) -> None:
        self._spark = spark
        self._writer = writer

    def merge(
        self, staged: StagedDataSet, description: DataSetDescription, inputs: SessionInputs
    ) -> tuple[tuple[int, ...], ...]:
        """Merges partitions that are written and not published yet, where that pays.

        Args:
            staged: where they lie, on this machine.
            description: how they are kept.
            inputs: the settings that their job runs under.

        Returns:
            the indices of those in each merged file, which has the last of them.

        Raises:
            StorageError: when they were replaced in part: what is left is no dataset.
            pyspark.errors.PySparkException: when it was cancelled.
        """
        directory = staged.directory
        merged = directory / _MERGED
        try:
            if not self._groups(partition_sizes(directory)):
                return ()
            found = found_partitions(directory)
            places = self._groups([each.bytes for each in found])
            groups = [[found[place] for place in group] for group in places]
            purpose = f"merges small partitions of {staged.dataset_id}: {description.computes}"
            with over_before_clearing(), described(self._spark, purpose):
                self._write(groups, directory, merged, description, inputs)
            files = _written(merged, groups)
        except (OSError, Py4JError, PySparkException, StorageError, UnsupportedSparkError) as error:
            if is_cancelled(error):
                raise
            logger.debug("the small partitions of %s stay: %s", staged.dataset_id, reason(error))
            return ()
        else:
            put_in_place(files, groups, directory)
            return tuple(tuple(each.index for each in group) for group in groups)
        finally:
            shutil.rmtree(merged, ignore_errors=True)

    def _groups(self, sizes: Sequence[int]) -> tuple[range, ...]:
        return groups_to_merge(sizes, self._spark.sparkContext.defaultParallelism)

    def _write(
        self,
        groups: Groups,
        directory: Path,
        merged: Path,
        description: DataSetDescription,
        inputs: SessionInputs,
    ) -> None:
        """Writes a file of each group's rows, whose number is that of the group."""
        jvm = JvmMembers.of(self._spark)
        session = session_under(self._spark, inputs, WRITE_SETTINGS)
        # What is null where a plan says that nothing is must not become another value.
        schema = jvm.type_from_json(file_schema(description)).asNullable()
        lines = "\n".join("/".join(each.file for each in group) for group in groups)
        rows = _files.of(self._spark).rows(session, schema, hadoop_path(str(directory)), lines)
        frame = DataFrame(session.internalCreateDataFrame(rows, schema, False), self._spark)
        self._writer.save(frame, session, description, str(merged))


def _written(directory: Path, groups: Groups) -> list[Path]:
    """For each group the file that was written of it.

    Raises:
        StorageError: when there is none, or it has another number of rows.
    """
    found = {each.index: each for each in found_partitions(directory)}
    for index, group in enumerate(groups):
        rows = sum(each.rows for each in group)
        if index not in found or found[index].rows != rows:
            raise StorageError(str(directory), f"expected {rows} rows in partition {index}")
    return [directory / found[index].file for index in range(len(groups))]


def _made(spark: SparkSession) -> Any:
    options = JvmMembers.of(spark).to_scala_map({**READ_OPTIONS, "returning_batch": "false"})
    return new_object(spark, "GroupedFiles", exact_format(spark), options)


_files: PerContext[Any] = PerContext(_made)
