"""What an analyst asks, and of what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from holdfast.cli.demo.parquet_folder import ParquetTable, StorySource


@dataclass(frozen=True)
class Question:
    """One question of the session.

    Attributes:
        title: the question in a few words.
        ask: makes the query of it, from the table that all questions share.
        is_ordered: whether the query fixes the order of its rows.
    """

    title: str
    ask: Callable[[DataFrame], DataFrame]
    is_ordered: bool = False


@dataclass(frozen=True)
class Story:
    """A session over one table that all questions share.

    Attributes:
        title: what data it is about.
        tables: what it is read from.
        shared: the shared table in a sentence.
        build: makes the shared table, a DataFrame of a session or a Table of an environment.
        questions: in the order in which they are asked.
        settings: of Spark, under which they are.
    """

    title: str
    tables: tuple[ParquetTable, ...]
    shared: str
    build: Callable[[StorySource], DataFrame]
    questions: tuple[Question, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
