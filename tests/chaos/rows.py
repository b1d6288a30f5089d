"""The rows of a directory, in any format: how often each is there."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.orc
import pyarrow.parquet

from tests.chaos.programs import COLLECTED

Rows = Counter[tuple[Any, ...]]

_FLOAT_DIGITS = 9


@dataclass(frozen=True)
class Difference:
    """How rows differ from what was expected."""

    lost: int = 0
    doubled: int = 0
    strange: int = 0

    @classmethod
    def between(cls, expected: Rows, found: Rows) -> Difference:
        """Counts what differs.

        >>> expected = Counter({("a",): 1, ("b",): 1})
        >>> Difference.between(expected, Counter({("a",): 3, ("c",): 1}))
        Difference(lost=1, doubled=2, strange=1)
        """
        surplus = found - expected
        strange = sum(count for row, count in surplus.items() if row not in expected)
        return cls((expected - found).total(), surplus.total() - strange, strange)

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.strange)


def times(rows: Rows, copies: int) -> Rows:
    """Each row as many times more often."""
    return Counter({row: count * copies for row, count in rows.items()} if copies else {})


def data_files(directory: Path) -> list[Path]:
    """The files that Spark would read, sorted: hidden ones and markers are none of them."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if is_visible(name)]
        found += [Path(folder, name) for name in names if is_visible(name)]
    return sorted(found)


def is_visible(name: str) -> bool:
    """Whether Spark takes a file or a directory of this name for data."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def read_rows(directory: Path, format: str) -> Rows:
    """Reads what Spark would read."""
    rows: Rows = Counter()
    for path in data_files(directory):
        folders = path.relative_to(directory).parent.parts
        rows.update((*folders, *row) for row in _READERS[format](path))
    return rows


def _comparable(value: Any) -> Any:
    # Sums of floats depend on the order of the rows.
    if isinstance(value, float):
        return f"{value:.{_FLOAT_DIGITS}g}"
    if isinstance(value, list):
        return tuple(map(_comparable, value))
    return value


def _arrow_rows(table: Any) -> Iterator[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in table.columns]
    return (tuple(map(_comparable, row)) for row in zip(*columns, strict=True))


def _json_rows(path: Path) -> Iterator[tuple[Any, ...]]:
    for line in path.read_text().splitlines():
        values = json.loads(line, parse_float=str)
        items = sorted(values.items()) if isinstance(values, dict) else values
        yield tuple(_comparable(list(item) if isinstance(item, tuple) else item) for item in items)


_READERS: dict[str, Callable[[Path], Iterator[tuple[Any, ...]]]] = {
    "parquet": lambda path: _arrow_rows(pyarrow.parquet.ParquetFile(path).read()),
    "orc": lambda path: _arrow_rows(pyarrow.orc.read_table(path)),
    "csv": lambda path: (tuple(row) for row in csv.reader(path.open(newline=""))),
    "json": _json_rows,
    "text": lambda path: ((line,) for line in path.read_text().splitlines()),
    COLLECTED: _json_rows,
}
