"""Which tables of a folder go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.cli.demo.column_profile import quoted, simple_columns
from holdfast.cli.demo.parquet_folder import ParquetTable, StorySource

_MAX_JOINS = 3
_COLUMNS_OF_EACH = 4
# Below this share of distinct values by estimate, a column isn't worth an exact look.
_PROMISING = 0.8


@dataclass(frozen=True)
class FolderJoin:
    """A table that can be joined without multiplying rows.

    Attributes:
        table: the table to join.
        keys: columns of both sides by which they are joined; no two rows of `table` agree in them.
        names: the columns of `table` that are taken along, and what they are called in the join.
    """

    table: ParquetTable
    keys: tuple[str, ...]
    names: Mapping[str, str]

    def applied(self, left: DataFrame, source: StorySource) -> DataFrame:
        """The left table with columns of this one; every row of it stays.

        Args:
            left: what to join this table to.
            source: reads this table.
        """
        right = self.table.read(source)
        renamed = [F.col(quoted(column)).alias(name) for column, name in self.names.items()]
        return left.join(right.select(renamed), on=list(self.keys), how="left")


def find_joins(
    source: StorySource, fact: ParquetTable, others: Iterable[ParquetTable]
) -> tuple[FolderJoin, ...]:
    """The tables that have columns in common with the largest one, and are unique in them.

    Args:
        source: reads the tables.
        fact: the largest table.
        others: the rest, in the order in which they are tried.
    """
    left = fact.read(source)
    taken = set(left.columns)
    joinable = simple_columns(left.schema)
    joins: list[FolderJoin] = []
    for table in others:
        right = table.read(source)
        common = [
            name
            for name, data_type in simple_columns(right.schema).items()
            if joinable.get(name) == data_type
        ]
        keys = _unique_key(right, common)
        if keys is None:
            continue
        names = {key: key for key in keys}
        described = [column for column in simple_columns(right.schema) if column not in names]
        for column in described[:_COLUMNS_OF_EACH]:
            names[column] = _free(column, table.name, taken)
            taken.add(names[column])
        joins.append(FolderJoin(table, keys, names))
        if len(joins) == _MAX_JOINS:
            break
    return tuple(joins)


def _unique_key(table: DataFrame, common: Sequence[str]) -> tuple[str, ...] | None:
    """One of the columns in which no two rows agree, else all of them, else None."""
    if not common:
        return None
    estimates = [F.approx_count_distinct(F.col(quoted(name))) for name in common]
    rows, *distinct = table.agg(F.count("*"), *estimates).collect()[0]
    promising = [
        (name,)
        for name, values in zip(common, distinct, strict=True)
        if values >= rows * _PROMISING
    ]
    candidates = dict.fromkeys([*promising, tuple(common)])
    return next((keys for keys in candidates if _is_unique(table, keys)), None)


def _is_unique(table: DataFrame, keys: Sequence[str]) -> bool:
    columns = [F.col(quoted(name)) for name in keys]
    matchable = table
    for column in columns:
        matchable = matchable.where(column.isNotNull())
    return matchable.groupBy(*columns).agg(F.count("*").alias("n")).where("n > 1").isEmpty()


def _free(column: str, table: str, taken: set[str]) -> str:
    name = column
    while name in taken:
        name = f"{table}_{name}"
    return name
