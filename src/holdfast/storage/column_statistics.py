"""What the footers of a dataset's files say of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.lazy_module import LazyModule

if TYPE_CHECKING:
    import pyarrow.parquet as parquet
else:
    parquet = LazyModule("pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column over all partitions.

    Attributes:
        least: its least value, as text; None where some footer doesn't give it.
        greatest: its greatest value, likewise.
        nulls: how many of its values are null; None likewise.
    """

    least: str | None
    greatest: str | None
    nulls: int | None


def column_statistics(files: Iterable[str]) -> dict[str, ColumnStatistics]:
    """The statistics of each column that is no struct, array or map, by its path in the files.

    Args:
        files: all partitions, Parquet files of this machine with one schema.

    Raises:
        OSError: when one can't be read.
        pyarrow.ArrowException: when one isn't whole.
    """
    found: dict[str, list[Any]] = {}
    for file in files:
        metadata = parquet.read_metadata(file)
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            for index in range(row_group.num_columns):
                column = row_group.column(index)
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    return {path: _of_all(each) for path, each in found.items()}


def _of_all(groups: list[Any]) -> ColumnStatistics:
    nulls = [each.null_count for each in groups if each is not None and each.has_null_count]
    # A row group of nulls alone has no least value, and needs none.
    bounded = [
        each for each in groups if each is None or each.num_values or not each.has_null_count
    ]
    known = bool(bounded) and all(each is not None and each.has_min_max for each in bounded)
    least, greatest = _bounds(bounded) if known else (None, None)
    return ColumnStatistics(least, greatest, sum(nulls) if len(nulls) == len(groups) else None)


def _bounds(groups: list[Any]) -> tuple[str | None, str | None]:
    try:
        return str(min(each.min for each in groups)), str(max(each.max for each in groups))
    except (ValueError, OverflowError):
        # Spark has texts of any bytes, and days that Python's calendar hasn't.
        return None, None
