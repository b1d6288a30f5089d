"""What an Environment takes, gives, refuses, keeps and releases."""

from __future__ import annotations

import doctest
import gc
import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table, VertexOutcome
from holdfast.errors import (
    ConfigurationError,
    EnvironmentClosedError,
    NotADataFrameError,
    StorageError,
    UnsupportedPlanError,
    UnsupportedSessionError,
    UnsupportedTypeError,
)
from holdfast.testing import assert_computes, assert_reads, outcomes
from tests.short_lived_jvm import environment_of_program

DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
RUN = [VertexOutcome.RUN]


def kept_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*.parquet"))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where the fixture `env` keeps its results."""
    return tmp_path / "kept"


@pytest.fixture
def numbers(env: Environment) -> Table:
    """Ids from 0 to 9 with k = id % 3, in two partitions."""
    return env.from_dataframe(env.spark.range(0, 10, 1, 2).withColumn("k", F.col("id") % 3))


# Of these the examples use the suite's session, of the others one of their own.
OF_THE_SUITE = ("environment", "job_execution_result")
MODULES = "attachment cached_table grouped members storage_levels stream_writer table table_catalog"


@pytest.mark.parametrize("name", [*OF_THE_SUITE, *MODULES.split(), "table_session", "writers"])
def test_the_examples_of_docstrings_run(
    name: str, spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    spark.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    small = env.from_dataframe(spark.createDataFrame([(1, 10), (2, 20)], "k bigint, v bigint"))
    session = spark if name in OF_THE_SUITE else spark.newSession()
    given = {"table": small, "env": env, "expr": F.expr, "F": F, "spark": session}
    spark.sql("DROP TABLE IF EXISTS numbers")
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    module = importlib.import_module(f"holdfast.api.{name}")
    failed, tried = doctest.testmod(module, extraglobs=given, optionflags=flags)
    spark.sql("DROP TABLE IF EXISTS numbers")
    assert tried and not failed


# --- configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "said"), [("compresion", "did you mean"), ("compression", "lz4_raw")]
)
def test_a_wrong_setting_of_spark_s_configuration_is_named(
    spark: SparkSession, key: str, said: str
) -> None:
    configured = spark.newSession()
    configured.conf.set(f"spark.holdfast.intermediate-result-storage.{key}", "zip")
    with pytest.raises(ConfigurationError, match=f"storage.{key}.*{said}") as raised:
        Environment(configured)
    assert raised.value.value == "zip"


def test_spark_configuration_is_taken_and_what_is_given_takes_precedence(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set(f"spark.holdfast.{DIRECTORY}", str(tmp_path / "by-spark"))
    session.conf.set(f"spark.holdfast.{COMPRESSION}", "snappy")
    session.conf.set("spark.holdfastly", "a -> b\nspark.holdfast.no, x\0")
    with Environment(session) as env:
        assert env.from_dataframe(session.range(3)).cache().count() == 3
        (file, *_) = kept_files(tmp_path / "by-spark")
        codec = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
        assert codec == "SNAPPY"
    with Environment(session, config={DIRECTORY: tmp_path / "given"}) as env:
        assert env.from_dataframe(session.range(3)).cache().count() == 3
        assert kept_files(tmp_path / "given")
    assert not kept_files(tmp_path / "by-spark")


def test_what_is_no_session_and_no_directory_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedSessionError, match="Spark Connect") as raised:
        Environment(SimpleNamespace(version="4.3.0"))  # type: ignore[arg-type]
    assert raised.value.found == "a types session"
    (tmp_path / "file").write_text("in the way")
    for where in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=re.escape(str(where))) as refused:
            Environment(spark, config={DIRECTORY: where})
        assert refused.value.where == str(where)


# --- closing --------------------------------------------------------------------------------------


def test_closing_releases_everything(spark: SparkSession, tmp_path: Path) -> None:
    with Environment(spark, config={DIRECTORY: tmp_path / "kept"}) as env:
        table = env.from_dataframe(spark.range(10))
        hot = table.where("id > 6").cache()
        assert hot.count() == 3
        with pytest.raises(ZeroDivisionError):
            with Environment(spark, config={DIRECTORY: tmp_path / "other"}):
                raise ZeroDivisionError
        assert not [*(tmp_path / "other").iterdir()]
        assert kept_files(tmp_path / "kept")
    # What says who has kept what stays.
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"catalog", "identity"}
    env.close()

    # The tables go on as plain DataFrames do, on a session that is not the environment's.
    assert [row.id for row in hot.collect()] == [7, 8, 9] and outcomes(env) == RUN
    assert hot.where("id > 8").toPandas().id.tolist() == [9]
    assert [row.id for row in hot.toLocalIterator()] == [7, 8, 9]
    assert hot.rdd.count() == hot.to_dataframe().count() == 3
    hot.write.parquet(str(tmp_path / "out"))
    assert env.read.parquet(str(tmp_path / "out")).count() == 3
    hot.explain()
    assert env.sql("SELECT count(*) AS n FROM {t}", t=hot).first() == Row(n=3)
    with hot:
        hot.invalidate_cache()
    env.invalidate_all()
    assert env.list_cached() == []
    for uncached in (table, hot):
        with pytest.raises(EnvironmentClosedError, match="cache"):
            uncached.cache()
    assert not kept_files(tmp_path / "kept")


def test_what_cannot_be_cached_is_not_cached(env: Environment) -> None:
    stream = env.from_dataframe(env.spark.readStream.format("rate").load())
    with pytest.raises(UnsupportedPlanError, match="streaming"):
        stream.cache()
    unsupported = env.sql("SELECT make_interval(1) AS period")
    with pytest.raises(UnsupportedTypeError, match="'period' of type INTERVAL"):
        unsupported.cache("7 d")
    assert not stream.is_cached and not unsupported.is_cached and env.list_cached() == []
    assert unsupported.count() == 1


# --- tables ---------------------------------------------------------------------------------------


def test_what_is_no_dataframe_is_refused(env: Environment) -> None:
    given = {"pandas.*DataFrame": pd.DataFrame({"id": [1]}), "builtins.list": [1], "NoneType": None}
    for named, each in given.items():
        with pytest.raises(NotADataFrameError, match=named):
            env.from_dataframe(each)  # type: ignore[arg-type]


def test_the_active_session_stays_the_program_s_own(spark: SparkSession, env: Environment) -> None:
    SparkSession._activeSession = spark
    env.createDataFrame([(1,)], "id int").sparkSession.createDataFrame([(2,)], "id int")
    with pytest.raises(TypeError):
        env.createDataFrame(1)
    assert SparkSession.getActiveSession() is spark
    assert not isinstance(SparkSession.active().range(1), Table)


def test_a_table_of_another_environment_becomes_one_of_this(
    env: Environment, spark: SparkSession, numbers: Table, tmp_path: Path
) -> None:
    hot = numbers.where("k = 1").cache()
    assert hot.count() == 3
    with Environment(spark, config={DIRECTORY: tmp_path / "others"}) as other:
        taken = other.from_dataframe(hot)
        assert type(taken) is Table
        assert_computes(taken)
        assert taken.cache().groupBy("k").count().collect() == [Row(k=1, count=3)]
        assert outcomes(other) == PRODUCED and kept_files(tmp_path / "others")
    assert not kept_files(tmp_path / "others")
    assert_reads(hot)


def test_sql_takes_tables_and_arguments(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k > 0").cache()
    hot.count()
    named = env.sql("SELECT id FROM {t} WHERE k = :k ORDER BY id", args={"k": 2}, t=hot)
    assert type(named) is Table and [row.id for row in named.collect()] == [2, 5, 8]
    assert outcomes(env) == READ
    positional = env.sql("SELECT id FROM {t} WHERE k = ? AND id > ?", args=[2, 4], t=hot)
    assert sorted(row.id for row in positional.collect()) == [5, 8]
    assert outcomes(env) == READ
    joined = env.sql(
        "SELECT count({c}) AS n, {limit} AS l FROM {a} JOIN {b} USING (id)",
        a=hot,
        b=numbers,
        c=hot.id,
        limit=5,
    )
    assert joined.first() == Row(n=6, l=5) and outcomes(env) == READ
    with pytest.raises(AnalysisException):
        env.sql("SELECT nothing FROM {t}", t=hot)


# --- what is kept ---------------------------------------------------------------------------------


def test_what_is_invalidated_is_computed_and_kept_again(
    env: Environment, numbers: Table, kept: Path
) -> None:
    hot = numbers.where("k = 1").cache()
    hot.count()
    (before,) = env.list_cached()
    numbers.where("k = 1").invalidate_cache()  # any table of the computation will do
    assert not kept_files(kept)
    (waiting,) = env.list_cached()
    assert waiting.location is None and waiting.digest == before.digest
    assert hot.groupBy("k").count().collect() == [Row(k=1, count=3)]
    assert outcomes(env) == PRODUCED
    (after,) = env.list_cached()
    assert after.dataset_id == before.dataset_id
    assert after.location not in (None, before.location) and kept_files(kept)
    numbers.invalidate_cache()  # which is another computation
    assert_reads(hot)
    env.invalidate_all()
    assert env.list_cached() == [] and not kept_files(kept)
    assert hot.count() == 3 and outcomes(env) == RUN


def test_another_handle_outlives_the_block(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k = 1").cache()
    with numbers.where("k = 1").cache() as other:
        other.count()
    assert hot.count() == 3 and outcomes(env) == PRODUCED


def test_the_handle_need_not_be_held(env: Environment, numbers: Table, kept: Path) -> None:
    env.from_dataframe(numbers).cache()
    gc.collect()
    assert numbers.count() == 10 and outcomes(env) == PRODUCED
    gc.collect()
    assert_reads(numbers.where("k = 1"))
    numbers.invalidate_cache()
    assert not kept_files(kept)
    # There is no handle left that could ask for it to be dropped a second time.
    assert numbers.count() == 10 and outcomes(env) == RUN and env.list_cached() == []


# --- Python functions, accumulators and broadcast variables ---------------------------------------


def test_broadcast_variables_are_what_they_hold(env: Environment, numbers: Table) -> None:
    def named(names: dict[int, str]) -> DataFrame:
        lookup = env.spark.sparkContext.broadcast(names)
        name = F.udf(lambda k: lookup.value[k], "string")
        return numbers.select(name("k").alias("name"))

    hot = named({0: "a", 1: "b", 2: "c"}).cache()
    assert [hot.where("name = 'b'").count() for _ in range(2)] == [3, 3]
    assert outcomes(env) == READ
    other = named({0: "x", 1: "y", 2: "z"})
    assert {row.name for row in other.collect()} == {"x", "y", "z"} and outcomes(env) == RUN


# --- an environment with a session of its own -----------------------------------------------------


@pytest.mark.slow
def test_an_environment_starts_and_stops_a_session_of_its_own(tmp_path: Path) -> None:
    script = """
        from pyspark.sql import SparkSession, functions as F
        import holdfast
        from holdfast import Environment
        from holdfast.errors import SessionStoppedError

        with Environment() as env:
            # Its workers run the Python of the program.
            square = F.udf(lambda i: i * i, "long")
            hot = env.from_dataframe(env.spark.range(4)).select(square("id").alias("s")).cache()
            print([row.s for row in hot.collect()], [row.s for row in hot.collect()])
            print([vertex.outcome.value for vertex in env.last_job_result.vertices])
            with Environment() as borrowing:
                print(borrowing.spark.range(2).count())
            print(env.spark.range(3).count())
        print(SparkSession.getActiveSession())

        spark = SparkSession.builder.master("local[1]").getOrCreate()
        with Environment() as env:
            print(env.spark.range(5).count())
        print(spark.range(6).count())
        spark.stop()
        for start in (Environment, holdfast.attach):
            try:
                start(spark)
            except SessionStoppedError as error:
                print("stopped" in str(error))
        """
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_CONF_DIR")
    variables = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        env={**variables, **environment_of_program(), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr
    squares = ["[0, 1, 4, 9] [0, 1, 4, 9]", "['read from cache', 'run']"]
    assert done.stdout.splitlines() == [*squares, "2", "3", "None", "5", "6", "True", "True"]
    (directory,) = tmp_path.glob("holdfast-*")
    assert not kept_files(directory)
