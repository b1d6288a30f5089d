"""What a later program finds of tables that a program makes, models, functions, and loops.

Each program is an Environment on one directory: what is cached in one is looked for in the next.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.clustering import KMeans
from pyspark.ml.feature import (
    Bucketizer,
    MinMaxScaler,
    StandardScaler,
    StringIndexer,
    VectorAssembler,
)
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import Vectors
from pyspark.ml.regression import DecisionTreeRegressor
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.testing import assert_differ, assert_reads, assert_same, difference, parts

Query = Callable[[SparkSession, str], DataFrame]
Start = Callable[[], Environment]

_MAPS = [Row(k=1, m={"a": 1.5}, l=[1, 2]), Row(k=2, m=None, l=[])]
_DATES = [(datetime.date(2020, 1, 2), decimal.Decimal("1.50")), (None, None)]
_WIDE = [(number, str(number) * 5) for number in range(20_000)]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    with ExitStack() as started:
        yield lambda: started.enter_context(Environment(spark, config=config))


def session_of(env: Environment) -> SparkSession:
    return env.range(1).sparkSession


@pytest.fixture
def facts(spark: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "facts")
    columns = ("id", "id % 3 AS v", "CAST(id % 2 AS STRING) AS t", "id * 1.5 AS x")
    spark.range(0, 60, 1, 2).selectExpr(*columns).write.parquet(path)
    return path


def _rows(data: Any, schema: Any = None) -> Query:
    return lambda spark, _: spark.createDataFrame(data, schema)


def _sql(*statements: str) -> Query:
    def query(spark: SparkSession, path: str) -> DataFrame:
        for each in statements:
            made = spark.sql(each.replace("facts", f"parquet.`{path}`"))
        return made

    return query


def _vectors(spark: SparkSession, path: str, *columns: str) -> DataFrame:
    assembler = VectorAssembler(inputCols=list(columns or ("id", "x")), outputCol="f")
    return assembler.transform(spark.read.parquet(path))


def _fitted(make: Callable[[], Any], *columns: str) -> Query:
    def query(spark: SparkSession, path: str) -> DataFrame:
        vectors = _vectors(spark, path, *columns)
        return make().fit(vectors).transform(vectors)

    return query


def _scaler() -> Any:
    return StandardScaler(inputCol="f", outputCol="g")


def _pipeline() -> Any:
    indexer = StringIndexer(inputCol="t", outputCol="i")
    assembler = VectorAssembler(inputCols=["i", "x"], outputCol="g")
    return Pipeline(stages=[indexer, assembler, MinMaxScaler(inputCol="g", outputCol="h")])


def _bucketed(*splits: float) -> Query:
    def query(spark: SparkSession, path: str) -> DataFrame:
        bucketizer = Bucketizer(splits=list(splits), inputCol="x", outputCol="b")
        return bucketizer.transform(spark.read.parquet(path))

    return query


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


FOUND: Mapping[str, Query] = {
    "tuples": _rows([(1, "a"), (2, None)], "i int, t string"),
    "rows": _rows(_MAPS),
    "dicts": _rows([{"i": 1, "t": "a"}, {"i": 2, "t": "b"}]),
    "values": _rows(_DATES, "d date, n decimal(5,2)"),
    "one column": _rows([1, 2, 3], "int"),
    "no rows": _rows([], "i int"),
    "many rows": _rows(_WIDE, "i int, t string"),
    "pandas": _rows(pd.DataFrame({"i": [1, 2], "t": ["a", None]})),
    "vectors": _rows([(Vectors.dense(1.0, 2.0), 1), (Vectors.sparse(2, {0: 1.0}), 2)], ["f", "i"]),
    "joined": lambda spark, path: spark.read.parquet(path).join(
        spark.createDataFrame([(1, "one"), (2, "two")], "v long, n string"), "v"
    ),
    "assembler": _vectors,
    "bucketizer": _bucketed(0.0, 10.0, 100.0),
    "scaler": _fitted(_scaler),
    "pipeline": _fitted(_pipeline),
    "clusters": _fitted(lambda: KMeans(k=2, seed=1, featuresCol="f", predictionCol="p"), "id"),
    "arrays": lambda spark, path: _vectors(spark, path).select(vector_to_array("f")),
    "variable": _sql(
        "DECLARE OR REPLACE VARIABLE chosen INT DEFAULT 1",
        "SET VAR chosen = 2",
        "SELECT id, chosen AS c FROM facts WHERE v = chosen",
    ),
    "execute immediate": _sql("EXECUTE IMMEDIATE 'SELECT id FROM facts WHERE v = ?' USING 2"),
    "scalar function": _sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION twice(n BIGINT) RETURNS BIGINT RETURN n * 2",
        "SELECT twice(id) AS d FROM facts",
    ),
    "table function": _sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION below(n BIGINT) RETURNS TABLE (k BIGINT)"
        " RETURN SELECT id FROM range(9) WHERE id < n",
        "SELECT v, k FROM facts, LATERAL below(v)",
    ),
    "file name": lambda spark, path: (
        spark.read.parquet(path).groupBy(F.input_file_name().alias("f")).count()
    ),
    "recursion": _sql(
        "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 9)"
        " SELECT n FROM up"
    ),
    "variant": _sql(
        "SELECT id, CAST(e.value AS STRING) FROM"
        " (SELECT id, parse_json(to_json(named_struct('a', v))) AS j FROM facts) q,"
        " LATERAL variant_explode(q.j) e"
    ),
}
FITTED = {"pipeline", "clusters"}
QUICK = [name for name in FOUND if name not in FITTED]
RUN_AGAIN = 4
"""Of so many, one is not only asked of the later program, but run."""


@pytest.mark.parametrize(
    "names",
    [QUICK[::2], *(pytest.param(each, marks=pytest.mark.soak) for each in (QUICK[1::2], FITTED))],
    ids=len,
)
def test_a_later_program_reads_it(
    start: Start, facts: str, spark: SparkSession, names: list[str]
) -> None:
    queries = {name: FOUND[name] for name in names if name in known(spark)}
    first, expected = start(), {}
    for name, query in queries.items():
        expected[name] = rows(query(session_of(first), facts).cache(lifetime="1 h"))
    first.close()
    later = start()
    for number, (name, query) in enumerate(queries.items()):
        table = query(session_of(later), facts)
        assert_reads(table, times=1)
        if number % RUN_AGAIN == 0:
            assert rows(table) == expected[name] == rows(query(spark, facts)), name


def known(spark: SparkSession) -> set[str]:
    """What this version of Spark has."""
    return {*FOUND} - ({"recursion"} if spark.version < "4.1" else set())


DIFFERENT: Mapping[str, tuple[Query, Query]] = {
    "another value": (_rows([(1, "a")], "i int, t string"), _rows([(1, "b")], "i int, t string")),
    "another null": (_rows([(0,)], "i int"), _rows([(None,)], "i int")),
    "another type": (_rows([(1,)], "i int"), _rows([(1,)], "i long")),
    "another nullability": (_rows([(1,)], "i int"), _rows([(1,)], "i int not null")),
    "another order": (_rows([(1,), (2,)], "i int"), _rows([(2,), (1,)], "i int")),
    "once more": (_rows([(1,)], "i int"), _rows([(1,), (1,)], "i int")),
    "the last of many": (
        _rows(_WIDE, "i int, t string"),
        _rows([*_WIDE[:-1], (19_999, "")], "i int, t string"),
    ),
    "another zero": (_rows([(0.0,)], "x double"), _rows([(-0.0,)], "x double")),
    "other columns of vectors": (_vectors, lambda spark, path: _vectors(spark, path, "x", "id")),
    "other captured values": (_bucketed(0.0, 10.0, 100.0), _bucketed(0.0, 20.0, 100.0)),
    "another model": (
        _fitted(_scaler),
        _fitted(lambda: _scaler().setWithMean(True)),
    ),
}


def test_other_content_is_computed(start: Start, facts: str) -> None:
    session = session_of(start())
    found = {
        what: difference(*(query(session, facts) for query in queries))
        for what, queries in DIFFERENT.items()
    }
    assert [what for what, each in found.items() if each is None] == []


def test_the_seed_that_a_model_was_fitted_with_is_no_matter(start: Start, facts: str) -> None:
    """By default it is another one in each process."""

    def fitted(seed: int) -> DataFrame:
        tree = DecisionTreeRegressor(labelCol="v", featuresCol="f", seed=seed)
        return _fitted(lambda: tree)(session, facts)

    session = session_of(start())
    assert_same(fitted(1), fitted(2))


NAMES_OF_FILES: Mapping[str, Query] = {
    "joined": lambda spark, path: (
        spark.read.parquet(path).crossJoin(spark.range(2).toDF("k")).select(F.input_file_name())
    ),
    "shuffled": lambda spark, path: (
        spark.read.parquet(path).repartition(2).select(F.input_file_name())
    ),
    "cut off": lambda spark, path: spark.read.parquet(path).limit(3).select(F.input_file_name()),
    "beside Python": lambda spark, path: spark.read.parquet(path).select(
        F.input_file_name(), F.udf(lambda number: number, "long")("id")
    ),
    "above Python": lambda spark, path: (
        spark.read.parquet(path)
        .select(F.udf(lambda number: number, "long")("id").alias("k"))
        .select(F.input_file_name(), "k")
    ),
}


def test_a_file_s_name_counts_right_above_the_files(start: Start, facts: str) -> None:
    session = session_of(start())
    for query in NAMES_OF_FILES.values():
        assert_differ(query(session, facts), query(session, facts), "reason")


def test_what_shows_how_files_are_read_has_several_right_answers(start: Start, facts: str) -> None:
    read = session_of(start()).read.parquet(facts)
    for name in ("_metadata", "_metadata.file_block_start"):
        (part,) = parts(read.select("id", name).cache())
        assert any("one of several right answers" in fact for fact in part.facts), name


def _loop(first: str, last: int) -> Query:
    return _sql(
        f"WITH RECURSIVE up(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM up WHERE n < {last})"
        " SELECT n FROM up"
    )


def test_loops_are_read_as_a_whole(start: Start, facts: str, spark: SparkSession) -> None:
    if "recursion" not in known(spark):
        pytest.skip("Spark has no recursive queries")
    begin = "(SELECT max(id) % 3 FROM facts WHERE v = {})"
    first, kept = start(), _loop(begin.format(2), 9)
    inner = _sql("SELECT max(id) % 3 AS n FROM facts WHERE v = 2")
    for each in (inner, kept):
        each(session_of(first), facts).cache(lifetime="1 h").collect()
    first.close()
    session = session_of(start())
    assert_reads(kept(session, facts), times=1)
    assert rows(kept(session, facts)) == rows(kept(spark, facts))
    others = [(begin.format(1), 9), (begin.format(2), 8), (begin.format(2) + " + 1", 9)]
    for other in (_loop(*each) for each in others):
        assert rows(other(session, facts)) == rows(other(spark, facts))
