"""Which types can be kept: those that Spark can write to Parquet."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import UnsupportedTypeError


def check_keepable(spark: SparkSession, dataframe: DataFrame) -> None:
    """Makes sure that every column of a DataFrame can be kept.

    Raises:
        UnsupportedTypeError: for the first column that can't be, with its type.
    """
    parquet = _parquet(spark)
    schema = dataframe._jdf.schema()
    for index, field in enumerate(json.loads(schema.json())["fields"]):
        data_type = schema.apply(index).dataType()
        # Spark's own check passes structs without fields, which its writer then refuses.
        if not parquet.supportDataType(data_type) or _has_empty_struct(field["type"]):
            raise UnsupportedTypeError(field["name"], data_type.sql())


def is_keepable(spark: SparkSession, plan: Any) -> bool:
    """Whether every column of a plan can be kept.

    Args:
        spark: the plan's session.
        plan: in the JVM.
    """
    schema = plan.schema()
    fields = json.loads(schema.json())["fields"]
    return bool(_parquet(spark).supportDataType(schema)) and not any(
        _has_empty_struct(field["type"]) for field in fields
    )


def _parquet(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat()


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
