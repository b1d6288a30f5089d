"""How many values the columns of files have, by a look at some of their rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from holdfast.files.local_path import local_path
from holdfast.lazy_module import LazyModule
from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import FileListing, file_listing

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


class ColumnValues:
    """How many values columns have. Safe for use by several threads.

    Some rows are looked at, of the beginning, the middle and the end of one file: of Parquet, on
    this machine.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, int, str], float | None] = OrderedDict()

    def of(self, column: int, operators: Iterable[OperatorDocument]) -> float | None:
        """How many values a column has, about; None where nobody knows.

        Args:
            column: its id.
            operators: of a plan, among them what reads it.
        """
        for operator in operators:
            listing = file_listing(operator)
            if listing is not None and column in operator.get("out", ()):
                name = operator["s"]["fields"][operator["out"].index(column)]["name"]
                return self._of_files(listing, name)
        return None

    def _of_files(self, listing: FileListing, name: str) -> float | None:
        if not listing["files"]:
            return None
        largest = max(listing["files"], key=lambda file: file[1])
        key = (largest[0], largest[2], name)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            found = _counted(largest[0], name, len(listing["files"]))
        with self._lock:
            self._known[key] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


def _counted(place: str, name: str, files: int) -> float | None:
    try:
        with pq.ParquetFile(local_path(place)) as file:
            groups = range(file.num_row_groups)
            if not groups or name not in file.schema_arrow.names:
                return None
            chosen = sorted({groups[0], groups[len(groups) // 2], groups[-1]})
            values = [each for group in chosen for each in _some_values(file, group, name)]
            rows = file.metadata.num_rows * files
    # A file that can't be read this way, or isn't Parquet, tells nothing.
    except (pa.ArrowException, OSError, ValueError):
        return None
    found = len({*values})
    return float(rows if found > len(values) * _MOSTLY_NEW else found)


def _some_values(file: pq.ParquetFile, group: int, name: str) -> list[Hashable]:
    for batch in file.iter_batches(_SAMPLED_ROWS, row_groups=[group], columns=[name]):
        values: list[Hashable] = batch.column(0).to_pylist()
        return values
    return []
