"""Whatever happens to kept data, a job gets the rows that Spark would give it."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, JobExecutionResult, Table, VertexOutcome
from holdfast.errors import KeptPartitionLostError
from holdfast.testing import assert_reads, outcomes

# What is lost while a job runs has to be lost before the last task opens its file.
pytestmark = pytest.mark.usefixtures("a_task_for_each_file")

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
# What `numbers` holds, without asking Spark.
EXPECTED = [Row(id=each, w=hashlib.sha256(b"%d" % each).hexdigest()) for each in range(60)]


@pytest.fixture(scope="module", autouse=True)
def derby_s_log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    log = tmp_path_factory.mktemp("derby") / "derby.log"
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(log))  # type: ignore[union-attr]


def numbers(spark: SparkSession) -> DataFrame:
    return spark.range(0, 60, 1, 6).select("id", F.sha2(F.col("id").cast("string"), 256).alias("w"))


def result_of(env: Environment) -> JobExecutionResult:
    assert env.last_job_result is not None
    return env.last_job_result


def keep(env: Environment, df: DataFrame) -> tuple[Table, Path]:
    """Caches a query and has a job keep its rows; gives the table, and where they are."""
    before = {each.location for each in env.list_cached()}
    hot = env.from_dataframe(df).cache()
    hot.count()
    (location,) = {each.location for each in env.list_cached()} - before
    assert location is not None
    return hot, location


@pytest.fixture
def hot(env: Environment, spark: SparkSession) -> Table:
    return keep(env, numbers(spark))[0]


@pytest.fixture
def kept(env: Environment, hot: Table) -> Path:
    """Where the rows of `hot` are."""
    (listed,) = env.list_cached()
    assert listed.location is not None
    return listed.location


def parts(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*.parquet"))


def assert_nothing_is_left_over(env: Environment, tmp_path: Path) -> None:
    """Every file of rows is one of a result that is listed."""
    places = {each.location for each in env.list_cached()}
    assert {file.parent for file in (tmp_path / "kept").rglob("*.parquet")} <= places


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Gives the lines of Holdfast's log since the last call, from WARNING on.

    Without those of the catalog, which goes with the root.
    """
    caplog.set_level(logging.WARNING, logger="holdfast")

    def lines() -> list[str]:
        found = [each.getMessage() for each in caplog.records if each.name.startswith("holdfast")]
        caplog.clear()
        return [line for line in found if not line.startswith("results are not shared with")]

    return lines


# -- lost before a job -----------------------------------------------------------------------------


def overwrite(path: Path, content: bytes, *, checksum: bool = False) -> None:
    """Other bytes, as many and as old; the file with checksums of them may go."""
    status = path.stat()
    assert len(content) == status.st_size
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if not checksum:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def flip(path: Path, places: range, *, checksum: bool = False) -> None:
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 0xFF
    overwrite(path, bytes(content), checksum=checksum)


def swap(directory: Path) -> None:
    first, second, *_ = parts(directory)
    first.rename(directory / "third")
    second.rename(first)
    (directory / "third").rename(second)


def put_file_for_directory(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.write_text("not a directory")


def link_to_nowhere(directory: Path) -> None:
    path = parts(directory)[0]
    path.unlink()
    path.symlink_to(directory / "nowhere")


# Others are in tests/promises.
DAMAGES: dict[str, Callable[[Path], object]] = {
    "noise": lambda it: overwrite(parts(it)[2], os.urandom(parts(it)[2].stat().st_size)),
    # Beyond the magic and the first page's header, before the footer.
    "a page": lambda it: flip(parts(it)[3], range(200, 260)),
    "a byte": lambda it: flip(parts(it)[4], range(250, 251), checksum=True),
    "the manifest": lambda it: (it / "_manifest.json").unlink(),
    "swapped files": swap,
    "a dead link": link_to_nowhere,
    "a stranger": lambda it: shutil.copy(parts(it)[0], it / "part-00099-x-c000.parquet"),
    "no directory": put_file_for_directory,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.sampled(3)
def test_data_lost_before_a_job_is_computed_again(
    env: Environment,
    hot: Table,
    kept: Path,
    tmp_path: Path,
    warnings: Callable[[], list[str]],
    damage: str,
) -> None:
    DAMAGES[damage](kept)
    warnings()
    assert sorted(hot.collect()) == EXPECTED
    assert outcomes(env) == PRODUCED
    (loss,), (line,) = result_of(env).losses, warnings()
    assert loss in line and env.list_cached()[0].location != kept

    assert sorted(hot.collect()) == EXPECTED
    assert outcomes(env) == READ
    assert result_of(env).losses == () and warnings() == []
    assert_nothing_is_left_over(env, tmp_path)


def test_a_file_of_another_dataset_in_the_place_of_one_is_not_read(
    spark: SparkSession, env: Environment, hot: Table, kept: Path
) -> None:
    _, other = keep(env, numbers(spark).select((F.col("id") + 1000).alias("id"), "w"))
    for target, source in zip(parts(kept), parts(other), strict=True):
        shutil.copy(source, target)
    assert sorted(hot.collect()) == EXPECTED
    assert len(result_of(env).losses) == 1


def failing(error: Exception, *, always: bool = False) -> Callable[[DataFrame], int]:
    """Counts, and fails over kept files."""

    def count(dataframe: DataFrame) -> int:
        if always or "FileScan" in dataframe._jdf.queryExecution().toString():
            raise error
        return dataframe.count()

    return count


@pytest.fixture
def odd(spark: SparkSession) -> Py4JJavaError:
    return Py4JJavaError("An error occurred.\n", spark._jvm.java.lang.ClassCastException("odd"))  # type: ignore[union-attr]


def test_what_can_t_be_read_although_nothing_is_missing_is_not_kept_again(
    env: Environment, hot: Table, kept: Path, odd: Py4JJavaError
) -> None:
    assert env.run_action(hot, "read", failing(odd)) == 60
    assert not kept.exists() and env.list_cached() == []
    assert hot.cache().count() == 60
    assert outcomes(env) == [VertexOutcome.RUN]
    (listed,) = env.list_cached()
    assert "could not be read" in listed.reasons[0].sentence


def test_what_fails_over_kept_files_and_without_them_is_not_their_fault(
    env: Environment, hot: Table, odd: Py4JJavaError
) -> None:
    with pytest.raises(Py4JJavaError, match="odd"):
        env.run_action(hot, "read", failing(odd, always=True))
    assert_reads(hot)


def test_a_dataframe_whose_plan_spark_has_refused_over_kept_files_reads_them_the_next_time(
    env: Environment, hot: Table
) -> None:
    above = hot.where("id > 5")
    assert env.run_action(above, "count", failing(AnalysisException("refused"))) == 54
    assert outcomes(env) == [VertexOutcome.RUN]
    assert_reads(above)
    assert above.count() == 54
    assert outcomes(env) == READ


# -- lost while a job runs -------------------------------------------------------------------------


def meanwhile(doing: Callable[[], object]) -> Any:
    """A function of Spark's workers that passes a number through, and does something first.

    By the time it is called for the first rows, the job has its plan, and the files of the rows
    that are still to come have not been opened.
    """

    @F.udf("long")
    def passed(number):  # type: ignore[no-untyped-def] # PySpark would take hints for its own.
        doing()
        return number

    return passed.asNondeterministic()("id").alias("id")


def deleting(directory: Path) -> Any:
    """Passes ids through while a directory goes."""
    path = str(directory)
    return meanwhile(lambda: shutil.rmtree(path, ignore_errors=True))


@pytest.mark.parametrize("gone", ["the dataset", "the root"])
def test_data_lost_while_a_job_runs_is_computed_again(
    env: Environment,
    hot: Table,
    kept: Path,
    tmp_path: Path,
    warnings: Callable[[], list[str]],
    gone: str,
) -> None:
    path = str(kept if gone == "the dataset" else kept.parents[2])
    once = str(tmp_path / "once")

    def delete() -> None:
        if not os.path.exists(once):
            open(once, "w").close()
            shutil.rmtree(path, ignore_errors=True)

    warnings()
    rows = hot.select(meanwhile(delete)).collect()
    assert sorted(row.id for row in rows) == [*range(60)]
    assert outcomes(env) == PRODUCED
    assert len(result_of(env).losses) == len(warnings()) == 1
    assert result_of(env).vertices[-1].attempts == 2
    assert hot.count() == 60
    assert outcomes(env) == READ


def test_a_file_replaced_while_a_job_runs_is_not_read(
    spark: SparkSession, env: Environment, hot: Table, kept: Path
) -> None:
    # As long as mine, so that nothing but the content tells them apart.
    reversed_ = numbers(spark).select(
        (F.lit(59) - F.col("id")).alias("id"), F.reverse("w").alias("w")
    )
    _, other = keep(env, reversed_)
    pairs = [*zip(map(str, parts(other)), map(str, parts(kept)), strict=True)]
    assert any(os.path.getsize(source) == os.path.getsize(target) for source, target in pairs)

    def replace() -> None:
        for source, target in pairs:
            if not os.path.exists(target):
                return
            with suppress(FileNotFoundError):
                os.remove(os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.crc"))
            temporary = f"{target}.{os.getpid()}"
            shutil.copy(source, temporary)
            os.replace(temporary, target)

    assert sorted(hot.select(meanwhile(replace), "w").collect()) == EXPECTED


def touching(directory: Path) -> Any:
    """Passes ids through while files seem to be replaced."""
    targets = [str(path) for path in parts(directory)]

    def touch() -> None:
        for target in targets:
            if os.path.exists(target):
                os.utime(target, (1, 1))

    return meanwhile(touch)


@pytest.mark.parametrize("losing", [touching, deleting])
def test_an_inner_cache_lost_while_the_outer_is_kept_recovers(
    env: Environment, hot: Table, kept: Path, tmp_path: Path, losing: Callable[[Path], Any]
) -> None:
    outer = hot.select(losing(kept)).cache()
    assert sorted(row.id for row in outer.collect()) == [*range(60)]
    assert outcomes(env) == [VertexOutcome.PRODUCED, *PRODUCED]
    assert [vertex.attempts for vertex in result_of(env).vertices[:2]] in ([1, 2], [2, 1])
    assert len(result_of(env).losses) == 1
    assert_nothing_is_left_over(env, tmp_path)


@pytest.mark.parametrize("gone", ["inner", "outer", "both"])
@pytest.mark.sampled(3, 2)
def test_nested_caches_recover(
    env: Environment, hot: Table, kept: Path, warnings: Callable[[], list[str]], gone: str
) -> None:
    outer, outer_kept = keep(env, hot.withColumn("double", F.col("id") * 2))
    for name, directory in {"inner": kept, "outer": outer_kept}.items():
        if gone in (name, "both"):
            shutil.rmtree(directory)
    warnings()
    assert sorted(row.double for row in outer.collect()) == [*range(0, 120, 2)]
    expected, losses = {
        "inner": (READ, 0),
        "outer": ([*READ[:1], *PRODUCED], 1),
        "both": ([*PRODUCED[:1], *PRODUCED], 2),
    }[gone]
    assert sorted(outcomes(env), key=str) == sorted(expected, key=str)
    assert len(result_of(env).losses) == losses and len(warnings()) == min(1, losses)
    hot.count()
    for table in (hot, outer):
        assert_reads(table)


@pytest.mark.timeout(120)
def test_an_observation_of_a_job_that_is_run_again_is_answered(hot: Table, kept: Path) -> None:
    observation = Observation()
    lossy = hot.select(deleting(kept)).observe(observation, F.count(F.lit(1)).alias("n"))
    assert len(lossy.collect()) == 60
    # Spark completes it with the first attempt, the failed one, and once for all.
    assert {*observation.get} == {"n"}


# -- lost while a write runs -----------------------------------------------------------------------

MODES = ("append", "overwrite", "error", "ignore")
AFTER = {"append": [*range(60), 100, 101, 102]}


@pytest.fixture
def target(spark: SparkSession) -> Any:
    """The name of a table that isn't there yet."""
    spark.sql("DROP TABLE IF EXISTS written_while_lost")
    yield "written_while_lost"
    spark.sql("DROP TABLE IF EXISTS written_while_lost")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["parquet", "csv", "partitioned", "table", "external table"])
@pytest.mark.sampled(7)
def test_a_write_holds_each_row_once_when_data_is_lost_in_its_middle(
    spark: SparkSession,
    env: Environment,
    hot: Table,
    kept: Path,
    tmp_path: Path,
    target: str,
    mode: str,
    how: str,
) -> None:
    path = tmp_path / "out"

    def write(df: DataFrame, mode: str) -> None:
        writer = df.withColumn("k", F.col("id") % 2).write.mode(mode)
        if how == "partitioned":
            writer = writer.partitionBy("k")
        if how == "external table":
            writer = writer.option("path", str(path))
        if "table" in how:
            writer.saveAsTable(target)
        else:
            writer.format("csv" if how == "csv" else "parquet").save(str(path))

    if mode in ("append", "overwrite"):
        path.mkdir(mode=0o700)  # which is not what a write may delete
        write(spark.range(100, 103), "append")
    write(hot.select(deleting(kept)), mode)
    schema = spark.read.schema("id BIGINT, k BIGINT")
    kind = "csv" if how == "csv" else "parquet"
    written = spark.table(target) if "table" in how else schema.format(kind).load(str(path))
    assert sorted(row.id for row in written.collect()) == AFTER.get(mode, [*range(60)])
    assert len(result_of(env).losses) == 1


@pytest.mark.parametrize("mode", MODES[:3])
@pytest.mark.sampled(3)
def test_a_task_of_the_first_attempt_that_commits_too_late_adds_no_rows(
    spark: SparkSession, env: Environment, hot: Table, kept: Path, tmp_path: Path, mode: str
) -> None:
    path, late, asked = tmp_path / "out", tmp_path / "late", str(tmp_path / "asked")
    spark.range(1000, 1010).coalesce(1).write.parquet(str(late))
    if mode != "error":
        spark.range(100, 103).write.parquet(str(path))
    where, uncommitted = str(kept), path / "_temporary"

    @F.udf("long")
    def passed(number):  # type: ignore[no-untyped-def]
        if number == 10 and not os.path.exists(asked):
            Path(asked).touch()
            # The first attempt is cleared away once a task misses its file.
            end = time.monotonic() + 20
            while not uncommitted.exists() and time.monotonic() < end:
                time.sleep(0.01)
            shutil.rmtree(where, ignore_errors=True)
            while uncommitted.exists() and time.monotonic() < end:
                time.sleep(0.01)
            shutil.copytree(late, uncommitted / "0" / "task_00000000000000000000_0001_m_000001")
        return number

    lossy = hot.select(passed.asNondeterministic()("id").alias("id"))
    lossy.write.mode(mode).parquet(str(path))
    assert Path(asked).exists() and not uncommitted.exists()
    rows = sorted(row.id for row in spark.read.parquet(str(path)).collect())
    assert rows == AFTER.get(mode, [*range(60)])
    assert len(result_of(env).losses) == 1


COMMITTER_VERSION = "mapreduce.fileoutputcommitter.algorithm.version"
UNREPEATABLE: dict[str, Callable[[DataFrame, str], object]] = {
    "rows committed by tasks": lambda df, path: (
        df.write.option(COMMITTER_VERSION, "2").mode("append").parquet(path)
    ),
    "jdbc": lambda df, path: df.write.jdbc(
        f"jdbc:derby:memory:{Path(path).parent.name};create=true", "numbers"
    ),
    "jdbc, appended": lambda df, path: df.write.jdbc(
        f"jdbc:derby:memory:{Path(path).parent.name};create=true", "numbers", mode="append"
    ),
    "rows committed to a new directory": lambda df, path: df.write.option(
        COMMITTER_VERSION, "2"
    ).parquet(path),
}


@pytest.mark.parametrize("how", UNREPEATABLE)
@pytest.mark.sampled(2)
def test_a_write_is_not_repeated_over_the_rows_of_its_first_attempt(
    hot: Table, kept: Path, tmp_path: Path, how: str
) -> None:
    with pytest.raises(Exception, match="FAILED_READ_FILE") as lost:
        UNREPEATABLE[how](hot.select(deleting(kept)), str(tmp_path / "out"))
    assert any("was not retried" in note for note in lost.value.__notes__)
    assert hot.count() == 60


# -- rows one by one -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "invalidated", "left alone"])
def test_rows_one_by_one_go_on_when_what_they_are_read_from_goes(
    env: Environment, hot: Table, kept: Path, tmp_path: Path, how: str
) -> None:
    rows = hot.toLocalIterator()
    first = next(rows)
    if how == "deleted":
        shutil.rmtree(kept)
    elif how == "invalidated":
        hot.invalidate_cache()
    if how == "left alone":
        rows.close()
    else:
        assert [first.id, *(row.id for row in rows)] == [*range(60)]
        assert result_of(env).losses == ()
    hot.toLocalIterator()  # which has not begun, and holds nothing
    assert_nothing_is_left_over(env, tmp_path)


@pytest.mark.parametrize("how", ["without links", "with the root"])
def test_data_lost_after_the_first_row_is_an_error_that_says_so(
    env: Environment, hot: Table, kept: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "without links":

        def refuse(*_: object) -> None:
            raise PermissionError(1, "links are not allowed")

        monkeypatch.setattr(os, "link", refuse)
    rows = hot.toLocalIterator()
    next(rows)
    shutil.rmtree(kept if how == "without links" else kept.parents[2])
    with pytest.raises(KeptPartitionLostError, match="run the job again") as lost:
        list(rows)
    assert len(lost.value.dataset_ids) == 1
    assert [row.id for row in hot.toLocalIterator()] == [*range(60)]
    assert outcomes(env) == PRODUCED


def test_data_lost_before_the_first_row_is_computed_again(
    env: Environment, hot: Table, kept: Path
) -> None:
    flip(parts(kept)[2], range(200, 260))
    os.truncate(parts(kept)[0], 10)
    assert [row.id for row in hot.toLocalIterator()] == [*range(60)]
    assert len(result_of(env).losses) == 1
