"""Asking a question, and comparing two answers to it."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row

from holdfast.cli.demo.story import Question


@dataclass(frozen=True)
class Answer:
    """The rows that answer a question, and how long they took.

    Attributes:
        columns: name and type of each.
        rows: in the order in which they came.
        seconds: from building the query until the last row had arrived.
    """

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    seconds: float


def ask(question: Question, shared: DataFrame) -> Answer:
    """Asks a question and waits for every row of its answer.

    Args:
        question: what to ask.
        shared: the table that the questions are about.
    """
    started = time.perf_counter()
    query = question.ask(shared)
    rows = tuple(query.collect())
    took = time.perf_counter() - started
    return Answer(tuple(query.dtypes), rows, took)


def agree(question: Question, one: Answer, other: Answer) -> bool:
    """Whether two answers are the same, exactly, decimals to the last digit.

    Rows are compared in order where the question fixes one, else as multisets.

    Args:
        question: what was asked.
        one: an answer to it.
        other: another one.
    """
    if one.columns != other.columns:
        return False
    mine, theirs = ([_comparable(row) for row in answer.rows] for answer in (one, other))
    return mine == theirs if question.is_ordered else Counter(mine) == Counter(theirs)


def _comparable(row: Row) -> tuple[Any, ...]:
    return tuple(_comparable_value(value) for value in row)


def _comparable_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.as_tuple()  # 1.0 equals 1.00, but is another decimal
    if isinstance(value, float) and math.isnan(value):
        return "NaN"  # which doesn't equal itself
    return value
