"""Sources as the API hands them over, and the DataFrames below the passes that read them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import InvalidStreamArgumentError
from holdfast.functions.source import NumberSequenceSource, Source
from holdfast.plan.function_digest import Undigestible, digest_value
from holdfast.spark.streams.split_readers import CollectionReader, CollectionSplits, SourceReader
from holdfast.spark.streams.table_formats import LineInput, RowInput
from holdfast.streaming.inputs import InputFormat, SourceInput
from holdfast.streaming.pickled_collection import PickledCollection, pickled_collection

__all__ = [
    "CollectionSource",
    "SourceFrame",
    "TableSource",
    "TextFileSource",
    "frame_of",
    "is_read_cheaply",
]

# Spark hides a function's content once it is larger than this, in a broadcast variable.
_LARGEST_IN_PLAN = 256 << 10
_PIECES = 256
_DIGESTED_RECORDS = 10_000


class CollectionSource:
    """Records that the program itself holds.

    They are pickled here and now. Equal records have the same digest in every process.

    Args:
        items: the records.

    Raises:
        RecordNotSerializableError: when one can't be pickled.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._range = items if isinstance(items, range) else None
        self._splits: dict[int, CollectionSplits] = {}
        records = [] if self._range is not None else list(items)
        # As many subtasks as there may ever be share the pieces.
        reader, self._pieces = pickled_collection(
            records, min(len(records), _PIECES) or 1, "Source: Collection"
        )
        self._content = _content_of(records, reader, self._pieces)

    def frame(self, spark: SparkSession, name: str, parallelism: int) -> SourceFrame:
        """What stands below the pass that reads it.

        Args:
            spark: the session.
            name: of the source.
            parallelism: how many subtasks read it.
        """
        if self._range is not None:
            ranges = tuple(
                (self._range[start:end],) for start, end in _bounds(len(self._range), parallelism)
            )
            reader = SourceReader(NumberSequenceSource(0, -1), None)
            return _split_frame(spark, name, reader, ranges)
        splits = self._splits.get(parallelism)
        if splits is None:
            splits = self._splits[parallelism] = self._divided(spark, parallelism)
        return _split_frame(spark, name, CollectionReader(splits), tuple(range(parallelism)))

    def _divided(self, spark: SparkSession, parallelism: int) -> CollectionSplits:
        divided: Any = tuple(
            tuple(payload for piece in self._pieces[start:end] for payload in piece)
            for start, end in _bounds(len(self._pieces), parallelism)
        )
        if sum(len(payload) for piece in self._pieces for payload in piece) > _LARGEST_IN_PLAN:
            divided = spark.sparkContext.broadcast(divided)
        return CollectionSplits(self._content, divided)


def _content_of(
    records: list[Any], reader: PickledCollection, pieces: tuple[tuple[bytes, ...], ...]
) -> object:
    """What stands for a collection in digests."""
    if len(records) <= _DIGESTED_RECORDS:
        try:
            return digest_value(records)
        except Undigestible:
            pass
    # Equal objects may have different pickles; then they are computed twice, and that is all.
    hasher = hashlib.sha256()
    for piece in pieces:
        for payload in piece:
            hasher.update(f"{len(payload)};".encode())
            hasher.update(payload)
    return hasher.hexdigest(), reader


@dataclass(frozen=True)
class TextFileSource:
    """The lines of text files, as Spark reads them.

    Attributes:
        path: a file, a directory or a pattern of them, on any file system that Spark reads.
    """

    path: str


@dataclass(frozen=True, eq=False)
class TableSource:
    """The rows of a table.

    Attributes:
        dataframe: the table, as a plain DataFrame.
    """

    dataframe: DataFrame


@dataclass(frozen=True)
class SourceFrame:
    """What stands below a pass that reads a source.

    Attributes:
        frame: its rows are what the input makes records of.
        input: makes them.
    """

    frame: DataFrame
    input: InputFormat


def is_read_cheaply(source: object) -> bool:
    """Whether reading a source twice takes less than keeping what was read.

    Args:
        source: what the API has handed over.
    """
    return not isinstance(source, Source) or isinstance(source, NumberSequenceSource)


def frame_of(spark: SparkSession, source: object, name: str, parallelism: int) -> SourceFrame:
    """The DataFrame that a source is read from, with its version as of now.

    Args:
        spark: the session.
        source: what the API has handed over.
        name: the source's name, for people.
        parallelism: how many subtasks read it, at most.

    Raises:
        InvalidStreamArgumentError: when it is no source.
        pyspark.errors.AnalysisException: when there are no such files.
    """
    match source:
        case CollectionSource():
            return source.frame(spark, name, parallelism)
        case TextFileSource(path):
            # Fewer subtasks may do, but none has an index beyond the parallelism.
            lines = spark.read.text(path).coalesce(parallelism)
            return SourceFrame(_classic(lines), LineInput())
        case TableSource(dataframe):
            rows = dataframe.coalesce(parallelism)
            return SourceFrame(_classic(rows), RowInput(dataframe.schema.json()))
        case Source():
            splits = _grouped(source.enumerate_splits(parallelism), parallelism)
            return _split_frame(spark, name, SourceReader(source, source.version()), splits)
    raise InvalidStreamArgumentError(
        "from_source()", source, "a NumberSequenceSource or an instance of a subclass of Source"
    )


def _split_frame(
    spark: SparkSession, name: str, reader: Any, splits: tuple[Any, ...]
) -> SourceFrame:
    # A row for each subtask in a partition of its own, whose value is the subtask's index.
    frame = _classic(spark.range(0, len(splits), 1, len(splits)))
    return SourceFrame(frame, SourceInput(name, reader, splits))


def _grouped(splits: Sequence[Any], parallelism: int) -> tuple[tuple[Any, ...], ...]:
    splits = list(splits)
    return tuple(tuple(splits[start:end]) for start, end in _bounds(len(splits), parallelism))


def _bounds(count: int, parts: int) -> list[tuple[int, int]]:
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def _classic(frame: Any) -> DataFrame:
    assert isinstance(frame, DataFrame)
    return frame
