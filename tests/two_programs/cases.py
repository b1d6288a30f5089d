"""Ordinary things to cache with a lifetime, each made in the same way by two programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

_FLAT = "INSERT INTO {} SELECT id, id % 7 FROM range(1000)"
_PARTITIONED = [
    f"INSERT INTO {{}} PARTITION (p = {p}) SELECT id, id % 7 FROM range(500)" for p in (1, 2)
]
TABLES: dict[str, list[str]] = {
    "flat": ["CREATE TABLE {} (id BIGINT, v INT) USING parquet", _FLAT],
    "parts": [
        "CREATE TABLE {} (id BIGINT, v INT, p INT) USING parquet PARTITIONED BY (p)",
        "INSERT INTO {} SELECT id, id % 7, id % 3 FROM range(1000)",
    ],
    "hive_parts": [
        "CREATE TABLE {} (id BIGINT, v INT) PARTITIONED BY (p INT) STORED AS PARQUET",
        *_PARTITIONED,
    ],
    "hive_text": ["CREATE TABLE {} (id BIGINT, v INT) STORED AS TEXTFILE", _FLAT],
    "text_parts": [
        "CREATE TABLE {} (id BIGINT, v INT) PARTITIONED BY (p INT) STORED AS TEXTFILE",
        *_PARTITIONED,
    ],
    "buckets": [
        "CREATE TABLE {} (id BIGINT, v INT) USING parquet CLUSTERED BY (v) INTO 4 BUCKETS",
        _FLAT,
    ],
    "lines": ["CREATE TABLE {} (id BIGINT, v INT) USING csv", _FLAT],
}
"""How each table of the catalog is made."""


@dataclass(frozen=True)
class World:
    """Where a case is made. What it asks is made by the first program that asks it.

    Attributes:
        spark: the program's session.
        home: the directory of the files.
    """

    spark: SparkSession
    home: Path

    def read(self) -> DataFrame:
        """The files that most cases ask."""
        return self.files("parquet")

    def files(self, kind: str, **options: Any) -> DataFrame:
        """The same rows in files of another kind."""
        return self.spark.read.options(**options).format(kind).load(self.path(kind))

    def path(self, kind: str) -> str:
        """Where there are files of a kind."""
        path = self.home / kind
        if not path.exists():
            self._write(kind, str(path))
        return str(path)

    def table(self, name: str) -> None:
        """Has the catalog have a table, and what else a query may name of it."""
        catalog = self.spark.catalog
        if name in TABLES and not catalog.tableExists(name):
            for statement in TABLES[name]:
                self.spark.sql(statement.format(name))
        elif name == "seen" and not catalog.tableExists(name):
            self.table("flat")
            self.spark.sql("CREATE VIEW seen AS SELECT id, v FROM flat WHERE v > 2")
        elif name == "doubled" and not catalog.functionExists(name):
            self.spark.sql("CREATE FUNCTION doubled(x BIGINT) RETURNS BIGINT RETURN x * 2")
        elif name == "up_to" and not catalog.functionExists(name):
            self.table("flat")
            self.spark.sql(
                "CREATE FUNCTION up_to(n INT) RETURNS TABLE (id BIGINT) "
                "RETURN SELECT id FROM flat WHERE id < up_to.n"
            )

    def _write(self, kind: str, path: str) -> None:
        rows = self.spark.range(2000).selectExpr(
            *("id", "id % 7 AS v", "CAST(id AS STRING) AS t", "id * 1.5 AS x"),
            *("timestamp_seconds(id) AS ts", "array(id, id + 1) AS a"),
            "named_struct('p', id, 'q', 'z') AS st",
        )
        flat = rows.drop("a", "st")
        match kind:
            case "csv":
                flat.write.csv(path, header=True)
            case "xml":
                flat.write.option("rowTag", "r").xml(path)
            case "text":
                rows.select("t").write.text(path)
            case "hive":
                rows.write.partitionBy("v").parquet(path)
            case _:
                rows.write.format(kind).save(path)


Make = Callable[[World], DataFrame]


@dataclass(frozen=True)
class Count:
    """A record of a stream."""

    word: str
    number: int

    @staticmethod
    def of(pair: tuple[str, int]) -> Count:
        """The record of a pair."""
        return Count(*pair)


@F.udf(LongType())
def plus(number):  # type: ignore[no-untyped-def]
    return number + 1


@F.pandas_udf(DoubleType())
def half(numbers: pd.Series) -> pd.Series:
    return numbers / 2


@F.pandas_udf(DoubleType())
def mean(numbers: pd.Series) -> float:
    return float(numbers.mean())


def ids(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame[["id"]]


def same_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def first_of(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[["id"]].sort_values("id").head(1)


def first_of_table(table: pa.Table) -> pa.Table:
    return table.select(["id"]).sort_by("id").slice(0, 1)


def both(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"n": [len(left) + len(right)]})


@F.udtf(returnType=StructType([StructField("n", LongType())]))
class Two:
    def eval(self, number: int) -> Iterator[tuple[int]]:
        yield (number,)
        yield (number + 1,)


def counts(kind: str, **options: Any) -> Make:
    """A group over files of a kind."""
    return lambda world: world.files(kind, **options).groupBy("v").count()


def sql(text: str, *before: str) -> Make:
    """A query, after statements; `{files}` is the directory of Parquet files."""

    def made(world: World) -> DataFrame:
        for statement in before:
            world.spark.sql(statement)
        for word in re.findall(r"\w+", text):
            world.table(word)
        files = f"parquet.`{world.path('parquet')}`" if "{files}" in text else ""
        return world.spark.sql(text.format(files=files))

    return made


def grouped(*aggregates: str) -> Make:
    """Aggregates of each `v`."""
    return lambda world: world.read().groupBy("v").agg(*map(F.expr, aggregates))


def rows(values: Any, schema: str | None = None) -> Make:
    """A small table that the program makes."""
    return lambda world: world.spark.createDataFrame(values, schema)


def _temporary_view(world: World) -> DataFrame:
    world.read().createOrReplaceTempView("asked")
    return world.spark.sql("SELECT v, max(id) FROM asked GROUP BY v")


def _rows_join_file(world: World) -> DataFrame:
    names = world.spark.createDataFrame([(1, "a"), (2, "b")], "v long, n string")
    return world.read().join(names, "v").groupBy("n").count()


def _broadcast(world: World) -> DataFrame:
    other = world.files("orc").select("id", F.col("x").alias("y"))
    return world.read().join(F.broadcast(other), "id").groupBy("v").agg(F.sum("y"))


def _assembled(world: World) -> DataFrame:
    return VectorAssembler(inputCols=["id", "x"], outputCol="f").transform(world.read())


def _scaled(world: World) -> DataFrame:
    assembled = _assembled(world)
    return StandardScaler(inputCol="f", outputCol="g").fit(assembled).transform(assembled)


def _indexed(world: World) -> DataFrame:
    return StringIndexer(inputCol="t", outputCol="n").fit(world.read()).transform(world.read())


def _except_all(world: World) -> DataFrame:
    numbers = world.read().select("id")
    return numbers.union(numbers).exceptAll(world.read().where("v = 1").select("id"))


CASES: dict[str, dict[str, Make]] = {
    "Sources": {
        "Parquet files": counts("parquet"),
        "ORC files": counts("orc"),
        "CSV files, types inferred": counts("csv", header=True, inferSchema=True),
        "CSV files": counts("csv", header=True),
        "JSON files": counts("json"),
        "XML files": counts("xml", rowTag="r"),
        "text files": lambda w: w.files("text").groupBy(F.substring("value", 1, 1)).count(),
        "binary files": lambda w: (
            w.spark.read.format("binaryFile").load(w.path("text")).select("length")
        ),
        "directories that are partitions": lambda w: (
            w.spark.read.parquet(w.path("hive")).where("v = 3").groupBy("v").count()
        ),
        "`range`": lambda w: w.spark.range(100).where("id % 3 = 0"),
        "a temporary view": _temporary_view,
        "a table": sql("SELECT v, count(*) AS n FROM flat GROUP BY v"),
        "a table of CSV files": sql("SELECT v, count(*) AS n FROM lines GROUP BY v"),
        "a bucketed table": sql("SELECT v, count(*) AS n FROM buckets GROUP BY v"),
        "a view": sql("SELECT v, count(*) AS n FROM seen GROUP BY v"),
        "a partitioned table": sql("SELECT v, count(*) AS n FROM parts GROUP BY v"),
        "one partition of a table": sql(
            "SELECT v, count(*) AS n FROM parts WHERE p = 1 GROUP BY v"
        ),
        "a partitioned table of Hive's": sql("SELECT v, count(*) AS n FROM hive_parts GROUP BY v"),
        "a table of Hive's, of text": sql("SELECT v, count(*) AS n FROM hive_text GROUP BY v"),
        "a partitioned table of Hive's, of text": sql(
            "SELECT v, count(*) AS n FROM text_parts GROUP BY v"
        ),
        "one partition of a table of Hive's, of text": sql(
            "SELECT v, count(*) AS n FROM text_parts WHERE p = 1 GROUP BY v"
        ),
    },
    "Rows that the program makes": {
        "`VALUES`": sql("SELECT i, count(*) FROM VALUES (1, 'a'), (2, 'b') AS t(i, n) GROUP BY i"),
        "tuples": rows([(1, "a"), (2, "b")], "i int, t string"),
        "`Row`s": rows([Row(i=1, t="a"), Row(i=2, t="b")]),
        "dictionaries": rows([{"i": 1, "t": "a"}, {"i": 2, "t": "b"}]),
        "a frame of pandas": rows(pd.DataFrame({"i": [1, 2, 3], "t": ["a", "b", "a"]})),
        "a table of Arrow": rows(pa.table({"i": [1, 2, 3]})),
        "rows joined with files": _rows_join_file,
        "an RDD": lambda w: w.read().rdd.map(lambda r: (r.id, r.v)).toDF(["id", "v"]),
    },
    "Operators": {
        "a window": lambda w: w.read().withColumn(
            "r", F.row_number().over(Window.partitionBy("v").orderBy("id"))
        ),
        "a window with ties": lambda w: w.read().select(
            "id", F.row_number().over(Window.partitionBy("v").orderBy("v")).alias("r")
        ),
        "`pivot` with values": lambda w: w.read().groupBy("v").pivot("t", ["1", "2"]).sum("id"),
        "`cube`": lambda w: w.read().cube("v").count(),
        "`distinct`": lambda w: w.read().select("v").distinct(),
        "`dropDuplicates` of some columns": lambda w: w.read().dropDuplicates(["v"]),
        "`orderBy` and `limit`": lambda w: w.read().orderBy("id").limit(7),
        "`limit`": lambda w: w.read().limit(7),
        "`sample` with a seed": lambda w: w.read().sample(0.1, seed=5),
        "`explode`": lambda w: w.read().select("id", F.explode("a").alias("e")),
        "`variant_explode`": sql(
            "SELECT id, key FROM {files}, LATERAL variant_explode(parse_json(to_json(st)))"
        ),
        "a join with a hint": _broadcast,
        "`union` and `exceptAll`": _except_all,
        "a recursive query": sql(
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9) "
            "SELECT n FROM r"
        ),
        "a correlated subquery": sql(
            "SELECT id FROM {files} one "
            "WHERE x > (SELECT avg(x) FROM {files} other WHERE one.v = other.v)"
        ),
        "`repartition(8)`": lambda w: w.read().repartition(8).select("id", "v"),
        "`repartition(8, k)`": lambda w: w.read().repartition(8, "v").groupBy("v").count(),
        "`coalesce(1)`": lambda w: w.read().coalesce(1).select("id"),
        "`sortWithinPartitions`": lambda w: w.read().sortWithinPartitions("id").select("id"),
        "`describe`": lambda w: w.read().select("id", "x").describe(),
    },
    "Functions": {
        "sums of floating-point numbers": grouped("sum(x)", "avg(x)", "stddev(x)"),
        "`collect_list`": grouped("collect_list(id)"),
        "`first`": grouped("first(id)"),
        "`mode` of values in an order": grouped("mode(id, true)"),
        "`percentile_approx`": grouped("percentile_approx(id, 0.5)"),
        "`approx_count_distinct`": grouped("approx_count_distinct(id)"),
        "`parse_json`": lambda w: w.read().select(F.parse_json(F.to_json("st")).alias("j")),
        "`from_json`": lambda w: w.read().select(F.from_json(F.to_json("st"), "p long").alias("j")),
        "`rand` with a seed": lambda w: w.read().where(F.rand(3) < 0.5).select("id"),
        "`monotonically_increasing_id`": lambda w: w.read().select(
            "id", F.monotonically_increasing_id().alias("m")
        ),
        "`input_file_name`": lambda w: w.read().groupBy(F.input_file_name().alias("f")).count(),
        "`_metadata.file_name`": lambda w: w.read().groupBy("_metadata.file_name").count(),
        "`current_date`": lambda w: w.read().where(F.col("ts") < F.current_date()).select("id"),
        "`uuid`": lambda w: w.read().select("id", F.expr("uuid()").alias("u")),
        "a temporary SQL function": sql(
            "SELECT twice(id) FROM {files}",
            "CREATE OR REPLACE TEMPORARY FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN x * 2",
        ),
        "a SQL function": sql("SELECT doubled(id) FROM {files}"),
        "a SQL function of a table": sql("SELECT id FROM up_to(10)"),
        "a variable": sql(
            "SELECT id FROM {files} WHERE v < least_v",
            "DECLARE OR REPLACE VARIABLE least_v INT DEFAULT 1",
            "SET VAR least_v = 3",
        ),
        "a query with parameters": lambda w: w.spark.sql(
            "SELECT id FROM {df} WHERE v < :least", {"least": 3}, df=w.read()
        ),
    },
    "Python functions": {
        "`udf`": lambda w: w.read().select(plus("id").alias("i")),
        "`udf` of a lambda": lambda w: w.read().select(F.udf(lambda z: z * 2, "long")("id")),
        "`pandas_udf`": lambda w: w.read().select(half("x").alias("h")),
        "`pandas_udf` of groups": lambda w: w.read().groupBy("v").agg(mean("x").alias("m")),
        "`mapInPandas`": lambda w: w.read().select("id").mapInPandas(ids, "id long"),
        "`mapInArrow`": lambda w: w.read().select("id").mapInArrow(same_batches, "id long"),
        "`applyInPandas`": lambda w: w.read().groupBy("v").applyInPandas(first_of, "id long"),
        "`applyInArrow`": lambda w: w.read().groupBy("v").applyInArrow(first_of_table, "id long"),
        "`cogroup`": lambda w: (
            w.read().groupBy("v").cogroup(w.files("orc").groupBy("v")).applyInPandas(both, "n long")
        ),
        "`udtf`": lambda w: w.read().select("id").lateralJoin(Two(F.col("id").outer())),
        "`udtf`, deterministic": lambda w: (
            w.read().select("id").lateralJoin(Two.asDeterministic()(F.col("id").outer()))
        ),
    },
    "Libraries": {
        "`VectorAssembler`": lambda w: _assembled(w).select("id", "f"),
        "`StandardScalerModel`": lambda w: _scaled(w).select("id", "g"),
        "`StringIndexerModel`": lambda w: _indexed(w).select("id", "n"),
        "pandas-on-Spark": lambda w: (
            w.read().select("id", "v").pandas_api().groupby("v").sum().to_spark()
        ),
    },
}
"""By section and name."""

SEVERAL_ANSWERS = {
    "`monotonically_increasing_id`",
    "a window with ties",
    "`dropDuplicates` of some columns",
    "`limit`",
    "`sample` with a seed",
    "`collect_list`",
    "`first`",
    "`percentile_approx`",
    "`rand` with a seed",
    "`uuid`",
}
"""The names of cases where plain Spark may give other rows each time."""
