"""Tables are read from and written to where DataFrames are, and a write reads what is kept."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.readwriter import DataFrameReader

from holdfast import Environment, Table, VertexOutcome
from holdfast.errors import UnsupportedPlanError
from holdfast.testing import assert_reads, outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
SCHEMA = "k bigint, v bigint, s string"
DIRECTORY = "intermediate-result-storage.directory"
KINDS = ("parquet", "csv", "json", "orc", "xml", "text", "save")


@pytest.fixture(scope="module")
def df(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    log = tmp_path_factory.mktemp("derby") / "derby.log"
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(log))
    rows = [(1, 10, "a"), (1, 30, "c"), (2, 20, "b"), (2, None, "a")]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), SCHEMA)


@pytest.fixture
def t(env: Environment, df: DataFrame) -> Table:
    """A table that is kept."""
    hot = env.from_dataframe(df).cache()
    hot.count()
    return hot


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[list[str]]:
    """Names of managed tables, dropped at the end."""
    names = ["holdfast_one", "holdfast_two"]
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def same_rows(got: DataFrame, expected: DataFrame) -> None:
    assert Counter(map(str, got.collect())) == Counter(map(str, expected.collect()))


def jobs(env: Environment, *writes: Callable[[], object]) -> list[str]:
    """The names of the jobs of some writes, each of which reads what is kept."""
    names = []
    for write in writes:
        assert write() is None
        assert env.last_job_result is not None and outcomes(env) == READ
        names.append(env.last_job_result.name)
    return names


# --- reading --------------------------------------------------------------------------------------


def test_every_loading_call_gives_a_table(
    spark: SparkSession, env: Environment, df: DataFrame, tmp_path: Path
) -> None:
    def read() -> DataFrameReader:
        return env.read

    path = {name: str(tmp_path / name) for name in KINDS}
    df.write.parquet(path["parquet"])
    df.write.csv(path["csv"], header=True)
    df.write.json(path["json"])
    df.write.orc(path["orc"])
    df.select("s").write.text(path["text"])
    df.write.xml(path["xml"], rowTag="row")
    df.createOrReplaceTempView("read_by_name")
    url = "jdbc:derby:memory:reading;create=true"
    df.select("k", "v").write.jdbc(url, "numbers")
    texts = spark.sparkContext.parallelize(["1,10,a"] * 4)
    loaded = [
        read().csv(path["csv"], header=True, schema=SCHEMA),
        read().schema(SCHEMA).csv(texts),
        read().jdbc(url, "numbers"),
        read().jdbc(url, "numbers", predicates=['"k" > 0']),
        read().schema(SCHEMA).json(path["json"]),
        read().format("csv").option("header", True).options(sep=",").load(path["csv"]),
        read().orc(path["orc"]),
        read().parquet(path["parquet"], mergeSchema=True),
        read().table("read_by_name"),
        read().text(path["text"]),
        read().xml(path["xml"], rowTag="row"),
    ]
    spark.catalog.dropTempView("read_by_name")
    assert {type(each) for each in loaded} == {Table}
    numbered = [each.select(F.lit(number)) for number, each in enumerate(loaded)]
    rows = reduce(DataFrame.unionAll, numbered).collect()
    assert Counter(number for (number,) in rows) == dict.fromkeys(range(len(loaded)), 4)
    if hasattr(DataFrameReader, "changes"):
        with pytest.raises(AnalysisException):
            read().changes("read_by_name")


@pytest.mark.parametrize("name", ["at 12%3A30", "a#b?c", "ü=1", "a[b]*{c,d}"])
@pytest.mark.sampled(2)
def test_names_of_any_kind(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Of what is read, and of the directory that results are kept in."""
    source = str(tmp_path / "in" / name.translate({ord(each): None for each in "[]*{}?"}))
    spark.range(10).orderBy("id").write.parquet(source)
    with Environment(spark, {DIRECTORY: str(tmp_path / name)}) as env:
        hot = env.read.parquet(source).cache()
        for outcome in (VertexOutcome.PRODUCED, VertexOutcome.READ):
            same_rows(hot, spark.range(10))
            assert outcomes(env) == [outcome, VertexOutcome.RUN]
        (kept,) = env.list_cached()
        assert kept.location is not None
        next(kept.location.glob("part-*")).write_bytes(b"noise")
        same_rows(hot, spark.range(10))
        assert env.last_job_result is not None and len(env.last_job_result.losses) == 1


def test_timestamp_partitions_are_kept(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "by-moment")
    moments = spark.range(3).selectExpr("id", "timestamp_seconds(id * 86400) AS moment")
    moments.write.partitionBy("moment").parquet(path)
    hot = env.read.parquet(path).cache()
    same_rows(hot, spark.read.parquet(path))
    assert_reads(hot)


def test_a_dataframe_of_another_session_is_refused(env: Environment, spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with pytest.raises(UnsupportedPlanError, match="another Spark session"):
        env.from_dataframe(other.sql("SELECT current_timezone()"))


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(7)
def test_a_writing_call_is_a_job_that_reads(
    kind: str, t: Table, df: DataFrame, env: Environment, tmp_path: Path
) -> None:
    columns = ["s"] if kind == "text" else ["k", "v", "s"]
    keywords = {"rowTag": "row"} if kind == "xml" else {}

    def write(source: DataFrame, name: str) -> None:
        getattr(source.select(columns).write, kind)(str(tmp_path / name), **keywords)

    assert jobs(env, lambda: write(t, "got")) == [f"write.{kind}"]
    write(df, "expected")
    source = "parquet" if kind == "save" else kind
    reader = df.sparkSession.read.format(source).options(**keywords)
    same_rows(reader.load(str(tmp_path / "got")), reader.load(str(tmp_path / "expected")))


def test_writing_tables(
    spark: SparkSession, t: Table, df: DataFrame, env: Environment, tables: list[str]
) -> None:
    one, two = tables
    assert jobs(
        env,
        lambda: t.write.bucketBy(2, "k").sortBy("v").saveAsTable(one),
        lambda: t.write.insertInto(one),
        lambda: t.write.insertInto(one, overwrite=True),
        lambda: t.write.partitionBy("k").format("csv").saveAsTable(two),
        lambda: t.write.mode("append").format("csv").partitionBy("k").saveAsTable(two),
    ) == [
        f"write.{call}"
        for call in "saveAsTable insertInto insertInto saveAsTable saveAsTable".split()
    ]
    same_rows(spark.table(one), df)
    assert spark.table(two).count() == 8
    t.limit(1).write.mode("overwrite").saveAsTable(two)
    assert spark.table(two).count() == 1


def test_writing_over_jdbc(spark: SparkSession, t: Table, env: Environment) -> None:
    url = "jdbc:derby:memory:writing;create=true"
    numbers = t.select("k", "v")
    given = numbers.write.format("jdbc").option("url", url).option("dbtable", "numbers")
    assert jobs(
        env,
        lambda: numbers.write.jdbc(url, "numbers", properties={"isolationLevel": "NONE"}),
        lambda: numbers.write.jdbc(url, "numbers", mode="append"),
        lambda: given.mode("append").save(),
    ) == ["write.jdbc", "write.jdbc", "write.save"]
    assert spark.read.jdbc(url, "numbers").count() == 12


def test_a_writer_can_be_used_twice_and_remembers_like_pyspark_s(
    spark: SparkSession, t: Table, tmp_path: Path
) -> None:
    writer = t.write.option("header", "true").partitionBy("k")
    writer.csv(str(tmp_path / "a"), mode="overwrite", sep=";")
    writer.csv(str(tmp_path / "b"))
    writer.save(str(tmp_path / "a"))  # still csv, and still overwriting
    for name in "ab":
        back = spark.read.csv(str(tmp_path / name), header=True, sep=";")
        assert {*back.columns} == {"k", "v", "s"} and back.count() == 4


def test_what_can_t_be_written_costs_no_job(
    spark: SparkSession,
    t: Table,
    df: DataFrame,
    env: Environment,
    tmp_path: Path,
    tables: list[str],
) -> None:
    path = str(tmp_path / "there")
    df.limit(1).write.parquet(path)
    df.limit(1).write.saveAsTable(tables[0])
    before = env.last_job_result
    refused: dict[str, Callable[[], object]] = {
        "bogus": lambda: t.write.mode("bogus"),
        "bucketBy": lambda: t.write.bucketBy(2, "k").parquet(str(tmp_path / "x")),
        "compresion": lambda: t.write.parquet(str(tmp_path / "x"), compresion="zstd"),
        "PATH_ALREADY_EXISTS": lambda: t.write.parquet(path),
        "VIEW_ALREADY_EXISTS": lambda: t.write.saveAsTable(tables[0]),
        "streaming": lambda: t.writeStream,
    }
    for why, write in refused.items():
        with pytest.raises(Exception, match=why):
            write()
    t.write.mode("ignore").parquet(path)
    t.write.mode("ignore").saveAsTable(tables[0])
    assert spark.read.parquet(path).count() == spark.table(tables[0]).count() == 1
    assert env.last_job_result is before


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[str]:
    """A catalog of JDBC tables, which Spark writes to through its version 2 of sources."""
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": "jdbc:derby:memory:catalog;create=true",
        ".driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for suffix, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.holdfast_h{suffix}", value)
    yield "holdfast_h.APP"
    spark.sql("DROP TABLE IF EXISTS holdfast_h.APP.numbers")
    for suffix in settings:
        spark.conf.unset(f"spark.sql.catalog.holdfast_h{suffix}")


def test_writing_to_a_catalog(
    spark: SparkSession, df: DataFrame, env: Environment, catalog: str, tables: list[str]
) -> None:
    t = env.from_dataframe(df).cache()  # the catalog is one of the settings that it is kept under
    t.count()
    numbers, name = t.select("k", "v"), f"{catalog}.numbers"
    of_files = t.writeTo(tables[0]).using("csv").partitionedBy("k").option("sep", ";")
    assert jobs(
        env,
        lambda: numbers.writeTo(name).create(),
        lambda: numbers.writeTo(name).append(),
        lambda: numbers.writeTo(name).overwrite(F.lit(True)),
        lambda: numbers.limit(2).writeTo(name).createOrReplace(),
        lambda: numbers.limit(1).writeTo(name).replace(),
        lambda: of_files.options(header=True).tableProperty("a", "b").create(),
    ) == [
        f"writeTo.{call}"
        for call in "create append overwrite createOrReplace replace create".split()
    ]
    assert (spark.table(name).count(), spark.table(tables[0]).count()) == (1, 4)
    for write in (
        lambda: numbers.writeTo(name).overwritePartitions(),
        lambda: numbers.writeTo(name).clusterBy("k").create(),
    ):
        with pytest.raises(AnalysisException):
            write()


# --- over what it is read from --------------------------------------------------------------------


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path / 'my source%20'}"
    spark.range(0, 10, 1, 2).write.parquet(path)
    return path


def ids(spark: SparkSession, source: str) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(source).collect())


OVERWRITES: dict[str, Callable[[Any, str], object]] = {
    "parquet": lambda writer, path: writer.parquet(path),
    "save": lambda writer, path: writer.format("parquet").option("path", path).save(),
}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "cached"])
@pytest.mark.parametrize("how", OVERWRITES)
@pytest.mark.sampled(4)
def test_a_cached_table_replaces_its_source(
    env: Environment, spark: SparkSession, source: str, kept: bool, how: str
) -> None:
    hot = env.read.parquet(source).cache()
    if kept:
        hot.collect()
    OVERWRITES[how](hot.where("id > 2").write.mode("overwrite"), source)
    assert ids(spark, source) == [*range(3, 10)]
    again = env.read.parquet(source).cache()
    OVERWRITES[how](again.where("id > 8").write.mode("overwrite"), source)
    assert ids(spark, source) == [9]
    assert not [*Path(source.removeprefix("file:")).parent.glob(".my*")]


@pytest.mark.parametrize("cached", [False, True], ids=["not cached", "not kept"])
def test_what_is_not_kept_does_not_replace_its_source(
    env: Environment, spark: SparkSession, source: str, tmp_path: Path, cached: bool
) -> None:
    table = env.read.parquet(source)
    if cached:
        table = table.cache()
        shutil.rmtree(tmp_path / "kept")
        (tmp_path / "kept").write_text("in the way")
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        table.write.mode("overwrite").parquet(source)
    assert ids(spark, source) == [*range(10)]


def test_what_is_lost_is_computed_again_from_the_source(
    env: Environment, spark: SparkSession, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    hot = env.read.parquet(source).cache()
    hot.collect()
    location = env.list_cached()[0].location
    assert location is not None
    for file in location.glob("*.parquet"):
        # As long and as old as before, so that nothing but reading it shows.
        status = file.stat()
        damaged = bytearray(file.read_bytes())
        damaged[8:40] = bytes(32)
        file.write_bytes(damaged)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        hot.where("id > 2").write.mode("overwrite").parquet(source)
    assert ids(spark, source) == [*range(3, 10)]
    assert "lost kept data" in caplog.text


def test_a_table_is_not_overwritten_by_what_is_read_from_it(
    spark: SparkSession, df: DataFrame, env: Environment, tables: list[str]
) -> None:
    df.write.saveAsTable(tables[0])
    plain = spark.table(tables[0]).where("k > 1")
    kept = env.from_dataframe(plain).cache()
    kept.count()

    def refusal(write: Callable[[DataFrame], object], d: DataFrame) -> str:
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE.TABLE") as refused:
            write(d)
        return str(refused.value).splitlines()[0]

    for write in (
        lambda d: d.write.mode("overwrite").saveAsTable(tables[0]),
        lambda d: d.write.insertInto(tables[0], overwrite=True),
    ):
        assert refusal(write, kept) == refusal(write, plain)
    assert spark.table(tables[0]).count() == 4


def test_a_partition_may_be_overwritten_by_what_is_read_from_it(
    spark: SparkSession, df: DataFrame, env: Environment, tmp_path: Path
) -> None:
    path = str(tmp_path / "own")
    df.write.partitionBy("k").parquet(path)
    own = env.from_dataframe(spark.read.parquet(path).where("k = 1").limit(1)).cache()
    own.count()
    writer = own.write.mode("overwrite").partitionBy("k")
    assert jobs(env, lambda: writer.option("partitionOverwriteMode", "dynamic").parquet(path)) == [
        "write.parquet"
    ]
    assert spark.read.parquet(path).count() == 3
