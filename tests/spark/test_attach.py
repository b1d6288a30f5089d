"""Attached sessions: every DataFrame is a Table, and what Spark runs reads what is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import StorageLevel
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udtf
from pyspark.sql.types import StructType

import holdfast
from holdfast import Table, VertexOutcome
from holdfast.errors import AlreadyAttachedError, ConfigurationError, NotAttachedError
from holdfast.testing import assert_reads, outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
BY_DAY = "SELECT day, count(*) AS n FROM days GROUP BY day"


@pytest.fixture
def session(attached: Any, tmp_path: Path) -> Any:
    """An attached session with a table of files, also as a view."""
    path = str(tmp_path / "days")
    attached.range(100).selectExpr("id", "id % 7 AS day").write.parquet(path)
    attached.read.parquet(path).createOrReplaceTempView("days")
    return attached


@pytest.fixture
def suite_s(spark: SparkSession, tmp_path: Path) -> Any:
    """The suite's session, which PySpark takes for the active one, attached."""
    spark.createDataFrame([(1,)], "k int")
    yield holdfast.attach(spark, {"intermediate-result-storage.directory": str(tmp_path / "kept")})
    holdfast.detach(spark)


def by_day(session: SparkSession) -> DataFrame:
    """The computation that tests keep, written once more."""
    return session.table("days").groupBy("day").agg(F.count("*").alias("n"))


# --- what an attached session is ------------------------------------------------------------------


def test_the_session_stays_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    class TheirSession(SparkSession):
        def answer(self) -> int:
            return 42

    own = TheirSession(spark.sparkContext, spark.newSession()._jsparkSession)
    before, catalog = own.range(3), own.catalog
    with pytest.raises(ConfigurationError):
        holdfast.attach(own, {"no.such.key": 1})
    assert type(own) is TheirSession
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    assert holdfast.attach(own, config) is own
    assert isinstance(own, TheirSession) and own.answer() == 42
    assert before.sparkSession is own and own.range(3).sparkSession is own
    assert type(before.where("id > 0")) is Table and type(own.range(2)) is Table
    assert own.holdfast.spark is own and own.catalog is not catalog
    assert holdfast.attach(own) is own
    with pytest.raises(AlreadyAttachedError):
        holdfast.attach(own, {"catalog.url": "none"})
    holdfast.detach(own)
    assert type(own) is TheirSession and not hasattr(own, "holdfast")
    assert type(own.range(3)) is type(before)
    with pytest.raises(NotAttachedError):
        holdfast.detach(own)


def test_the_active_session_is_the_attached_one(suite_s: SparkSession) -> None:
    assert SparkSession.getActiveSession() is suite_s
    assert SparkSession.active() is SparkSession.builder.getOrCreate() is suite_s
    found: list[SparkSession | None] = []
    thread = threading.Thread(target=lambda: found.append(SparkSession.getActiveSession()))
    thread.start()
    thread.join()
    assert found in ([None], [suite_s])


SOURCES: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "createDataFrame of rows": lambda s, _: s.createDataFrame([(1, "a")], "k int, v string"),
    "createDataFrame of an RDD": lambda s, _: s.createDataFrame(
        s.sparkContext.parallelize([(1,)]), ["k"]
    ),
    "createDataFrame of pandas": lambda s, _: s.createDataFrame(pd.DataFrame({"k": [1]})),
    "createDataFrame of arrow": lambda s, _: s.createDataFrame(pa.table({"k": [1]})),
    "toDF of an RDD": lambda s, _: s.sparkContext.parallelize([(1,)]).toDF(["k"]),
    "range": lambda s, _: s.range(1, 5, 2, 3),
    "sql": lambda s, _: s.sql("SELECT * FROM days"),
    "sql with names": lambda s, _: s.sql("SELECT * FROM days WHERE day = :d", {"d": 1}),
    "sql with positions": lambda s, _: s.sql("SELECT * FROM days WHERE day = ?", [1]),
    "sql over a DataFrame": lambda s, _: s.sql("SELECT * FROM {t}", t=s.range(3)),
    "sql of a command": lambda s, _: s.sql("SHOW TABLES"),
    "table": lambda s, _: s.table("days"),
    "read": lambda s, path: s.read.parquet(path),
    "read.format": lambda s, path: s.read.format("parquet").load(path),
    "read.table": lambda s, _: s.read.table("days"),
    "read.json of strings": lambda s, _: s.read.json(s.sparkContext.parallelize(['{"a": 1}'])),
    "readStream": lambda s, _: s.readStream.format("rate").load(),
    "tvf": lambda s, _: s.tvf.explode(F.array(F.lit(1), F.lit(2))),
    "reduce": lambda s, _: reduce(DataFrame.unionByName, [s.table("days"), s.table("days")]),
    "newSession": lambda s, path: s.newSession().read.parquet(path),
    "a table's session": lambda s, _: s.table("days").sparkSession.range(3),
}


def test_every_dataframe_of_the_session_is_a_table(session: SparkSession, tmp_path: Path) -> None:
    for name, make in SOURCES.items():
        assert isinstance(make(session, str(tmp_path / "days")), Table), name


def test_what_a_table_function_of_python_gives_is_a_table(suite_s: SparkSession) -> None:
    class Words:
        def eval(self, text: str) -> Any:
            for word in text.split():
                yield (word,)

    words = udtf(Words, returnType="word: string")(F.lit("to be"))
    assert isinstance(words, Table)
    assert [row.word for row in words.collect()] == ["to", "be"]


def test_a_new_session_keeps_and_finds_the_same(session: SparkSession, tmp_path: Path) -> None:
    by_day(session).cache().count()
    other = session.newSession()
    other.createDataFrame([(1,)], "k int").createOrReplaceTempView("days")
    assert_reads(by_day(session))
    again = other.read.parquet(str(tmp_path / "days")).groupBy("day").agg(F.count("*").alias("n"))
    assert_reads(again)
    assert again.count() == 7 and outcomes(other) == READ


# --- caching, as programs do it -------------------------------------------------------------------


def test_cache_gives_back_the_very_dataframe(session: SparkSession) -> None:
    df = by_day(session)
    assert not df.is_cached and df.storageLevel == StorageLevel.NONE
    assert df.cache() is df
    assert df.is_cached and df.storageLevel == StorageLevel.MEMORY_AND_DISK_DESER
    assert df.count() == 7 and outcomes(session) == PRODUCED
    assert_reads(by_day(session).where("n > 14"))
    assert df.unpersist() is df and not session.holdfast.list_cached()
    empty = session.createDataFrame([(), ()], StructType([])).cache()
    assert empty.count() == empty.count() == 2


def test_a_command_whose_result_is_cached_runs_once(session: SparkSession) -> None:
    session.sql("CREATE TABLE written (id INT) USING parquet")
    try:
        written = session.sql("INSERT INTO written VALUES (1)").cache()
        assert written.count() == 0
        assert [row.id for row in session.table("written").collect()] == [1]
        assert session.sql("SHOW TABLES LIKE 'written'").cache().count() == 1
    finally:
        session.sql("DROP TABLE written")


# --- what Spark runs ------------------------------------------------------------------------------

COMMANDS = {
    "CTAS": ["CREATE TABLE {t} USING parquet AS {q}"],
    "INSERT INTO": ["CREATE TABLE {t} (day LONG, n LONG) USING parquet", "INSERT INTO {t} {q}"],
    "INSERT OVERWRITE": [
        "CREATE TABLE {t} USING parquet AS SELECT 1L AS day, 2L AS n",
        "INSERT OVERWRITE {t} {q}",
    ],
    "WITH": ["CREATE TABLE {t} USING csv AS WITH w AS ({q}) SELECT * FROM w"],
    "partitioned": ["CREATE TABLE {t} USING parquet PARTITIONED BY (n) AS {q}"],
}


@pytest.fixture
def target(session: SparkSession) -> Any:
    """The name of a table that isn't there yet."""
    session.sql("DROP TABLE IF EXISTS written_by_a_command")
    yield "written_by_a_command"
    session.sql("DROP TABLE IF EXISTS written_by_a_command")


@pytest.mark.parametrize("how", COMMANDS)
@pytest.mark.parametrize("is_kept", [False, True], ids=["produced", "read"])
@pytest.mark.sampled(10)
def test_the_query_of_a_command_reads_and_keeps(
    session: SparkSession, target: str, how: str, is_kept: bool
) -> None:
    hot = by_day(session).cache()
    if is_kept:
        hot.count()
    for statement in COMMANDS[how]:
        session.sql(statement.format(t=target, q=BY_DAY))
    assert outcomes(session) == (READ if is_kept else PRODUCED)
    written = session.table(target).selectExpr("CAST(day AS LONG) AS day", "CAST(n AS LONG) AS n")
    assert sorted(written.collect()) == sorted(hot.collect())


def test_explain_keeps_nothing(session: SparkSession, target: str) -> None:
    hot = by_day(session).cache()
    session.sql(f"CREATE TABLE {target} (day LONG, n LONG) USING parquet")
    for statement in (BY_DAY, f"INSERT INTO {target} {BY_DAY}"):
        session.sql(f"EXPLAIN {statement}").collect()
    hot.explain()
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]
    hot.count()
    assert "kept" in session.sql(f"EXPLAIN FORMATTED {BY_DAY}").collect()[0].plan


def test_libraries_in_the_jvm_read(session: SparkSession) -> None:
    computed = session.sparkContext.accumulator(0)

    @F.udf("double")
    def counted(value):  # type: ignore[no-untyped-def]
        computed.add(1)
        return float(value)

    points = session.table("days").select("id", counted("day").alias("x")).cache()
    points.collect()
    assert computed.value == 100
    assert points._jdf.javaRDD().count() == points._jdf.distinct().count() == 100
    assembled = VectorAssembler(inputCols=["x"], outputCol="v").transform(points)
    assert isinstance(assembled, Table)
    assert assembled.rdd.count() == points.rdd.count() == 100
    assert computed.value == 100


def test_pandas_on_spark_reads(suite_s: SparkSession, tmp_path: Path) -> None:
    ps = pytest.importorskip("pyspark.pandas")
    path = str(tmp_path / "days")
    suite_s.range(50).selectExpr("id", "id % 5 AS day").write.parquet(path)
    suite_s.read.parquet(path).cache().count()
    assert ps.read_parquet(path).day.sum() == 100 and outcomes(suite_s) == READ
    assert len(suite_s.read.parquet(path).pandas_api()) == 50 and outcomes(suite_s) == READ
    sums = suite_s.read.parquet(path).pandas_api().groupby("day").sum().to_spark()
    assert isinstance(sums, Table)
    assert sorted(sums.cache().toPandas()["id"]) == [225, 235, 245, 255, 265]
    assert VertexOutcome.PRODUCED in outcomes(suite_s)


def test_for_each_batch_of_an_environment_is_given_tables_that_read(
    session: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "days")
    by_day(session).cache().count()
    seen: list[tuple[bool, int, list[VertexOutcome]]] = []

    def process(batch: DataFrame, number: int) -> None:
        known = batch.sparkSession.read.parquet(path).groupBy("day").agg(F.count("*").alias("n"))
        count = batch.join(known, "day").count()
        seen.append((isinstance(batch, Table), count, outcomes(batch.sparkSession)))

    stream = session.holdfast.readStream.schema("id LONG, day LONG").parquet(path)
    query = (
        stream.writeStream.foreachBatch(process)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert seen == [(True, 100, READ)]


# --- the end --------------------------------------------------------------------------------------


def test_tables_that_are_left_behave_like_dataframes(session: SparkSession, tmp_path: Path) -> None:
    hot = by_day(session).cache()
    rows = sorted(hot.collect())
    (kept,) = session.holdfast.list_cached()
    holdfast.detach(session)
    assert kept.location is not None and not kept.location.exists()
    assert sorted(hot.collect()) == rows and not isinstance(hot.where("n > 14"), Table)
    assert hot.cache() is hot and hot.storageLevel.useMemory
    assert not hot.unpersist().storageLevel.useMemory
    session.sql("CACHE TABLE days")
    assert session.catalog.isCached("days")
    session.sql("UNCACHE TABLE days")
    holdfast.attach(session, {"intermediate-result-storage.directory": str(tmp_path / "kept")})
