"""Writes a vertex's result as kept partitions, with Spark's own writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import _parse_datatype_json_string

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.kept_schema import kept_fields
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_reader import PARQUET, hadoop_path
from holdfast.spark.seal_label import SEAL
from holdfast.spark.write_commands import write_command
from holdfast.storage.kept_dataset import DataSetDescription, KeptColumn

# Of earlier versions.
POSITION_COLUMN = "holdfast_position"
FILLER_COLUMN = "holdfast_filler"

# What Spark writes must not depend on what the session's owner prefers for files of their own.
WRITE_SETTINGS = {
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.sources.outputCommitterClass": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
}
_WRITE_OPTIONS = {
    # By default Parquet first looks at what it has buffered after 100 rows, each perhaps 64 MB.
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.page.write-checksum.enabled": "true",
    # The size of texts in memory is known by them.
    "parquet.size.statistics.enabled": "true",
    # Higher ones take longer than they save: what is kept is written once, and often read soon.
    "parquet.compression.codec.zstd.level": "1",
    # Columns of many values do without a dictionary early: larger ones take a fifth of the time in
    # which a result is written, and most queries of it gain nothing.
    "parquet.dictionary.page.size": str(64 << 10),
}
# Batches differ in size by orders of magnitude, so that no number of them can be foreseen.
_WRITE_OPTIONS_OF_BATCHES = _WRITE_OPTIONS | {
    "parquet.block.size.row.check.max": "1",
    "parquet.page.size.row.check.max": "1",
    # Spark reads all of a row group's batches into memory at once, in each task.
    "parquet.block.size": str(8 << 20),
}


def describe(
    dataset_id: str,
    computes: str,
    schema_json: str,
    ordered: bool,
    spark_version: str,
    identities: Sequence[str],
    *,
    ambiguous: bool = False,
) -> DataSetDescription:
    """How a dataset with this schema is kept.

    Args:
        dataset_id: 64 hexadecimal digits.
        computes: the computation in a few words.
        schema_json: the schema of the computation's output, as Spark's JSON.
        ordered: the computation fixes the order of its rows.
        spark_version: the version of Spark that computes it.
        identities: of each column what it is of the rows.
        ambiguous: several answers are right; a stream's digest says which one.
    """
    fields = json.loads(schema_json)["fields"]
    kept = kept_fields(
        [(field["name"], field["type"]) for field in fields], (POSITION_COLUMN, FILLER_COLUMN)
    )
    columns = tuple(
        KeptColumn(
            name=field["name"],
            kept_as=as_kept.name,
            type=field["type"],
            kept_type=as_kept.data_type,
            nullable=field["nullable"],
            identity=identity,
        )
        for field, as_kept, identity in zip(fields, kept, identities, strict=True)
    )
    seals = (each["metadata"][SEAL] for each in fields if SEAL in each["metadata"])
    seal = next(seals, None)
    return DataSetDescription(
        dataset_id=dataset_id,
        computes=computes,
        columns=columns,
        ordered=ordered,
        filler_column=None if columns else FILLER_COLUMN,
        seal=seal,
        spark_version=spark_version,
        ambiguous=ambiguous and seal is None,
    )


class PartitionWriter:
    """Runs plans as Spark jobs that leave one file per final-stage partition.

    Args:
        spark: the session that they are of.
        compression: Parquet's name of a codec.
    """

    def __init__(self, spark: SparkSession, compression: str) -> None:
        self._spark = spark
        self.compression = compression

    def write(
        self,
        plan: Any,
        session: Any,
        description: DataSetDescription,
        location: str,
    ) -> Any:
        """Computes `plan` and writes its rows to a location.

        Args:
            plan: the JVM's analyzed plan.
            session: the JVM's session that runs it, under `WRITE_SETTINGS` if it is one of its own.
            description: how its columns are kept.
            location: the path of a directory that is empty on each machine that tasks run on.

        Returns:
            the JVM's physical plan of the write, as it has run; None where Spark doesn't show it.

        Raises:
            pyspark.errors.PySparkException: whatever the Spark job fails with.
        """
        jdf = JvmMembers.of(self._spark).of_rows(session, plan)
        shaped = self._shaped(DataFrame(jdf, self._spark), description)
        return self.save(shaped, session, description, location)

    def save(
        self, shaped: Any, session: Any, description: DataSetDescription, location: str
    ) -> Any:
        """Writes rows that have the columns of the files already.

        Args:
            shaped: a DataFrame.
            session: the JVM's session that runs it.
            description: how its columns are kept.
            location: the path of a directory that is empty or not there.

        Returns:
            the JVM's physical plan that has run; None where Spark doesn't say.

        Raises:
            pyspark.errors.PySparkException: whatever the Spark job fails with.
        """
        writer = shaped.write.mode("append")
        for key, value in self.options(description).items():
            writer = writer.option(key, value)
        writer = writer.format(PARQUET)
        path = hadoop_path(location)
        try:
            command = write_command(self._spark, writer._jwrite, "save", path, java_session=session)
        except UnsupportedSparkError:
            command = None
        if command is None:
            writer.save(path)
            return None
        # It runs when its rows, which are none, are asked for.
        run = JvmMembers.of(self._spark).of_rows(session, command).queryExecution()
        return run.commandExecuted().commandPhysicalPlan()

    def options(self, description: DataSetDescription) -> dict[str, str]:
        """What Spark's writer of Parquet is given.

        Args:
            description: of what is written.
        """
        options = _WRITE_OPTIONS if description.seal is None else _WRITE_OPTIONS_OF_BATCHES
        return {**options, "compression": self.compression}

    def _shaped(self, dataframe: DataFrame, description: DataSetDescription) -> Any:
        columns = description.columns
        shaped: Any = dataframe
        if description.filler_column is not None:
            shaped = dataframe.select(F.lit(True).alias(description.filler_column))
        elif columns:
            shaped = dataframe.toDF(*[column.kept_as for column in columns])
        if any(column.kept_type != column.type for column in columns):
            shaped = shaped.select(*[_as_kept(column) for column in columns])
        return shaped


def _as_kept(column: KeptColumn) -> Any:
    value = F.col(column.kept_as)
    if column.kept_type == column.type:
        return value
    return value.cast(_parse_datatype_json_string(json.dumps(column.kept_type))).alias(
        column.kept_as
    )
