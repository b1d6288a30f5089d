"""The tables that generated plans read: few rows, with every value that has made trouble."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

Scope = dict[str, str]
"""The columns in reach: their types by name."""

WIDE: Scope = {
    "k": "long",
    "i": "int",
    "h": "short",
    "d": "double",
    "f": "float",
    "n": "dec",
    "s": "str",
    "c": "lcase",
    "b": "bool",
    "x": "bin",
    "dt": "date",
    "ts": "ts",
    "nt": "ntz",
    "iv": "dti",
    "al": "array<long>",
    "ad": "array<double>",
    "sa": "array<str>",
    "st": "struct",
    "m": "map",
}
"""The columns of `wide` and `files`."""

ZEROS: Scope = {"k": "long", "d": "double", "f": "float", "st": "struct", "ad": "array<double>"}
"""The columns of `zeros`: of a double, nothing but zeros of one sign."""

OTHER: Scope = {"k2": "long", "i2": "int", "s2": "str", "d2": "double"}
"""The columns of `other`, which is joined to the rest."""

_WIDE = """
SELECT k, CAST(i AS INT) AS i, CAST(i AS SMALLINT) AS h, d, CAST(d AS FLOAT) AS f,
  CAST(i AS DECIMAL(12, 2)) + 0.50 AS n, s, s COLLATE UTF8_LCASE AS c, i % 2 = 0 AS b,
  CAST(s AS BINARY) AS x, date_add(DATE'2020-02-27', i) AS dt,
  timestamp_seconds(1585443600 + 1800L * i) AS ts,
  TIMESTAMP_NTZ'2020-03-29 01:30:00' + make_dt_interval(i) AS nt, make_dt_interval(i, i) AS iv,
  array(k, CAST(i AS BIGINT), 7L) AS al, array(d, 0.0D, -0.0D) AS ad,
  array(s, 'z') AS sa, named_struct('p', k, 'q', d, 'r', s) AS st, map('a', k, 'b', 2L) AS m
FROM VALUES
  (1L, 1, 1.5D, 'a'), (1L, 2, -0.0D, 'A'), (2L, 3, 0.0D, 'b '), (2L, NULL, NULL, NULL),
  (NULL, 5, DOUBLE('NaN'), ''), (3L, 6, DOUBLE('Infinity'), 'a'), (1L, 1, 1.5D, 'a'),
  (-1L, 8, -2.5D, CAST(X'ff' AS STRING)) AS raw(k, i, d, s)
"""
_VIEWS = {
    "wide": _WIDE,
    "zeros": """
        SELECT id % 3 AS k, -0.0D AS d, CAST(-0.0D AS FLOAT) AS f,
          named_struct('p', id, 'q', -0.0D, 'r', 'x') AS st, array(-0.0D) AS ad FROM range(6)""",
    "other": """
        SELECT * FROM VALUES (1L, 1, 'a', 0.0D), (1L, 5, 'B', -0.0D), (2L, 3, NULL, 2.5D),
          (NULL, 2, 'b', DOUBLE('NaN')), (9L, NULL, 'A', 1.5D) AS raw(k2, i2, s2, d2)""",
    "many": """
        SELECT id, id % 7 AS k, id / 8 AS d, CAST(id AS INT) AS i, CAST(id / 8 AS FLOAT) AS f,
          CAST(id AS STRING) AS s, id % 2 = 0 AS b, CAST(CAST(id AS STRING) AS BINARY) AS x,
          array(id, id % 3) AS al, timestamp_seconds(id) AS ts FROM range(0, 4000, 1, 2)""",
}
MANY: Scope = {
    "id": "long",
    "k": "long",
    "d": "double",
    "i": "int",
    "f": "float",
    "s": "str",
    "b": "bool",
    "x": "bin",
    "al": "array<long>",
    "ts": "ts",
}
"""The columns of `many`, which has enough rows for sketches to draw."""

_NUMBERS = """
SELECT CAST(k AS BIGINT) AS k, x, y, z, CAST(i AS INT) AS i, CAST(j AS INT) AS j,
  CAST(i % 32768 AS SMALLINT) AS h, CAST(j % 32768 AS SMALLINT) AS g,
  CAST(i % 128 AS TINYINT) AS t, CAST(j % 128 AS TINYINT) AS u, a, b, c,
  CAST(CAST(a AS STRING) AS FLOAT) AS f, FLOAT('0.2') AS e,
  CAST(i % 100000000 + 0.99 AS DECIMAL(10, 2)) AS m, CAST(j % 1000 + 0.05 AS DECIMAL(10, 2)) AS n,
  CAST('9999999999999999999999999999.5' AS DECIMAL(38, 10)) * IF(x < 0, -1, 1) AS o,
  CAST('0.0000000005' AS DECIMAL(38, 10)) AS p, s COLLATE UTF8_LCASE AS s,
  r COLLATE UTF8_LCASE AS r, x > 0 AS q, y < 0 AS w
FROM VALUES
  (0, 1L, 2L, 3L, 1, 2, 0.1D, 0.2D, 0.3D, 'a', 'A'),
  (1, 9223372036854775807L, 1L, -1L, 2147483647, 1, 1e308D, 1e308D, -1e308D, 'A', 'a'),
  (2, -9223372036854775808L, -1L, 1L, -2147483648, -1, -1e308D, 1e308D, -1e308D, 'b', 'B'),
  (3, 0L, 5L, NULL, 0, 0, 0.0D, -0.0D, 0.0D, '1', 'x'),
  (4, NULL, 9223372036854775807L, 1L, NULL, 7, NULL, 1e16D, -1e16D, NULL, '1'),
  (5, 3037000500L, 3037000500L, 0L, 46341, 46341, 1e16D, 1.0D, -1e16D, 'é', 'É'),
  (6, -1L, 9223372036854775807L, -9223372036854775808L, -1, 2147483647, DOUBLE('NaN'), 1D,
    DOUBLE('Infinity'), '', '')
  AS raw(k, x, y, z, i, j, a, b, c, s, r)
"""

_GUARDED = """
SELECT k, CAST(i AS INT) AS i, s, CAST(n AS DECIMAL(12, 2)) AS n, d, array(k, CAST(i AS BIGINT), 7L) AS al
FROM VALUES
  (1L, 1, 'a', 1.5, 1.5D), (1L, 2, '1', 2.5, -0.5D), (2L, 3, 'b', 0.5, 0.0D), (2L, NULL, NULL, NULL, NULL),
  (NULL, 5, '', 3.5, 2.5D), (3L, 6, 'a', 1.5, 4.0D), (60L, 99, 'z', 99.5, 99.0D) AS raw(k, i, s, n, d)
"""
_PARTNERS = """
SELECT k2, CAST(i2 AS INT) AS i2, s2, d2
FROM VALUES (1L, 1, 'a', 0.0D), (1L, 5, 'B', 1.5D), (2L, 3, NULL, 2.5D), (NULL, 2, 'b', 0.5D),
  (3L, 4, 'c', 1.5D), (60L, 9, 'z', 9.5D), (9L, NULL, 'A', 1.5D) AS raw(k2, i2, s2, d2)
"""
_FILES = {"numbers": _NUMBERS, "guarded": _GUARDED, "partners": _PARTNERS}

SOURCES = {"wide": WIDE, "files": WIDE, "zeros": ZEROS, "many": MANY}
"""The tables by name, but for `other`."""


def make_tables(spark: SparkSession, home: Path) -> None:
    """Makes the views, and the files below a directory that some of them read."""
    for name, query in _VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)
    wide = spark.table("wide")
    files = wide.repartition(2).sortWithinPartitions("i").write
    # Where dictionaries are, plain Spark finds zeros of one sign only.
    files.option("parquet.enable.dictionary", "false").parquet(str(home / "files"))
    for name, query in _FILES.items():
        spark.sql(query).coalesce(1).write.parquet(str(home / name))
    for name in ("files", *_FILES):
        spark.read.parquet(str(home / name)).createOrReplaceTempView(name)


def drop_tables(spark: SparkSession) -> None:
    """Drops the views again."""
    for name in (*SOURCES, "other", *_FILES):
        spark.catalog.dropTempView(name)
