"""What an Environment gives, refuses, keeps, tells and releases."""

from __future__ import annotations

import doctest
import gc
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment, JobExecutionResult, Table, VertexOutcome
from holdfast.api import environment, job_execution_result
from holdfast.errors import (
    ConfigurationError,
    EnvironmentClosedError,
    StorageError,
    UnsupportedPlanError,
    UnsupportedSessionError,
    UnsupportedTypeError,
)
from holdfast.spark.session_settings import settings_below
from tests.short_lived_jvm import environment_of_program

DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"
PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


def outcomes(env: Environment) -> list[VertexOutcome]:
    """What became of the last job's vertices."""
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def kept_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("application-*/datasets/*/*.parquet"))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Where the fixture `env` keeps its results."""
    return tmp_path / "kept"


@pytest.fixture
def numbers(env: Environment) -> Table:
    """Ids from 0 to 9 with k = id % 3, in two partitions."""
    df = env.spark.range(0, 10, 1, 2).withColumn("k", F.col("id") % 3)
    return env.from_dataframe(df)


@pytest.mark.parametrize("module", [environment, job_execution_result], ids=lambda m: m.__name__)
def test_examples(module: Any, spark: SparkSession, env: Environment) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    names = {"env": env, "spark": spark, "F": F}
    failed, tried = doctest.testmod(module, extraglobs=names, optionflags=flags)
    assert tried
    assert not failed


# --- configuration --------------------------------------------------------------------------------


@pytest.fixture
def configured(spark: SparkSession) -> Callable[[str, str], SparkSession]:
    """A session of its own with a setting."""

    def session(key: str, value: str) -> SparkSession:
        other = spark.newSession()
        other.conf.set(key, value)
        return other

    return session


def test_an_unknown_key_names_the_nearest(
    spark: SparkSession, configured: Callable[[str, str], SparkSession]
) -> None:
    key = "intermediate-result-storage.compresion"
    for make in (
        lambda: Environment(spark, config={key: "zstd"}),
        lambda: Environment(configured(f"spark.holdfast.{key}", "zstd")),
    ):
        with pytest.raises(ConfigurationError, match=f"did you mean '{COMPRESSION}'") as raised:
            make()
        assert raised.value.key == key
        assert raised.value.value == "zstd"
    with pytest.raises(ConfigurationError, match="known keys are"):
        Environment(spark, config={"colour": "red"})


def test_settings_are_found_by_what_their_keys_begin_with(
    configured: Callable[[str, str], SparkSession],
) -> None:
    odd = "a -> b\nspark.holdfast.no, x\0"
    session = configured("spark.holdfast.odd", odd)
    session.conf.set("spark.holdfastly", "x")
    assert settings_below(session, "spark.holdfast.") == {"spark.holdfast.odd": odd}
    known = {**dict(session.sparkContext.getConf().getAll()), **session.conf.getAll}
    for prefix in ("spark.app.", "spark.sql.", ""):
        expected = {key: value for key, value in known.items() if key.startswith(prefix)}
        assert settings_below(session, prefix) == expected


def test_an_ill_typed_value_names_what_is_expected(
    spark: SparkSession, configured: Callable[[str, str], SparkSession]
) -> None:
    for make in (
        lambda: Environment(spark, config={COMPRESSION: "zip"}),
        lambda: Environment(configured(f"spark.holdfast.{COMPRESSION}", "zip")),
    ):
        with pytest.raises(ConfigurationError, match=f"{COMPRESSION}.*'zip'.*zstd, lz4_raw"):
            make()
    with pytest.raises(ConfigurationError, match="the path of a directory"):
        Environment(spark, config={DIRECTORY: 7})


def test_spark_configuration_is_taken_and_what_is_given_takes_precedence(
    configured: Callable[[str, str], SparkSession], tmp_path: Path
) -> None:
    session = configured(f"spark.holdfast.{DIRECTORY}", str(tmp_path / "by-spark"))
    session.conf.set(f"spark.holdfast.{COMPRESSION}", "snappy")
    with Environment(session) as env:
        assert env.from_dataframe(session.range(3)).cache().count() == 3
        (file,) = kept_files(tmp_path / "by-spark")[:1]
        codec = pyarrow.parquet.ParquetFile(file).metadata.row_group(0).column(0).compression
        assert codec == "SNAPPY"
    with Environment(session, config={DIRECTORY: tmp_path / "given"}) as env:
        assert env.from_dataframe(session.range(3)).cache().count() == 3
        assert kept_files(tmp_path / "given")
    assert not kept_files(tmp_path / "by-spark")


def test_a_session_that_is_not_classic_is_refused() -> None:
    with pytest.raises(UnsupportedSessionError, match="Spark Connect") as raised:
        Environment(SimpleNamespace(version="4.3.0"))  # type: ignore[arg-type]
    assert raised.value.found == "a types session"


def test_a_directory_that_cannot_be_used_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for where in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=re.escape(str(where))) as raised:
            Environment(spark, config={DIRECTORY: where})
        assert raised.value.where == str(where)


# --- closing --------------------------------------------------------------------------------------


def test_closing_releases_everything(spark: SparkSession, tmp_path: Path) -> None:
    with Environment(spark, config={DIRECTORY: tmp_path / "kept"}) as env:
        table = env.from_dataframe(spark.range(10))
        hot = table.where("id > 6").cache()
        assert hot.count() == 3
        assert kept_files(tmp_path / "kept")
        with pytest.raises(ZeroDivisionError):
            with Environment(spark, config={DIRECTORY: tmp_path / "other"}):
                raise ZeroDivisionError
        assert not list((tmp_path / "other").iterdir())
        assert kept_files(tmp_path / "kept")
    # What says who has kept what stays.
    left = {path.name for path in (tmp_path / "kept").iterdir()}
    assert left == {"catalog", "identity"}
    env.close()

    # The tables go on as plain DataFrames do, on a session that is not the environment's.
    assert [row.id for row in hot.collect()] == [7, 8, 9]
    assert outcomes(env) == [RUN]
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
        assert not uncached.is_cached or uncached is table
    assert not list((tmp_path / "kept").glob("application-*"))


def test_what_cannot_be_cached_is_not_cached(env: Environment) -> None:
    stream = env.from_dataframe(env.spark.readStream.format("rate").load())
    with pytest.raises(UnsupportedPlanError, match="streaming"):
        stream.cache()
    assert not stream.is_cached
    unsupported = env.sql("SELECT make_interval(1) AS period")
    with pytest.raises(UnsupportedTypeError, match="'period' of type INTERVAL"):
        unsupported.cache("7 d")
    assert not unsupported.is_cached
    assert unsupported.count() == 1
    assert env.list_cached() == []


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_of_another_environment_becomes_one_of_this(
    env: Environment, spark: SparkSession, numbers: Table, tmp_path: Path
) -> None:
    hot = numbers.where("k = 1").cache()
    assert hot.count() == 3
    with Environment(spark, config={DIRECTORY: tmp_path / "others"}) as other:
        taken = other.from_dataframe(hot)
        assert type(taken) is Table
        assert taken.count() == 3
        assert outcomes(other) == [RUN]
        theirs = taken.cache()
        assert theirs.groupBy("k").count().collect() == [Row(k=1, count=3)]
        assert outcomes(other) == [PRODUCED, RUN]
        assert kept_files(tmp_path / "others")
        assert len(env.list_cached()) == len(other.list_cached()) == 1
    assert not kept_files(tmp_path / "others")
    assert hot.count() == 3
    assert outcomes(env) == [READ, RUN]


def test_sql_takes_tables_and_arguments(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k > 0").cache()
    hot.count()
    named = env.sql("SELECT id FROM {t} WHERE k = :k ORDER BY id", args={"k": 2}, t=hot)
    assert type(named) is Table
    assert [row.id for row in named.collect()] == [2, 5, 8]
    assert outcomes(env) == [READ, RUN]
    positional = env.sql("SELECT id FROM {t} WHERE k = ? AND id > ?", args=[2, 4], t=hot)
    assert sorted(row.id for row in positional.collect()) == [5, 8]
    assert outcomes(env) == [READ, RUN]
    joined = env.sql(
        "SELECT count({c}) AS n, {limit} AS l FROM {a} JOIN {b} USING (id)",
        a=hot,
        b=numbers,
        c=hot.id,
        limit=5,
    )
    assert joined.first() == Row(n=6, l=5)
    assert outcomes(env) == [READ, RUN]
    with pytest.raises(AnalysisException):
        env.sql("SELECT nothing FROM {t}", t=hot)


def test_a_view_is_a_table(env: Environment, numbers: Table) -> None:
    numbers.where("k = 2").createOrReplaceTempView("twos")
    try:
        hot = env.table("twos").cache()
        assert type(env.table("twos")) is Table
        assert env.table("twos").count() == 3
        assert outcomes(env) == [PRODUCED, RUN]
        assert env.sql("SELECT max(id) AS m FROM twos").first() == Row(m=8)
        assert env.read.table("twos").count() == hot.count() == 3
        assert outcomes(env) == [READ, RUN]
    finally:
        env.spark.catalog.dropTempView("twos")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        env.table("twos")


# --- what is kept ---------------------------------------------------------------------------------


def test_what_is_cached_is_listed(env: Environment, numbers: Table, kept: Path) -> None:
    assert env.list_cached() == []
    hot = numbers.where("k = 1").cache()
    again = env.from_dataframe(numbers).where("k = 1").cache()
    salted = numbers.select(F.uuid().alias("u")).cache()
    waiting, other = env.list_cached()
    assert re.fullmatch(
        r"hot: Filter \(k = .*\) over a range \(test_environment.py:\d+\)", waiting.computes
    )
    assert re.fullmatch("[0-9a-f]{64}", waiting.digest)
    assert waiting.dataset_id is waiting.location is waiting.since is None
    assert (waiting.partitions, waiting.rows, waiting.bytes, waiting.hits) == (0, 0, 0, 0)
    assert not waiting.matches_only_itself
    assert other.matches_only_itself
    assert not kept_files(kept)

    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    hot.count()
    listed, still = env.list_cached()
    assert still == other
    files = kept_files(kept)
    assert listed.location == files[0].parent
    assert listed.partitions == len(files)
    assert listed.rows == sum(pyarrow.parquet.read_metadata(file).num_rows for file in files) == 3
    assert listed.bytes == sum(file.stat().st_size for file in files)
    assert listed.dataset_id is not None
    assert listed.since is not None
    assert before <= listed.since <= datetime.now(timezone.utc)
    again.count()
    numbers.where("k = 1").limit(1).collect()
    assert env.list_cached()[0].hits == listed.hits + 2

    salted.count()
    assert len({entry.location for entry in env.list_cached()}) == 2
    env.invalidate_all()
    assert env.list_cached() == []
    assert not kept_files(kept)
    assert hot.count() == 3
    assert outcomes(env) == [RUN]
    hot.cache()
    assert hot.count() == 3
    assert outcomes(env) == [PRODUCED, RUN]


def test_what_is_invalidated_is_computed_and_kept_again(
    env: Environment, numbers: Table, kept: Path
) -> None:
    hot = numbers.where("k = 1").cache()
    hot.count()
    (before,) = env.list_cached()
    numbers.where("k = 1").invalidate_cache()  # any table of the computation will do
    assert not kept_files(kept)
    (waiting,) = env.list_cached()
    assert waiting.location is None
    assert waiting.digest == before.digest

    assert hot.groupBy("k").count().collect() == [Row(k=1, count=3)]
    assert outcomes(env) == [PRODUCED, RUN]
    (after,) = env.list_cached()
    assert after.dataset_id == before.dataset_id
    assert after.location not in (None, before.location)
    assert kept_files(kept)
    assert hot.count() == 3
    assert outcomes(env) == [READ, RUN]
    numbers.invalidate_cache()  # which is another computation
    assert kept_files(kept)


def test_nothing_is_kept_after_the_block(env: Environment, numbers: Table, kept: Path) -> None:
    with numbers.where("k = 1").cache() as hot:
        assert hot.count() == 3
        hot.invalidate_cache()
        assert hot.count() == 3
        assert outcomes(env) == [PRODUCED, RUN]
        assert kept_files(kept)
    assert not kept_files(kept)
    assert env.list_cached() == []
    assert hot.count() == 3
    assert outcomes(env) == [RUN]
    with hot.cache():
        assert hot.count() == 3
        assert outcomes(env) == [PRODUCED, RUN]
    assert not kept_files(kept)


def test_somebody_else_s_handle_outlives_the_block(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k = 1").cache()
    with numbers.where("k = 1").cache() as other:
        other.count()
    assert hot.count() == 3
    assert outcomes(env) == [PRODUCED, RUN]


def test_the_handle_need_not_be_held(env: Environment, numbers: Table, kept: Path) -> None:
    env.wrap(numbers).cache()
    gc.collect()
    assert numbers.count() == 10
    assert outcomes(env) == [PRODUCED, RUN]
    gc.collect()
    assert numbers.where("k = 1").count() == 3
    assert outcomes(env) == [READ, RUN]
    numbers.invalidate_cache()
    assert not kept_files(kept)
    assert numbers.count() == 10
    assert outcomes(env) == [RUN]  # nobody could ask for it to be dropped a second time
    assert env.list_cached() == []


# --- what a job tells -----------------------------------------------------------------------------


def test_a_job_tells_what_it_produced_and_read(env: Environment, numbers: Table) -> None:
    assert env.last_job_result is None
    numbers.count()
    plain = env.last_job_result
    assert plain is not None
    assert (plain.name, outcomes(env)) == ("count", [RUN])
    assert not plain.persistent_result_partitions.descriptors

    hot = numbers.where("k < 2").cache()
    assert env.last_job_result is plain
    hot.collect()
    produced = env.last_job_result
    assert produced is not None
    assert isinstance(produced, JobExecutionResult)
    assert produced.job_id != plain.job_id
    assert (produced.name, produced.losses) == ("collect", ())
    assert produced.net_runtime > 0
    assert not produced.persistent_result_partitions.incomplete
    keeping, answering = produced.vertices
    assert (keeping.outcome, keeping.attempts, keeping.rows) == (PRODUCED, 1, 7)
    assert (answering.outcome, answering.attempts, answering.rows) == (RUN, 1, None)
    assert answering.dataset_id is None
    assert answering.name == "collect"
    ((dataset_id, partitions),) = produced.persistent_result_partitions.descriptors.items()
    assert dataset_id == keeping.dataset_id == env.list_cached()[0].dataset_id
    assert [partition.index for partition in partitions] == [0, 1]
    for partition in partitions:
        file = Path(partition.location)
        assert partition.dataset_id == dataset_id
        assert partition.bytes == file.stat().st_size
        assert partition.rows == pyarrow.parquet.read_table(file).num_rows
    assert keeping.partitions == 2
    assert keeping.bytes == sum(partition.bytes for partition in partitions)
    assert sum(partition.rows for partition in partitions) == 7

    for name, read in {
        "first": hot.first,
        "toLocalIterator": lambda: list(hot.toLocalIterator()),
        "rdd": lambda: hot.rdd,
        "write.save": hot.write.format("noop").mode("append").save,
    }.items():
        read()
        result = env.last_job_result
        assert result.name == name
        assert outcomes(env) == [READ, RUN]
        assert result.vertices[0].attempts == 0
        assert (
            result.persistent_result_partitions.descriptors
            == produced.persistent_result_partitions.descriptors
        )
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        hot.select(F.raise_error(F.lit("mine"))).collect()
    assert env.last_job_result is result  # that of the last job that gave an answer


def test_a_job_s_result_is_shown(env: Environment, tmp_path: Path) -> None:
    path = tmp_path / "<b>a&b"
    env.spark.range(1200).coalesce(1).write.parquet(str(path))
    env.read.parquet(str(path)).cache().count()
    text, page = repr(env.last_job_result), env.last_job_result._repr_html_()
    assert "<b>a&b" in text
    assert re.search(r"produced +1 +1,200 +[\d,]+ +1$", text, re.MULTILINE)
    assert "<b>a" not in page
    assert "&lt;b&gt;a&amp;b" in page
    assert "<td>produced</td><td>1</td><td>1,200</td>" in page


def test_nested_caches_are_vertices_of_their_own(env: Environment, numbers: Table) -> None:
    inner = numbers.where("k > 0").cache()
    outer = inner.groupBy("k").count().cache()
    expected = [Row(k=1, count=3), Row(k=2, count=3)]
    assert sorted(outer.collect()) == expected
    assert outcomes(env) == [PRODUCED, PRODUCED, RUN]
    inner_id, outer_id = (vertex.dataset_id for vertex in env.last_job_result.vertices[:2])
    assert [vertex.rows for vertex in env.last_job_result.vertices] == [6, 2, None]
    descriptors = env.last_job_result.persistent_result_partitions.descriptors
    assert descriptors.keys() == {inner_id, outer_id}
    assert all(Path(each.location).exists() for ps in descriptors.values() for each in ps)

    assert sorted(outer.collect()) == expected
    assert [vertex.dataset_id for vertex in env.last_job_result.vertices] == [outer_id, None]
    outer.invalidate_cache()
    assert sorted(outer.collect()) == expected
    *kept_vertices, _ = env.last_job_result.vertices
    assert {vertex.dataset_id: vertex.outcome for vertex in kept_vertices} == {
        inner_id: READ,
        outer_id: PRODUCED,
    }
    inner.invalidate_cache()
    assert sorted(outer.collect()) == expected
    assert [vertex.dataset_id for vertex in env.last_job_result.vertices] == [outer_id, None]
    assert sorted(inner.union(inner).join(outer, "k").collect())[0] == Row(k=1, id=1, count=3)
    assert sorted(each.value for each in outcomes(env)) == ["produced", "read from cache", "run"]


def test_what_is_cached_is_shown_as_a_table(env: Environment, numbers: Table) -> None:
    assert repr(env.list_cached()) == "Nothing is cached"
    assert "Nothing is cached" in env.list_cached()._repr_html_()
    by_rest = numbers.groupBy("k").count().cache()
    numbers.where("k < 2").cache(name="the <small> ones")
    numbers.select(F.uuid()).cache()
    by_rest.count()
    shown = repr(env.list_cached())
    head, headings, first, second, third, *notes = shown.splitlines()
    assert re.fullmatch(r"3 cached, 1 kept: [\d,]+ bytes", head)
    assert headings.split()[:3] == ["cached", "dataset", "partitions"]
    assert "by_rest: Aggregate [k], [k, count(1) AS count]" in first and "1 job" in first
    assert "the <small> ones: Filter (k < " in second and "not kept yet" in second
    assert "uuid(" in third
    assert len(notes) == 1 and "only this very table reads it" in notes[0]
    assert "<td>the &lt;small&gt; ones: Filter (k &lt; " in env.list_cached()._repr_html_()
    assert re.fullmatch(r"<Environment: 3 cached, 1 kept: [\d,]+ bytes>", repr(env))


def test_what_was_saved_is_shown(env: Environment, numbers: Table) -> None:
    hot = numbers.groupBy("k").count().cache()
    hot.count()
    (listed,) = env.list_cached()
    assert (listed.hits, listed.saved_seconds) == (1, 0)
    hot.count()
    (once,) = env.list_cached()
    hot.where("k > 1").count()
    (twice,) = env.list_cached()
    assert 0 < once.saved_seconds < twice.saved_seconds < 60
    # Of the second query a filter leaves out rows of what it would have computed.
    assert twice.saved_seconds < 2 * once.saved_seconds
    assert env.list_cached().summary().endswith(f", about {twice.saved_seconds:,.1f} s saved")
    assert f"{twice.saved_seconds:,.1f} s" in repr(env.list_cached()).splitlines()[2]


def test_sparks_ui_says_what_jobs_are_for(
    spark: SparkSession, env: Environment, numbers: Table
) -> None:
    context: Any = spark.sparkContext
    before = _descriptions(spark).keys()
    context._jsc.setLocalProperty("spark.job.description", None)
    hot = numbers.where("k > 1").cache()
    hot.collect()
    (cached,) = env.list_cached()
    hot.collect()
    context.setJobDescription("the nightly report")
    try:
        hot.groupBy("k").count().collect()
        assert context.getLocalProperty("spark.job.description") == "the nightly report"
        numbers.collect()
    finally:
        context._jsc.setLocalProperty("spark.job.description", None)
    described = [text for job, text in _descriptions(spark).items() if job not in before]
    assert list(dict.fromkeys(described)) == [
        f"Holdfast keeps {cached.dataset_id}: {cached.computes}",
        f"Holdfast answers collect, reads {cached.dataset_id}",
        f"the nightly report (Holdfast answers collect, reads {cached.dataset_id})",
        "the nightly report",
    ]


def _descriptions(spark: SparkSession) -> dict[int, str]:
    """What Spark's UI says of the latest jobs by their numbers, in that order."""
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    listed = [jobs.apply(each) for each in range(jobs.size())]
    described = [job for job in listed if job.description().isDefined()]
    return {job.jobId(): str(job.description().get()) for job in reversed(described)}


def test_explain_tells_what_the_next_job_does(
    env: Environment, numbers: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = numbers.where("k > 0").cache()
    query = hot.groupBy("k").count()
    query.explain()
    before = capsys.readouterr().out
    (cached,) = env.list_cached()
    assert before.startswith(
        f"== Holdfast ==\nto be kept by the next job: {cached.computes}\n\n== Physical Plan ==\n"
    )
    assert env.last_job_result is None  # it runs nothing
    query.collect()
    (cached,) = env.list_cached()
    query.explain()
    after = capsys.readouterr().out
    assert after.startswith(
        f"== Holdfast ==\nread: {cached.computes}\n  from {cached.location}: 2 partitions, "
        f"6 rows, {cached.bytes:,} bytes\n\n== Physical Plan ==\n"
    )
    assert "Range" in before and "FileScan parquet" not in before
    assert "Range" not in after and "FileScan parquet" in after
    numbers.explain()
    missed = capsys.readouterr().out
    assert (
        f"nothing that is cached is part of this plan\n  not part of it: {cached.computes}"
        in missed
    )
    hot.invalidate_cache()
    query.explain()
    assert "to be kept by the next job" in capsys.readouterr().out


# --- observations ---------------------------------------------------------------------------------


def observe(df: DataFrame, observation: Observation) -> DataFrame:
    return df.observe(observation, F.count(F.lit(1)).alias("n"), F.sum("id").alias("s"))


def seen(observation: Observation) -> dict[str, Any]:
    """What an observation has seen; Spark waits for it, if need be for ever."""
    answer: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answer.append(observation.get), daemon=True)
    waiting.start()
    waiting.join(20)
    assert answer, "the observation still waits"
    return answer[0]


@pytest.mark.timeout(120)
def test_an_observation_of_a_kept_table_sees_its_rows(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k = 1").cache()
    for outcome in (PRODUCED, READ):
        above = Observation()
        assert observe(hot, above).groupBy("k").count().first() == Row(k=1, count=3)
        assert outcomes(env) == [outcome, RUN]
        assert seen(above) == {"n": 3, "s": 12}


@pytest.mark.timeout(120)
def test_an_observation_in_what_is_cached_sees_the_rows_once(
    env: Environment, numbers: Table
) -> None:
    for make in (
        lambda observed: observed,
        lambda observed: observed.groupBy("k").count(),
        lambda observed: observed.where("k = 1").cache().groupBy("k").count(),
    ):
        below = Observation("seen")  # a name that is used several times
        hot = make(observe(numbers, below)).cache()
        expected = sorted(ClassicDataFrame(hot._jdf, env.spark).toPandas().values.tolist())
        below = Observation("seen")
        hot = make(observe(numbers, below)).cache()
        for outcome in (PRODUCED, READ):
            assert sorted(hot.toPandas().values.tolist()) == expected
            assert outcome in outcomes(env)
            assert seen(below) == {"n": 10, "s": 45}


@pytest.mark.timeout(120)
def test_an_observation_does_not_outwait_a_resubmitted_job(
    env: Environment, numbers: Table
) -> None:
    hot = numbers.cache()
    hot.count()
    (cached,) = env.list_cached()
    files = sorted(cached.location.glob("*.parquet"))
    observation = Observation()
    observed = observe(hot, observation)

    def lose_and_collect(df: DataFrame) -> list[Row]:
        files[-1].unlink(missing_ok=True)
        return df.collect()

    assert len(env.run_action(observed, "collect", lose_and_collect)) == 10
    assert env.last_job_result.losses
    # Spark completes it with the first attempt, the failed one, and once for all.
    assert set(seen(observation)) == {"n", "s"}


# --- Python functions, accumulators and broadcast variables ---------------------------------------


def test_accumulators_count_once(env: Environment, numbers: Table) -> None:
    context = env.spark.sparkContext
    calls, rows = context.accumulator(0), context.accumulator(0)

    @F.udf("long")
    def counting(value: int) -> int:
        calls.add(1)
        return value + 1

    hot = numbers.coalesce(1).select(counting("id").alias("i")).cache()
    for _ in range(2):
        assert hot.agg(F.sum("i")).first()[0] == 55
    assert calls.value == 10
    hot.foreach(lambda row: rows.add(row.i))
    assert rows.value == 55
    assert outcomes(env) == [READ, RUN]


def test_broadcast_variables_are_what_they_hold(env: Environment, numbers: Table) -> None:
    def named(names: dict[int, str]) -> Table:
        lookup = env.spark.sparkContext.broadcast(names)
        name = F.udf(lambda k: lookup.value[k], "string")
        return numbers.select(name("k").alias("name"))

    hot = named({0: "a", 1: "b", 2: "c"}).cache()
    for outcome in (PRODUCED, READ):
        assert hot.where("name = 'b'").count() == 3
        assert outcomes(env) == [outcome, RUN]
    other = named({0: "x", 1: "y", 2: "z"})
    assert {row.name for row in other.collect()} == {"x", "y", "z"}
    assert outcomes(env) == [RUN]


# --- an environment with a session of its own -----------------------------------------------------


def run_script(script: str, tmp_path: Path) -> str:
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
    return done.stdout


@pytest.mark.slow
def test_python_functions_run_in_the_same_python(tmp_path: Path) -> None:
    printed = run_script(
        """
        from pyspark.sql import functions as F
        from holdfast import Environment

        with Environment() as env:
            square = F.udf(lambda i: i * i, "long")
            hot = env.from_dataframe(env.spark.range(4)).select(square("id").alias("s")).cache()
            print([row.s for row in hot.collect()], [row.s for row in hot.collect()])
            print([vertex.outcome.value for vertex in env.last_job_result.vertices])
        """,
        tmp_path,
    )
    assert printed.splitlines() == ["[0, 1, 4, 9] [0, 1, 4, 9]", "['read from cache', 'run']"]


@pytest.mark.slow
def test_an_environment_stops_the_session_that_it_started(tmp_path: Path) -> None:
    printed = run_script(
        """
        import threading
        from pyspark.sql import SparkSession
        from holdfast import Environment

        with Environment() as env:
            with Environment() as borrowing:
                print(borrowing.spark.range(2).count())
            print(env.from_dataframe(env.spark.range(3)).cache().count())
        print(SparkSession.getActiveSession())

        spark = SparkSession.builder.master("local[1]").getOrCreate()

        def borrow():
            with Environment() as env:
                print(env.spark.range(5).count())

        thread = threading.Thread(target=borrow)
        thread.start()
        thread.join()
        print(spark.range(6).count())
        spark.stop()
        """,
        tmp_path,
    )
    assert printed.splitlines() == ["2", "3", "None", "5", "6"]
    (directory,) = tmp_path.glob("holdfast-*")
    assert {path.name for path in directory.iterdir()} == {"catalog", "identity"}
