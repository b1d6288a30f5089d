"""Rows of tables as the records of passes, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.types import StructType, _parse_datatype_json_string

from holdfast.streaming.batch_size import BatchSize, take
from holdfast.streaming.inputs import InputFormat, InputLostError
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.outputs import OutputFormat
from holdfast.streaming.subtask import Subtask
from holdfast.streaming.user_functions import failing_as

__all__ = ["LineInput", "RowInput", "RowOutput"]

_ROWS_BYTES = 1 << 20


@dataclass(frozen=True)
class LineInput(InputFormat):
    """Lines of text: each row of the DataFrame below is one."""

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for frame in _read(frames):
            yield from frame.column(0).to_pylist()


@dataclass(frozen=True)
class RowInput(InputFormat):
    """Rows of a table.

    Args:
        schema: the table's schema as Spark's JSON.
    """

    schema: str

    def read(self, frames: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        schema = struct_of(self.schema)
        for frame in _read(frames):
            table = pa.Table.from_batches([frame])
            yield from ArrowTableToRowsConversion.convert(table, schema)


class RowOutput(OutputFormat):
    """Rows of a table with a schema that somebody has given.

    Args:
        schema: the table's schema as Spark's JSON.
    """

    def __init__(self, schema: str) -> None:
        self._schema = schema

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        schema = struct_of(self._schema)
        names = schema.fieldNames()
        size = BatchSize(_ROWS_BYTES)
        while taken := take(records, size.records):
            with failing_as(operator):
                rows = [_as_row(record, names) for record in taken]
                table = LocalDataToArrowConversion.convert(rows, schema, False)
            size.learn(len(rows), table.nbytes)
            yield from table.to_batches()


def struct_of(schema: str) -> StructType:
    """The type of a schema's JSON."""
    struct = _parse_datatype_json_string(schema)
    assert isinstance(struct, StructType)
    return struct


def _as_row(record: Any, names: list[str]) -> Any:
    if isinstance(record, Row) and set(names) <= set(getattr(record, "__fields__", ())):
        return tuple(record[name] for name in names)
    if len(names) == 1 and not _has_fields(record):
        return (record,)
    return record


def _has_fields(record: Any) -> bool:
    return isinstance(record, tuple | list | dict) or hasattr(record, "__dict__")


def _read(frames: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from frames
    except Exception as error:
        raise InputLostError(str(error)) from error
