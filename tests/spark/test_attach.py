"""Attached sessions: every DataFrame is a Table, and whatever Spark runs reads what is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udtf
from pyspark.sql.types import CalendarIntervalType, StructField, StructType

import holdfast
from holdfast import Table, VertexOutcome
from holdfast.api.table_session import TableSession
from holdfast.errors import AlreadyAttachedError, ConfigurationError, NotAttachedError

pytestmark = pytest.mark.usefixtures("interpreted")

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
RUN = [VertexOutcome.RUN]


def attached_to(spark: SparkSession, home: Path) -> TableSession:
    return holdfast.attach(spark, {"intermediate-result-storage.directory": str(home / "kept")})


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path) -> Iterator[TableSession]:
    """A session of its own, attached."""
    attached = attached_to(spark.newSession(), tmp_path)
    yield attached
    if isinstance(attached, TableSession):
        holdfast.detach(attached)


@pytest.fixture
def days(session: TableSession, tmp_path: Path) -> DataFrame:
    """A table of files, also as a view."""
    path = str(tmp_path / "days")
    session.range(100).selectExpr("id", "id % 7 AS day").write.parquet(path)
    read = session.read.parquet(path)
    read.createOrReplaceTempView("days")
    return read


def outcomes(session: TableSession) -> list[VertexOutcome]:
    result = session.holdfast.last_job_result
    assert result is not None
    return [vertex.outcome for vertex in result.vertices]


def rows_of(df: DataFrame) -> list[Row]:
    return sorted(df.collect())


BY_DAY = "SELECT day, count(*) AS n FROM days GROUP BY day"


def by_day(session: TableSession) -> DataFrame:
    """The computation that tests keep, written once more."""
    return session.table("days").groupBy("day").agg(F.count("*").alias("n"))


# --- what an attached session is ------------------------------------------------------------------


def test_the_session_stays_what_it_is(spark: SparkSession, tmp_path: Path) -> None:
    own = spark.newSession()
    before = own.range(3)
    catalog = own.catalog
    attached = attached_to(own, tmp_path)
    assert attached is own
    assert isinstance(own, SparkSession)
    assert before.sparkSession is own
    assert type(before.where("id > 0")) is Table
    assert own.range(3).sparkSession is own
    assert own.holdfast.spark is own
    assert own.catalog is not catalog
    assert holdfast.attach(own) is own
    with pytest.raises(AlreadyAttachedError):
        holdfast.attach(own, {"catalog.url": "none"})
    holdfast.detach(own)
    assert type(own) is SparkSession
    assert not hasattr(own, "holdfast")
    assert type(own.range(3)) is type(before)
    with pytest.raises(NotAttachedError):
        holdfast.detach(own)


def test_a_wrong_configuration_leaves_the_session_alone(spark: SparkSession) -> None:
    own = spark.newSession()
    with pytest.raises(ConfigurationError):
        holdfast.attach(own, {"no.such.key": 1})
    assert type(own) is SparkSession


def test_a_subclass_of_pyspark_s_session_stays_one(spark: SparkSession, tmp_path: Path) -> None:
    class TheirSession(SparkSession):
        def answer(self) -> int:
            return 42

    own = TheirSession(spark.sparkContext, spark.newSession()._jsparkSession)
    attached = attached_to(own, tmp_path)
    assert isinstance(attached, TheirSession)
    assert attached.answer() == 42
    assert type(attached.range(2)) is Table
    holdfast.detach(attached)
    assert type(own) is TheirSession


def test_the_active_session_is_the_attached_one(spark: SparkSession, tmp_path: Path) -> None:
    attached = attached_to(spark, tmp_path)
    try:
        assert SparkSession.getActiveSession() is attached
        assert SparkSession.active() is attached
        assert SparkSession.builder.getOrCreate() is attached
        found = []
        thread = threading.Thread(target=lambda: found.append(SparkSession.getActiveSession()))
        thread.start()
        thread.join()
        assert found in ([None], [attached])
    finally:
        holdfast.detach(attached)


class _Words:
    def eval(self, text: str) -> Any:
        for word in text.split():
            yield (word,)


SOURCES: dict[str, Callable[[TableSession, str], DataFrame]] = {
    "createDataFrame of rows": lambda s, _: s.createDataFrame([(1, "a")], "k int, v string"),
    "createDataFrame of dicts": lambda s, _: s.createDataFrame([{"k": 1}]),
    "createDataFrame of an RDD": lambda s, _: s.createDataFrame(
        s.sparkContext.parallelize([(1,)]), ["k"]
    ),
    "createDataFrame of pandas": lambda s, _: s.createDataFrame(
        pytest.importorskip("pandas").DataFrame({"k": [1]})
    ),
    "createDataFrame of arrow": lambda s, _: s.createDataFrame(
        pytest.importorskip("pyarrow").table({"k": [1]})
    ),
    "toDF of an RDD": lambda s, _: s.sparkContext.parallelize([(1,)]).toDF(["k"]),
    "emptyDataFrame": lambda s, _: s.createDataFrame([], "k int"),
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
    "udtf": lambda s, _: s.table("days").lateralJoin(
        s.tvf.explode(F.array(F.lit(1))).select(F.col("col"))
    ),
    "na": lambda s, _: s.table("days").na.drop(),
    "stat": lambda s, _: s.table("days").stat.crosstab("id", "day"),
    "reduce": lambda s, _: reduce(DataFrame.unionByName, [s.table("days"), s.table("days")]),
    "groupBy": lambda s, _: s.table("days").groupBy("day").pivot("day").count(),
    "cogroup": lambda s, _: (
        s.table("days")
        .groupBy("day")
        .cogroup(s.table("days").groupBy("day"))
        .applyInPandas(lambda left, right: left, "id long, day long")
    ),
    "mapInPandas": lambda s, _: s.table("days").mapInPandas(lambda frames: frames, "id long"),
    "newSession": lambda s, path: s.newSession().read.parquet(path),
    "another's session": lambda s, _: s.table("days").sparkSession.range(3),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.sampled(3)
def test_whatever_the_session_creates_is_a_table(
    session: TableSession, days: DataFrame, tmp_path: Path, make: Callable[..., DataFrame]
) -> None:
    assert isinstance(make(session, str(tmp_path / "days")), Table)


def test_what_a_table_function_of_python_gives_is_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    attached = attached_to(spark, tmp_path)
    try:
        # PySpark takes the session that has created a DataFrame last for the active one.
        attached.createDataFrame([(1,)], "k int")
        words = udtf(_Words, returnType="word: string")(F.lit("to be"))
        assert isinstance(words, Table)
        assert [row.word for row in words.collect()] == ["to", "be"]
    finally:
        holdfast.detach(attached)


def test_a_new_session_keeps_and_finds_the_same(session: TableSession, days: DataFrame) -> None:
    by_day(session).cache().count()
    other = cast(TableSession, session.newSession())
    assert other is not session
    other.createDataFrame([(1,)], "k int").createOrReplaceTempView("days")
    assert by_day(session).count() == 7
    path = cast(Any, days.inputFiles()[0]).rpartition("/")[0]
    again = other.read.parquet(path).groupBy("day").agg(F.count("*").alias("n"))
    assert again.count() == 7
    assert outcomes(other) == READ
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert again.count() == 7


# --- caching, as programs do it -------------------------------------------------------------------


def test_cache_gives_back_the_very_dataframe(session: TableSession, days: DataFrame) -> None:
    df = by_day(session)
    assert not df.is_cached
    assert df.storageLevel == StorageLevel.NONE
    assert df.cache() is df
    assert df.is_cached
    assert df.storageLevel == StorageLevel.MEMORY_AND_DISK_DESER
    assert df.count() == 7
    assert outcomes(session) == PRODUCED
    assert by_day(session).where("n > 14").count() == 2
    assert outcomes(session) == READ
    (kept,) = session.holdfast.list_cached()
    assert kept.location is not None
    assert kept.location.exists()
    assert df.unpersist() is df
    assert not session.holdfast.list_cached()
    assert not kept.location.exists()


def test_what_cannot_be_kept_spark_persists(session: TableSession) -> None:
    df = session.range(3).selectExpr("id", "make_interval(1, id) AS i")
    assert isinstance(df.schema["i"].dataType, CalendarIntervalType)
    assert df.cache() is df
    assert df.storageLevel.useMemory
    assert df.count() == 3
    (listed,) = session.holdfast.list_cached()
    assert listed.not_kept_by_holdfast is not None
    assert "column 'i'" in listed.not_kept_by_holdfast
    assert not df.unpersist().storageLevel.useMemory
    assert not session.holdfast.list_cached()


def test_a_command_whose_result_is_cached_runs_once(session: TableSession) -> None:
    session.sql("CREATE TABLE written (id INT) USING parquet")
    try:
        written = session.sql("INSERT INTO written VALUES (1)").cache()
        assert written.count() == 0
        assert [row.id for row in session.table("written").collect()] == [1]
        tables = session.sql("SHOW TABLES LIKE 'written'").cache()
        assert tables.count() == 1
        written.unpersist()
        tables.unpersist()
    finally:
        session.sql("DROP TABLE written")


def test_tables_are_cached_by_name(session: TableSession, days: DataFrame) -> None:
    catalog = session.catalog
    by_day(session).createOrReplaceTempView("by_day")
    assert not catalog.isCached("by_day")
    catalog.cacheTable("by_day")
    assert catalog.isCached("by_day")
    assert session.table("by_day").count() == 7
    assert outcomes(session) == PRODUCED
    assert by_day(session).count() == 7
    assert outcomes(session) == READ
    catalog.uncacheTable("by_day")
    assert not catalog.isCached("by_day")
    assert session.table("by_day").count() == 7
    assert outcomes(session) == RUN
    catalog.cacheTable("by_day", StorageLevel.MEMORY_ONLY)
    assert session.table("by_day").storageLevel == StorageLevel.MEMORY_ONLY
    assert not session.holdfast.list_cached()
    catalog.clearCache()
    assert not catalog.isCached("by_day")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        catalog.cacheTable("nowhere")


def test_tables_are_cached_in_sql(session: TableSession, days: DataFrame) -> None:
    catalog = session.catalog
    nothing = session.sql(f"CACHE TABLE by_day AS {BY_DAY}")
    assert outcomes(session) == PRODUCED
    assert nothing.collect() == []
    assert catalog.isCached("by_day")
    assert session.sql(BY_DAY).count() == 7
    assert outcomes(session) == READ
    session.sql("UNCACHE TABLE by_day")
    assert not catalog.isCached("by_day")
    session.sql("-- lazily\n/* and so */ cache lazy table `by_day`")
    assert catalog.isCached("by_day")
    assert session.holdfast.list_cached()[0].dataset_id is None
    session.sql("CLEAR CACHE")
    assert not catalog.isCached("by_day")
    session.sql("CACHE TABLE by_day OPTIONS ('storageLevel' 'MEMORY_ONLY')")
    assert not session.holdfast.list_cached()
    assert session.table("by_day").storageLevel.useMemory
    assert not session.table("by_day").storageLevel.useDisk
    session.sql("UNCACHE TABLE IF EXISTS by_day")
    assert session.table("by_day").storageLevel == StorageLevel.NONE
    session.sql("UNCACHE TABLE IF EXISTS nowhere")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.sql("UNCACHE TABLE nowhere")
    with pytest.raises(AnalysisException, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
        session.sql(f"CACHE TABLE by_day AS {BY_DAY}")
    with pytest.raises(ParseException):
        session.sql("CACHE THE TABLE")


# --- what Spark runs by itself --------------------------------------------------------------------


@pytest.fixture
def target(session: TableSession, tmp_path: Path) -> Iterator[str]:
    """The name of a table that isn't there yet."""
    session.sql("DROP TABLE IF EXISTS written_by_a_command")
    yield "written_by_a_command"
    session.sql("DROP TABLE IF EXISTS written_by_a_command")


COMMANDS = {
    "CTAS": ["CREATE TABLE {t} USING parquet AS {q}"],
    "INSERT INTO": ["CREATE TABLE {t} (day LONG, n LONG) USING parquet", "INSERT INTO {t} {q}"],
    "INSERT OVERWRITE": [
        "CREATE TABLE {t} USING parquet AS SELECT 1L AS day, 2L AS n",
        "INSERT OVERWRITE {t} {q}",
    ],
    "WITH": ["CREATE TABLE {t} USING csv AS WITH w AS ({q}) SELECT * FROM w"],
    "REPLACE WHERE": ["CREATE TABLE {t} USING parquet PARTITIONED BY (n) AS {q}"],
}


@pytest.mark.parametrize("statements", COMMANDS.values(), ids=COMMANDS.keys())
@pytest.mark.parametrize("is_kept", [False, True], ids=["produced", "read"])
@pytest.mark.sampled(3)
def test_the_query_of_a_command_reads_and_keeps(
    session: TableSession, days: DataFrame, target: str, statements: list[str], is_kept: bool
) -> None:
    hot = by_day(session).cache()
    if is_kept:
        hot.count()
    for statement in statements:
        session.sql(statement.format(t=target, q=BY_DAY))
    assert outcomes(session) == (READ if is_kept else PRODUCED)
    written = session.table(target).selectExpr("CAST(day AS LONG) AS day", "CAST(n AS LONG) AS n")
    assert rows_of(written) == rows_of(hot)


def test_a_directory_is_overwritten_from_what_is_kept(
    session: TableSession, days: DataFrame, tmp_path: Path
) -> None:
    hot = by_day(session).cache()
    hot.count()
    out = tmp_path / "out"
    session.sql(f"INSERT OVERWRITE DIRECTORY '{out}' USING parquet {BY_DAY}")
    assert outcomes(session) == READ
    assert rows_of(session.read.parquet(str(out))) == rows_of(hot)


def test_explain_keeps_nothing(
    session: TableSession, days: DataFrame, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = by_day(session).cache()
    session.sql(f"CREATE TABLE {target} (day LONG, n LONG) USING parquet")
    for statement in (BY_DAY, f"INSERT INTO {target} {BY_DAY}"):
        session.sql(f"EXPLAIN {statement}").collect()
    hot.explain()
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]
    hot.count()
    assert "kept" in session.sql(f"EXPLAIN FORMATTED {BY_DAY}").collect()[0].plan


def test_what_goes_by_spark_s_own_handle_reads(session: TableSession, days: DataFrame) -> None:
    computed = session.sparkContext.accumulator(0)

    def counted(value: int) -> float:
        computed.add(1)
        return float(value)

    points = days.select("id", F.udf(counted, "double")("day").alias("x")).cache()
    points.collect()
    assert computed.value == 100
    # By the JVM's Dataset, as libraries do.
    assert points._jdf.javaRDD().count() == 100
    assert points._jdf.distinct().count() == 100
    assembled = VectorAssembler(inputCols=["x"], outputCol="v").transform(points)
    assert isinstance(assembled, Table)
    model = LinearRegression(featuresCol="v", labelCol="x", maxIter=1).fit(assembled)
    assert isinstance(model.transform(assembled), Table)
    assert model.transform(assembled).count() == 100
    assert points.rdd.count() == 100
    assert computed.value == 100


def test_pandas_on_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    ps = pytest.importorskip("pyspark.pandas")
    attached = attached_to(spark, tmp_path)
    try:
        path = str(tmp_path / "days")
        attached.createDataFrame([(1,)], "k int")
        attached.range(50).selectExpr("id", "id % 5 AS day").write.parquet(path)
        attached.read.parquet(path).cache().count()
        frame = ps.read_parquet(path)
        assert frame.day.sum() == 100
        assert outcomes(attached) == READ
        assert len(attached.read.parquet(path).pandas_api()) == 50
        assert outcomes(attached) == READ
        sums = attached.read.parquet(path).pandas_api().groupby("day").sum().to_spark()
        assert isinstance(sums, Table)
        assert sorted(sums.cache().toPandas()["id"]) == [225, 235, 245, 255, 265]
        assert VertexOutcome.PRODUCED in outcomes(attached)
    finally:
        holdfast.detach(attached)


def test_for_each_batch_is_given_tables(
    session: TableSession, days: DataFrame, tmp_path: Path
) -> None:
    by_day(session).cache().count()
    seen: list[tuple[bool, int, list[VertexOutcome]]] = []
    path = cast(Any, days.inputFiles()[0]).rpartition("/")[0]

    def process(batch: DataFrame, number: int) -> None:
        spark = cast(TableSession, batch.sparkSession)
        known = spark.read.parquet(path).groupBy("day").agg(F.count("*").alias("n"))
        count = batch.join(known, "day").count()
        seen.append((isinstance(batch, Table), count, outcomes(spark)))

    stream = session.readStream.schema(days.schema).parquet(path)
    query = (
        stream.writeStream.foreachBatch(process)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    assert [(is_table, count, READ[0] in found) for is_table, count, found in seen] == [
        (True, 100, True)
    ]


def test_a_persisted_dataframe_is_left_to_spark(session: TableSession, days: DataFrame) -> None:
    by_day(session).cache().count()
    computed = session.sparkContext.accumulator(0)

    def counted(value: int) -> int:
        computed.add(1)
        return value

    above = by_day(session).withColumn("m", F.udf(counted, "long")("n"))
    above.persist(StorageLevel.MEMORY_ONLY)
    try:
        for _ in range(3):
            assert above.groupBy("m").count().count() == 2
        assert computed.value == 7
    finally:
        # The Spark is shared with other tests.
        above.unpersist(blocking=True)


# --- the end --------------------------------------------------------------------------------------


def test_tables_that_are_left_behave_like_dataframes(
    session: TableSession, days: DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    hot = by_day(session).cache()
    rows = rows_of(hot)
    (kept,) = session.holdfast.list_cached()
    holdfast.detach(session)
    assert kept.location is not None
    assert not kept.location.exists()
    assert rows_of(hot) == rows
    assert hot.cache() is hot
    assert hot.storageLevel.useMemory
    assert not hot.unpersist().storageLevel.useMemory
    assert not isinstance(hot.where("n > 14"), Table)
    session.sql("CACHE TABLE days")
    assert session.catalog.isCached("days")
    session.sql("UNCACHE TABLE days")


def test_nothing_of_ours_costs_the_answer_of_a_query(
    session: TableSession,
    days: DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    by_day(session).cache().count()

    def failing(*args: Any) -> Any:
        raise RuntimeError("out of order")

    monkeypatch.setattr(session.holdfast._master, "prepare", failing)
    assert by_day(session)._jdf.javaRDD().count() == 7
    assert "a query runs without kept results" in caplog.text


def test_an_empty_schema_can_be_cached(session: TableSession) -> None:
    df = session.createDataFrame([(), ()], StructType([]))
    assert df.cache().count() == 2
    assert df.count() == 2
    assert StructType([StructField("a", df.schema)]).fieldNames() == ["a"]
