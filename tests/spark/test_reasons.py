"""What makes a result private, unmatchable or not kept has one reason, the same everywhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.ml.feature import StopWordsRemover
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table
from holdfast.cli.main import main

KEPT = "intermediate-result-storage.directory"
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"

Make = Callable[[Environment], Table]


def numbers(env: Environment) -> Table:
    return env.range(0, 60, 1, 3).selectExpr("id", "id % 7 AS k", "concat('x', id) AS t")


def of_rdd(env: Environment) -> Table:
    rows = env.spark.sparkContext.parallelize([(1, 2)])
    return env.from_dataframe(env.spark.createDataFrame(rows, "a INT, b INT"))


def of_database(env: Environment) -> Table:
    url, table = "jdbc:derby:memory:reasons;create=true", "numbers"
    df = env.spark.range(3).selectExpr("id")
    df.write.jdbc(url, table, mode="overwrite", properties={"driver": DRIVER})
    return env.from_dataframe(env.spark.read.jdbc(url, table, properties={"driver": DRIVER}))


def without_many_words(env: Environment) -> Table:
    remover = StopWordsRemover(inputCol="t", outputCol="left", stopWords=["x" * 9_000_000])
    return env.from_dataframe(remover.transform(env.spark.sql("SELECT array('x', 'y') AS t")))


def looking_around(env: Environment) -> Table:
    looks = F.udf(lambda value: len(os.environ) + value, "long")
    return numbers(env).select(looks("id").alias("x"))


# Of each, what is said of it.
CASES: dict[str, tuple[Make, str]] = {
    "uuid": (lambda env: numbers(env).selectExpr("uuid() AS u"), "Uuid, which is not determin"),
    "partition": (
        lambda env: numbers(env).selectExpr("spark_partition_id() AS p"),
        "SparkPartitionID, which depends on how rows",
    ),
    "moment": (
        lambda env: numbers(env).withColumn("now", F.current_timestamp()),
        "CurrentTimestamp, which depends on when",
    ),
    "day": (
        lambda env: numbers(env).selectExpr("CAST(concat('to', 'day') AS DATE) AS d"),
        "a cast of a text that may name the current day",
    ),
    "operator": (
        lambda env: numbers(env).observe("seen", F.count("*").alias("n")),
        "the operator CollectMetrics, which Holdfast doesn't know",
    ),
    "function": (looking_around, "a Python function whose content can't be known"),
    "database": (of_database, "JDBCRelation"),
    "expression": (
        lambda env: numbers(env).freqItems(["k"]),
        "the expression CollectFrequentItems, which Holdfast doesn't know",
    ),
    "script": (
        lambda env: env.sql("SELECT TRANSFORM(id) USING 'cat' AS (x) FROM range(3)"),
        "a reference to an attribute that no input has",
    ),
    "command": (lambda env: env.sql("SHOW CATALOGS"), "a GenericInternalRow, whose content"),
    "rdd": (of_rdd, "an RDD, which no other program has"),
    "values": (lambda env: env.createDataFrame([("x" * 9_000_000,)], "x STRING"), "more than 8 MB"),
    "object": (without_many_words, "a function that holds more than 8388608 bytes"),
    "first": (
        lambda env: numbers(env).groupBy("k").agg(F.first("id")),
        "First, which depends on how rows",
    ),
    "limit": (lambda env: numbers(env).limit(7), "LocalLimit, which depends on how rows"),
    "ties": (
        lambda env: numbers(env).selectExpr("row_number() OVER (PARTITION BY k ORDER BY k) AS n"),
        "RowNumber, which depends on the order of rows that tie",
    ),
    "batches": (
        lambda env: numbers(env).select("id").mapInArrow(lambda rows: rows, "id long"),
        "PythonUDF, which depends on how rows",
    ),
}
SEVERAL_ANSWERS = ("partition", "first", "limit", "ties", "batches")


HERE = ("list", "explain", "job")
EVERYWHERE = (*HERE, "ls", "why")


class Said:
    """What is said of a table in each place."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = ["--directory", str(home / "kept")]
        self._capsys = capsys

    def at(self, place: str, env: Environment, table: Table) -> str:
        self._capsys.readouterr()
        match place:
            case "list":
                return repr(env.list_cached())
            case "job":
                return repr(env.last_job_result)
            case "explain":
                table.explain()
            case command:
                assert main([command, *self._directory]) == 0
        return self._capsys.readouterr().out

    def everywhere(
        self, env: Environment, table: Table, text: str, places: Sequence[str] = EVERYWHERE
    ) -> None:
        (listed,) = env.list_cached()
        found = (*listed.reasons, *listed.matches_only_itself)
        sentence = next(each.sentence for each in found if text in each.sentence)
        silent = [each for each in places if sentence not in self.at(each, env, table)]
        assert silent == []


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(tmp_path, capsys)


@pytest.mark.parametrize("case", CASES)
def test_what_is_private_has_a_reason(env: Environment, case: str) -> None:
    make, text = CASES[case]
    make(env).cache()
    (listed,) = env.list_cached()
    assert any(text in each.sentence for each in listed.matches_only_itself), listed.reasons


@pytest.mark.parametrize("case", CASES)
@pytest.mark.sampled(17)
def test_a_reason_is_the_same_everywhere(
    env: Environment, said: Said, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, text = CASES[case]
    table = make(env).cache()
    table.count()
    said.everywhere(env, table, text)
    with caplog.at_level(logging.INFO, logger="holdfast"):
        env.invalidate_all()
        make(env).cache(lifetime="1 h").count()
    lines = [each for each in caplog.messages if "has a lifetime, but" in each]
    # One of several right answers is then the one for all programs.
    assert [text in line for line in lines] == ([] if case in SEVERAL_ANSWERS else [True])


def test_what_any_program_finds_has_no_reason(env: Environment, said: Said) -> None:
    table = numbers(env).groupBy("k").count().cache(lifetime="1 h")
    table.count()
    places = "".join(said.at(each, env, table) for each in (*HERE, "ls"))
    assert "program reads it" not in places and "table reads it" not in places
    (listed,) = env.list_cached()
    assert listed.reasons == ()


def test_a_source_that_changes_says_so_everywhere(
    env: Environment, tmp_path: Path, said: Said
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    source.write_text("4\n5\n6\n")
    os.utime(source, (1, 1))
    assert len(hot.collect()) == 3
    said.everywhere(env, hot, str(source))


def test_a_table_that_spark_has_cached_says_so_everywhere(env: Environment, said: Said) -> None:
    env.spark.sql("CREATE TABLE held (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    try:
        env.spark.sql("INSERT INTO held VALUES (1, 1)")
        env.spark.sql("CACHE TABLE held")
        hot = env.table("held").where("id > 0").cache()
        hot.count()
        said.everywhere(env, hot, "a catalog's table that Spark has cached")
    finally:
        env.spark.sql("DROP TABLE held")


def test_what_parquet_cannot_hold_says_so_everywhere(env: Environment, said: Said) -> None:
    hot = env.sql("SELECT make_interval(1) AS odd").cache()
    said.everywhere(env, hot, "held by Spark's own cache", ("explain", "ls", "why"))
    hot.unpersist()
    assert env.list_cached() == []


# Where nothing is shared, by settings, and where that is said.
SETTINGS: dict[str, tuple[dict[str, object], Make, str, Sequence[str]]] = {
    "no room": (
        {"intermediate-result-storage.max-size": "100 b"},
        numbers,
        "there is no room for its",
        EVERYWHERE,
    ),
    "own answers": (
        {"intermediate-result-storage.share-ambiguous": False},
        lambda env: numbers(env).limit(7),
        "share-ambiguous",
        EVERYWHERE,
    ),
    "no catalog": ({"catalog.url": "none"}, numbers, "no catalog is shared", HERE),
    "a catalog that fails": (
        {"catalog.url": "sqlite:////dev/null/catalog.db"},
        numbers,
        "the catalog couldn't be used",
        HERE,
    ),
    "nowhere to put it": ({}, numbers, "outlive the program", EVERYWHERE),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_where_nothing_is_shared_that_is_said_everywhere(
    spark: SparkSession, tmp_path: Path, said: Said, name: str
) -> None:
    settings, make, text, places = SETTINGS[name]
    with Environment(spark, config={KEPT: str(tmp_path / "kept"), **settings}) as env:
        if not settings:
            (tmp_path / "kept").mkdir(exist_ok=True)
            (tmp_path / "kept" / "shared").write_text("in the way")
        hot = make(env).cache(lifetime="1 h")
        hot.count()
        said.everywhere(env, hot, text, places)
