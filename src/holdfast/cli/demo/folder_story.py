"""A session over Parquet files of which nothing is known beforehand."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.cli.amounts import shortened
from holdfast.cli.demo.column_profile import profile, quoted, simple_columns
from holdfast.cli.demo.errors import BadDemoInputError
from holdfast.cli.demo.folder_joins import FolderJoin, find_joins
from holdfast.cli.demo.folder_questions import folder_questions
from holdfast.cli.demo.parquet_folder import ParquetTable, StorySource
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Story

_SHOWN_NAME = 30
# Columns that differ in upper and lower case alone are fine in Parquet.
_SETTINGS = {"spark.sql.caseSensitive": "true"}
_COLUMNS_OF_LARGEST = 16


def folder_story(
    stage: Stage, spark: SparkSession, title: str, tables: Mapping[str, ParquetTable]
) -> Story:
    """The session over the largest table and what can be joined to it.

    Args:
        stage: shows the progress.
        spark: looks at the data.
        title: what data it is about.
        tables: the tables by name.

    Raises:
        BadDemoInputError: when there is no row, or no column of which anything can be asked.
    """
    for key, value in _SETTINGS.items():
        spark.conf.set(key, value)
    fact, *others = sorted(tables.values(), key=lambda table: table.rows, reverse=True)
    if fact.rows == 0:
        raise BadDemoInputError(f"{title}: all tables are empty")
    if not simple_columns(fact.read(spark).schema):
        raise BadDemoInputError(
            f"{title}: the largest table, {fact.name}, has no numeric, text, date or boolean "
            "column to query"
        )
    with stage.progress("looking", 2) as progress:
        progress.now("what can be joined")
        joins = find_joins(spark, fact, [table for table in others if table.rows])
        unfiltered = functools.partial(_shared, fact, joins, None)
        condition = None if joins else _upper_half(unfiltered(spark))
        build = functools.partial(_shared, fact, joins, condition)
        progress.advance()
        progress.note(_described(fact, joins, condition))
        progress.now("what the columns hold")
        columns = profile(build(spark))
        progress.note(f"{len(columns)} columns to ask about")
    return Story(
        title,
        (fact, *(join.table for join in joins)),
        _described(fact, joins, condition),
        build,
        folder_questions(columns),
        _SETTINGS,
    )


def _shared(
    fact: ParquetTable,
    joins: tuple[FolderJoin, ...],
    condition: str | None,
    source: StorySource,
) -> DataFrame:
    shared = fact.read(source)
    keys = {key for join in joins for key in join.keys}
    simple = list(simple_columns(shared.schema))
    taken = {*simple[:_COLUMNS_OF_LARGEST], *keys}
    shared = shared.select([F.col(quoted(column)) for column in simple if column in taken])
    for join in joins:
        shared = join.applied(shared, source)
    return shared if condition is None else shared.where(condition)


def _upper_half(table: DataFrame) -> str | None:
    """A condition that about half the rows meet; None where no column gives one."""
    columns = profile(table)
    for column in columns:
        if column.median is not None and column.distinct > 1:
            kind = column.data_type.simpleString()
            return f"{quoted(column.name)} >= CAST('{column.median}' AS {kind})"
    for column in columns:
        if column.distinct:
            return f"{quoted(column.name)} IS NOT NULL"
    return None


def _described(fact: ParquetTable, joins: tuple[FolderJoin, ...], condition: str | None) -> str:
    parts = [shortened(fact.name, _SHOWN_NAME)]
    for join in joins:
        keys = ", ".join(shortened(key, _SHOWN_NAME) for key in join.keys)
        parts.append(f"joined with {shortened(join.table.name, _SHOWN_NAME)} on {keys}")
    if condition is not None:
        parts.append(f"where {condition}")
    return " ".join(parts)
