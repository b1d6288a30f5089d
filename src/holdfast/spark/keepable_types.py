"""Which types can be kept: those that Spark can write to Parquet, and read again."""

from __future__ import annotations

import json
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import UnsupportedTypeError

# Spark reads these as it has written them.
_PLAIN = frozenset(
    {
        "binary",
        "boolean",
        "byte",
        "date",
        "double",
        "float",
        "integer",
        "long",
        "short",
        "string",
        "timestamp",
        "timestamp_ntz",
    }
)


def check_keepable(spark: SparkSession, dataframe: DataFrame) -> None:
    """Makes sure that every column of a DataFrame can be kept.

    Raises:
        UnsupportedTypeError: for the first column that can't be, with its type.
    """
    schema = dataframe._jdf.schema()
    found = _first_unkeepable(spark, schema)
    if found is not None:
        field = schema.apply(found)
        raise UnsupportedTypeError(str(field.name()), str(field.dataType().sql()))


def is_keepable(spark: SparkSession, plan: Any) -> bool:
    """Whether every column of a plan can be kept.

    Args:
        spark: the plan's session.
        plan: in the JVM.
    """
    return _first_unkeepable(spark, plan.schema()) is None


def is_storable_by_spark(spark: SparkSession, dataframe: DataFrame) -> bool:
    """Whether Spark's own cache can hold every column of a DataFrame.

    Args:
        spark: its session.
        dataframe: the DataFrame.
    """
    jvm: Any = spark.sparkContext._jvm
    columnar = jvm.org.apache.spark.sql.execution.columnar
    schema = dataframe._jdf.schema()
    try:
        for index in range(schema.length()):
            columnar.ColumnBuilder.apply(schema.apply(index).dataType(), 1, "column", False)
    except (Py4JError, PySparkException):
        return False
    return True


def is_plain(data_type: Any) -> bool:
    """Whether a type is one of those that every Spark reads as it has written them.

    Args:
        data_type: Spark's JSON of the type.
    """
    if not isinstance(data_type, dict):
        return data_type in _PLAIN or str(data_type).startswith("decimal(")
    match data_type["type"]:
        case "struct":
            return all(is_plain(field["type"]) for field in data_type["fields"])
        case "array":
            return is_plain(data_type["elementType"])
        case "map":
            return is_plain(data_type["keyType"]) and is_plain(data_type["valueType"])
    return False


def _first_unkeepable(spark: SparkSession, schema: Any) -> int | None:
    """The place of the first column that can't be kept, if there is one."""
    jvm: Any = spark.sparkContext._jvm
    parquet = jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat()
    for index, field in enumerate(json.loads(schema.json())["fields"]):
        # Spark's own check passes structs without fields, which its writer then refuses.
        if not parquet.supportDataType(schema.apply(index).dataType()) or _has_empty_struct(
            field["type"]
        ):
            return index
        if not is_plain(field["type"]) and not _is_taken(spark, field):
            return index
    return None


def _is_taken(spark: SparkSession, field: dict[str, Any]) -> bool:
    """Whether Spark takes a column for one that files can have, under the session's settings."""
    jvm: Any = spark.sparkContext._jvm
    parquet = jvm.org.apache.spark.sql.execution.datasources.parquet
    session = spark._jsparkSession
    text = json.dumps({"type": "struct", "fields": [{**field, "nullable": True}]})
    schema = jvm.org.apache.spark.sql.types.DataType.fromJson(text)
    settings = session.sessionState().conf()
    try:
        written = parquet.SparkToParquetSchemaConverter(settings).convert(schema)
        parquet.ParquetToSparkSchemaConverter(settings).convert(written)
        session.read().schema(schema).format("parquet").load(jvm.PythonUtils.toSeq([]))
    except (Py4JError, PySparkException):
        return False
    return True


def _has_empty_struct(data_type: Any) -> bool:
    if not isinstance(data_type, dict):
        return False
    match data_type["type"]:
        case "struct":
            fields = data_type["fields"]
            return not fields or any(_has_empty_struct(field["type"]) for field in fields)
        case "array":
            return _has_empty_struct(data_type["elementType"])
        case "map":
            return _has_empty_struct(data_type["keyType"]) or _has_empty_struct(
                data_type["valueType"]
            )
        case "udt":
            return _has_empty_struct(data_type.get("sqlType"))
    return False
