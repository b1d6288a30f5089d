"""How many values the columns of files have, by a look at some of their rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from holdfast.files.local_path import local_path
from holdfast.lazy_module import LazyModule
from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import file_listing

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
else:
    pa = LazyModule("pyarrow")
    pq = LazyModule("pyarrow.parquet")

# Of the first group of rows, the one in the middle, and the last one.
_SAMPLED_ROWS = 4_096
# Where so many of the rows that were looked at have a value of their own, all rows may.
_MOSTLY_NEW = 0.5
_REMEMBERED = 1_000


def column_values(column: str, operators: Iterable[OperatorDocument]) -> float | None:
    """How many values a column has, about; None where nobody knows.

    A partitioning column has those that directories are called by. Of others some rows are looked
    at, of the beginning, the middle and the end of the largest file: of Parquet, on this machine.

    Args:
        column: its id, and where it is a struct of which a field is asked for, the ordinals of the
            fields that lead there, each after a dot.
        operators: of a plan, among them what reads it.
    """
    column_id, *ordinals = map(int, column.split("."))
    for operator in operators:
        listing = file_listing(operator)
        if listing is not None and column_id in operator.get("out", ()):
            name, *fields = _path(operator["s"], [operator["out"].index(column_id), *ordinals])
            files = listing["files"]
            if not files:
                return None
            partitions = {directory for file in files for directory in _directories(file[0], name)}
            if partitions:
                return float(len(partitions))
            place, _, modified, *_ = max(files, key=lambda file: file[1])
            return _counted(place, modified, (name, *fields), len(files))
    return None


def _path(schema: Any, ordinals: Iterable[int]) -> Iterator[str]:
    """The names of fields, each in the type of the one before."""
    for ordinal in ordinals:
        field = schema["fields"][ordinal]
        yield field["name"]
        schema = field["type"]


def _directories(path: str, column: str) -> Iterator[str]:
    """What a path tells of the value of a partitioning column."""
    return (each for each in path.split("/")[:-1] if each.startswith(f"{column}="))


# Another version of the file is another file.
@lru_cache(_REMEMBERED)
def _counted(place: str, modified: int, path: tuple[str, ...], files: int) -> float | None:
    try:
        with pq.ParquetFile(local_path(place)) as file:
            groups = range(file.num_row_groups)
            if not groups or path[0] not in file.schema_arrow.names:
                return None
            chosen = sorted({groups[0], groups[len(groups) // 2], groups[-1]})
            values = [each for group in chosen for each in _some_values(file, group, path)]
            rows = file.metadata.num_rows * files
            found = len({*values})
    # Of a file that can't be read this way, or isn't Parquet, nothing is known, nor of structs and
    # arrays as a whole.
    except (pa.ArrowException, OSError, TypeError, ValueError):
        return None
    return float(rows if found > len(values) * _MOSTLY_NEW else found)


def _some_values(file: pq.ParquetFile, group: int, path: Sequence[str]) -> list[Hashable]:
    name, *fields = path
    for batch in file.iter_batches(_SAMPLED_ROWS, row_groups=[group], columns=[name]):
        values: list[Any] = batch.column(0).to_pylist()
        for field in fields:
            values = [None if each is None else each.get(field) for each in values]
        return values
    return []
