"""What the columns of an unknown table hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_SIMPLE = (BooleanType, DateType, NumericType, StringType, TimestampNTZType, TimestampType)
_PLAIN_STRING = "string"


@dataclass(frozen=True)
class ColumnProfile:
    """What is known of a column.

    Attributes:
        name: as the table calls it.
        data_type: of numbers, text, dates or booleans.
        distinct: about how many values it has, nulls apart.
        median: about in the middle of its values, as text; None where it isn't numeric or is empty.
    """

    name: str
    data_type: DataType
    distinct: int
    median: str | None

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers."""
        return isinstance(self.data_type, NumericType)


def profile(table: DataFrame) -> tuple[ColumnProfile, ...]:
    """The columns of simple types, of which questions can be asked, with what they hold.

    Args:
        table: any table.
    """
    columns = simple_columns(table.schema)
    asked = []
    for name, data_type in columns.items():
        column = F.col(quoted(name))
        asked.append(F.approx_count_distinct(column))
        if isinstance(data_type, NumericType):
            asked.append(F.percentile_approx(column, 0.5).cast("string"))
    found: Any = iter(table.agg(*asked).collect()[0])
    return tuple(
        ColumnProfile(
            name,
            data_type,
            next(found),
            next(found) if isinstance(data_type, NumericType) else None,
        )
        for name, data_type in columns.items()
    )


def simple_columns(schema: StructType) -> Mapping[str, DataType]:
    """Name and type of the columns that hold numbers, text, dates or booleans.

    Args:
        schema: of the table.
    """
    return {
        field.name: field.dataType
        for field in schema.fields
        if isinstance(field.dataType, _SIMPLE)
        # Of strings that a collation takes for equal, Spark may show any.
        and (
            not isinstance(field.dataType, StringType)
            or field.dataType.simpleString() == _PLAIN_STRING
        )
    }


def quoted(name: str) -> str:
    """A column's name as SQL has to write it where it may hold any character."""
    return "`" + name.replace("`", "``") + "`"
