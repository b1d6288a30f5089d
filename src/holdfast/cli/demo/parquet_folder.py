"""The tables that a folder of Parquet files holds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.readwriter import DataFrameReader

from holdfast.cli.demo.errors import BadDemoInputError

_SUFFIXES = (".parquet", ".parq", ".pq")
_PATTERN_LETTERS = frozenset("*?[]{}\\")


class StorySource(Protocol):
    """A SparkSession, which reads DataFrames, or an Environment, which reads Tables."""

    @property
    def read(self) -> DataFrameReader:
        """A new reader."""


@dataclass(frozen=True)
class ParquetTable:
    """A table of Parquet files.

    Attributes:
        name: what the file or folder is called.
        files: what it consists of.
        folder: below which its files lie, if it is one; folders `key=value` in it are columns.
        rows: how many there are, by the files' footers.
        bytes: the size of the files.
    """

    name: str
    files: tuple[Path, ...]
    folder: Path | None
    rows: int
    bytes: int

    def read(self, source: StorySource) -> DataFrame:
        """The table, as a DataFrame of a session or a Table of an environment."""
        reader = source.read
        if self.folder is not None:
            reader = reader.option("basePath", str(self.folder))
        return reader.parquet(*map(str, self.files))


def tables_of(folder: Path) -> dict[str, ParquetTable]:
    """The tables in a folder, by name.

    A Parquet file is a table, and so is a folder of Parquet files, in which folders `key=value` may
    lie. Files side by side that differ in numbers alone are parts of one table, if their columns
    are the same. What starts with `_` or `.` doesn't count.

    Args:
        folder: where to look.

    Raises:
        BadDemoInputError: when there is no such folder, no table in it, or a file can't be read.
    """
    folder = folder.expanduser().absolute()
    refuse_patterns(folder)
    try:
        if not folder.exists():
            raise BadDemoInputError(f"{folder}: no such folder")
        if not folder.is_dir():
            raise BadDemoInputError(
                f"{folder} is not a folder; specify the folder that contains the files"
            )
        tables = list(_tables(folder))
    except OSError as error:
        raise BadDemoInputError(f"{folder} can't be read: {error.strerror or error}") from error
    if not tables:
        raise BadDemoInputError(
            f"{folder} contains no Parquet: expected files named *.parquet, or folders of them"
        )
    named = {table.name: table for table in tables}
    if len(named) < len(tables):
        twice = next(name for name in named if sum(table.name == name for table in tables) > 1)
        raise BadDemoInputError(
            f"{folder} contains two tables named {twice!r}; rename or remove one"
        )
    return named


def refuse_patterns(path: Path) -> None:
    """Raises BadDemoInputError for a path that Spark would take for a pattern of paths."""
    found = sorted(_PATTERN_LETTERS.intersection(str(path)))
    if found:
        raise BadDemoInputError(
            f"{path}: Spark takes {' '.join(found)} in a path as a pattern; rename the folder"
        )


def _tables(folder: Path) -> Iterator[ParquetTable]:
    entries = [entry for entry in sorted(folder.iterdir()) if not _is_hidden(entry)]
    if any(entry.is_dir() and "=" in entry.name for entry in entries):
        yield _table(folder.name, tuple(_files_below(folder)), folder)
        return
    for files in _parts(entry for entry in entries if _is_parquet(entry)):
        name = files[0].stem if len(files) == 1 else _common_name(files) or folder.name
        yield _table(name, files, None)
    for entry in entries:
        if entry.is_dir():
            files = tuple(_files_below(entry))
            if files:
                yield _table(_without_suffix(entry.name), files, entry)


def _parts(files: Iterable[Path]) -> list[tuple[Path, ...]]:
    """Files that are parts of one table, together."""
    parts: dict[tuple[str, pyarrow.Schema], list[Path]] = defaultdict(list)
    for file in files:
        columns = _footer(file).schema.to_arrow_schema().remove_metadata()
        parts[_common_name((file,)), columns].append(file)
    return [tuple(each) for each in parts.values()]


def _common_name(files: tuple[Path, ...]) -> str:
    # What follows "part-" in the names of files that Spark writes is a number and a random name.
    stem = re.sub(r"^part-.*", "", files[0].stem)
    return re.sub(r"[-_. ]*\d[-_. \d]*", "-", stem).strip("-")


def _files_below(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if _is_hidden(entry):
            continue
        if _is_parquet(entry):
            yield entry
        elif entry.is_dir() and "=" in entry.name:
            yield from _files_below(entry)


def _table(name: str, files: tuple[Path, ...], folder: Path | None) -> ParquetTable:
    footers = [_footer(file) for file in files]
    shared = set.intersection(*(set(footer.schema.to_arrow_schema().names) for footer in footers))
    if not shared and folder is not None:
        raise BadDemoInputError(
            f"the files in {folder} have no column in common, so they aren't one table; if each is "
            f"a table, use {folder} itself as --data"
        )
    rows = sum(footer.num_rows for footer in footers)
    return ParquetTable(name, files, folder, rows, sum(file.stat().st_size for file in files))


def _footer(file: Path) -> pq.FileMetaData:
    refuse_patterns(file)
    try:
        return pq.read_metadata(file)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadDemoInputError(f"{file} can't be read as Parquet: {reason}") from error


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and path.is_file()


def _is_hidden(path: Path) -> bool:
    return path.name.startswith(("_", "."))


def _without_suffix(name: str) -> str:
    return Path(name).stem if Path(name).suffix.lower() in _SUFFIXES else name
