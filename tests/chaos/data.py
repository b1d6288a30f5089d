"""What the programs read: TPC-H in several files for each big table, and lines of text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet

from benchmarks import tpch

BIG_TABLES = ("lineitem", "orders", "customer", "partsupp", "part")
LINES = "lines"
_FILES = 6


def prepare(directory: Path, scale: float) -> Path:
    """Makes the data, unless they are there already.

    A table of several files has several tasks, so that a driver can die between two of them.
    """
    finished = directory / f"chaos-{scale:g}"
    if not finished.exists():
        generated = tpch.generate(directory, scale)
        unfinished = directory / f"chaos-{scale:g}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        for table in tpch.TABLES:
            _split(
                generated / f"{table}.parquet",
                unfinished / f"{table}.parquet",
                _FILES if table in BIG_TABLES else 1,
            )
        _write_lines(generated / "orders.parquet", unfinished / LINES)
        unfinished.rename(finished)
    return finished


def _split(source: Path, target: Path, files: int) -> None:
    target.mkdir(parents=True)
    table = pyarrow.parquet.read_table(source)
    rows = -(-table.num_rows // files)
    for number in range(files):
        part = table.slice(number * rows, rows)
        path = target / f"part-{number}.parquet"
        # Arrow's own schema has types that Spark has none for.
        pyarrow.parquet.write_table(part, path, compression="zstd", store_schema=False)


def _write_lines(orders: Path, target: Path) -> None:
    target.mkdir()
    columns = pyarrow.parquet.read_table(orders, columns=["o_custkey", "o_comment"]).to_pydict()
    lines = [
        f"{customer} {comment}"
        for customer, comment in zip(columns["o_custkey"], columns["o_comment"], strict=True)
    ]
    for number in range(_FILES):
        (target / f"{number}.txt").write_text("\n".join(lines[number::_FILES]) + "\n")
