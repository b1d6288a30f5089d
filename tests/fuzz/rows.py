"""Rows to the last bit: -0.0 isn't 0.0, and one text that isn't UTF-8 isn't another one.

NaN is NaN, whatever its bits are: Spark's comparisons and hashes don't tell them apart, and its writer of
Parquet makes them the same.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

# Where Python has put an object is chance; that a text shows it, nobody can see beforehand.
_ADDRESS = re.compile(rb"\b0x[0-9a-f]{8,}")
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


@dataclass(frozen=True)
class Rows:
    """What a job gave: each row as a tuple that compares by bits."""

    names: tuple[str, ...]
    types: str
    rows: tuple[Any, ...]

    def agrees(self, other: Rows, *, ordered: bool) -> bool:
        """Whether both have the same rows equally often, in the same order if there is one."""
        if self.types != other.types:
            return False
        return self.rows == other.rows if ordered else Counter(self.rows) == Counter(other.rows)


def rows_of(df: DataFrame) -> Rows:
    """Runs a DataFrame or a Table.

    Arrow carries the very bytes of texts, which PySpark's own rows don't.
    """
    try:
        table = df.toArrow()
    except PySparkException as error:
        if error.getCondition() != "UNSUPPORTED_DATA_TYPE_FOR_ARROW_CONVERSION":
            raise
        return Rows(
            tuple(df.columns),
            df.schema.simpleString(),
            tuple(repr(tuple(row)) for row in df.collect()),
        )
    columns = [
        [value for chunk in column.chunks for value in _values(chunk)] for column in table.columns
    ]
    types = str([str(field.type) for field in table.schema])
    rows = zip(*columns, strict=True) if columns else [()] * table.num_rows
    return Rows(tuple(table.schema.names), types, tuple(rows))


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    present = array.is_valid().to_pylist()
    values: list[Any]
    if pa.types.is_struct(kind):
        fields = [_values(array.field(index)) for index in range(kind.num_fields)]
        values = list(zip(*fields, strict=True)) if fields else [()] * len(array)
    elif pa.types.is_map(kind):
        pairs = list(zip(_values(array.keys), _values(array.items), strict=True))
        values = _slices(array, pairs)
    elif pa.types.is_list(kind):
        values = _slices(array, _values(array.values))
    elif pa.types.is_string(kind):
        texts = array.view(pa.binary()).to_pylist()
        values = [text if text is None else _ADDRESS.sub(b"0x", text) for text in texts]
    elif kind in _BITS:
        one_nan = pc.if_else(pc.is_nan(array), pa.scalar(math.nan, kind), array)
        values = one_nan.view(_BITS[kind]).to_pylist()
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        values = array.view(pa.int64()).to_pylist()
    else:
        values = array.to_pylist()
    return [value if there else None for value, there in zip(values, present, strict=True)]


def _slices(array: Any, values: list[Any]) -> list[Any]:
    offsets = array.offsets.to_pylist()
    return [tuple(values[a:b]) for a, b in itertools.pairwise(offsets)]
