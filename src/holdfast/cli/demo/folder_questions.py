"""Questions that can be asked of any table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DateType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from holdfast.cli.amounts import shortened
from holdfast.cli.demo.column_profile import ColumnProfile, quoted
from holdfast.cli.demo.story import Question

_FEW_VALUES = 60
_SHOWN_GROUPS = 20
_SHOWN_ROWS = 10
_SOME = 5
_SHOWN_NAME = 14
_DATES = (DateType, TimestampNTZType, TimestampType)

_Ask = Callable[[DataFrame], DataFrame]


def folder_questions(columns: Sequence[ColumnProfile]) -> tuple[Question, ...]:
    """Six or more questions.

    Args:
        columns: what is known of the table's columns; at least one.
    """
    numbers = [column for column in columns if column.is_numeric and column.distinct > 1][:_SOME]
    groups = _low_in_cardinality(columns)
    widest = max(columns, key=lambda c: (c.distinct > 0, c.is_numeric, c.distinct))
    questions = [
        Question("How many rows", _count),
        *(_rows_by(column) for column in groups),
        Question("Least and greatest values", functools.partial(_range, columns[:_SOME])),
        _top_rows(widest, columns),
        _filtered_count(widest),
        Question("Missing values by column", functools.partial(_nulls, columns)),
        Question(
            f"Distinct values of {_shown_name(groups[0])}",
            functools.partial(_distinct, groups[0]),
        ),
    ]
    if numbers:
        questions.insert(
            2,
            Question(
                f"Averages by {_shown_name(groups[0])}",
                functools.partial(_averages, groups[0], numbers),
                is_ordered=True,
            ),
        )
    return tuple(questions)


def _low_in_cardinality(columns: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """At most two columns to group by, those with few values first."""

    def rank(column: ColumnProfile) -> tuple[bool, bool, int]:
        if 1 < column.distinct <= _FEW_VALUES:
            is_label = isinstance(column.data_type, (BooleanType, StringType))
            return (False, not is_label, 0)
        return (True, column.distinct == 0, column.distinct)

    ranked = sorted(columns, key=rank)
    return [ranked[0], *(column for column in ranked[1:2] if 1 < column.distinct <= _FEW_VALUES)]


def _rows_by(column: ColumnProfile) -> Question:
    return Question(
        f"Rows by {_shown_name(column)}", functools.partial(_largest_groups, column), True
    )


def _top_rows(column: ColumnProfile, columns: Sequence[ColumnProfile]) -> Question:
    # Sorted by all that is shown: rows that tie are the same.
    shown = [column, *(other for other in columns if other is not column)][:_SOME]
    return Question(
        f"Top {_SHOWN_ROWS} rows by {_shown_name(column)}", functools.partial(_top, shown), True
    )


def _filtered_count(column: ColumnProfile) -> Question:
    name = _shown_name(column)
    if column.median is None:
        return Question(f"Rows with some {name}", functools.partial(_count_with, column))
    return Question(
        f"Rows with {name} below {shortened(column.median, _SHOWN_NAME)}",
        functools.partial(_count_below, column, column.median),
    )


def _count(table: DataFrame) -> DataFrame:
    return table.agg(F.count("*").alias("rows"))


def _largest_groups(column: ColumnProfile, table: DataFrame) -> DataFrame:
    groups = table.groupBy(_col(column).alias("value")).agg(F.count("*").alias("rows"))
    return _shown(groups.orderBy(F.desc("rows"), "value").limit(_SHOWN_GROUPS))


def _averages(
    group: ColumnProfile, numbers: Sequence[ColumnProfile], table: DataFrame
) -> DataFrame:
    # Sums of floats depend on the order in which they are added; those of decimals don't.
    averages = [
        F.avg(_col(number).try_cast("decimal(28,9)")).alias(f"avg_{index}")
        for index, number in enumerate(numbers)
    ]
    grouped = table.groupBy(_col(group).alias("value")).agg(*averages)
    return _shown(grouped.orderBy("value").limit(_SHOWN_GROUPS))


def _range(columns: Sequence[ColumnProfile], table: DataFrame) -> DataFrame:
    ends: list[Column] = []
    for index, column in enumerate(columns):
        ends.append(F.min(_col(column)).alias(f"least_{index}"))
        ends.append(F.max(_col(column)).alias(f"greatest_{index}"))
    return _shown(table.agg(*ends))


def _top(columns: Sequence[ColumnProfile], table: DataFrame) -> DataFrame:
    order = [_col(column).desc() for column in columns]
    rows = table.select([_col(column) for column in columns]).orderBy(*order).limit(_SHOWN_ROWS)
    return _shown(rows)


def _count_below(column: ColumnProfile, median: str, table: DataFrame) -> DataFrame:
    return _count(table.where(_col(column) < F.lit(median).cast(column.data_type)))


def _count_with(column: ColumnProfile, table: DataFrame) -> DataFrame:
    return _count(table.where(_col(column).isNotNull()))


def _nulls(columns: Sequence[ColumnProfile], table: DataFrame) -> DataFrame:
    return table.agg(
        *(
            F.count_if(_col(column).isNull()).alias(f"nulls_{index}")
            for index, column in enumerate(columns)
        )
    )


def _distinct(column: ColumnProfile, table: DataFrame) -> DataFrame:
    return table.agg(F.count_distinct(_col(column)).alias("distinct"))


def _shown(answer: DataFrame) -> DataFrame:
    """The answer with dates as text, since Python knows no year beyond 9999."""
    return answer.select(
        [
            F.col(quoted(field.name)).cast("string").alias(field.name)
            if isinstance(field.dataType, _DATES)
            else F.col(quoted(field.name))
            for field in answer.schema.fields
        ]
    )


def _col(column: ColumnProfile) -> Column:
    return F.col(quoted(column.name))


def _shown_name(column: ColumnProfile) -> str:
    return shortened(column.name, _SHOWN_NAME)
