"""Whatever happens to kept data, a job gets the rows that Spark would give it."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import holdfast
from holdfast import Environment
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.api.table import Table
from holdfast.api.table_session import plain_session
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.errors import KeptPartitionLostError
from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_outcome import VertexOutcome

# What is lost while a job runs has to be lost before the last task opens its file.
pytestmark = pytest.mark.usefixtures("interpreted", "a_task_for_each_file")

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
DIRECTORY = "intermediate-result-storage.directory"


def result_of(env: Environment) -> JobExecutionResult:
    assert env.last_job_result is not None
    return env.last_job_result


def outcomes(env: Environment) -> list[VertexOutcome]:
    return [vertex.outcome for vertex in result_of(env).vertices]


def plain(table: DataFrame) -> DataFrame:
    return ClassicDataFrame(table._jdf, plain_session(table.sparkSession))


def numbers(spark: SparkSession, rows: int = 60, parts: int = 6) -> DataFrame:
    return spark.range(0, rows, 1, parts).select(
        "id", F.sha2(F.col("id").cast("string"), 256).alias("w")
    )


def expected_numbers(rows: int = 60) -> list[Row]:
    """What `numbers` holds, without asking Spark."""
    return [Row(id=each, w=hashlib.sha256(b"%d" % each).hexdigest()) for each in range(rows)]


def keep(env: Environment, df: DataFrame) -> Table:
    """Caches a query and has a job keep its rows."""
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert VertexOutcome.PRODUCED in outcomes(env)
    return hot


def location(env: Environment, index: int = -1) -> Path:
    found = env.list_cached()[index].location
    assert found is not None
    return found


def parts(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*.parquet"))


def staged(env: Environment) -> list[Path]:
    """What lies in the application's directory beside published datasets."""
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    left = [*root.glob("application-*/staging/*"), *root.glob("application-*/pinned/*")]
    return left + list(root.glob("application-*/datasets/.removed-*"))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Gives the lines of Holdfast's log since the last call, from WARNING on.

    Without those of the catalog, which is on the same disk, and says so in a line of its own.
    """
    caplog.set_level(logging.WARNING, logger="holdfast")

    def lines() -> list[str]:
        found = [each.getMessage() for each in caplog.records if each.name.startswith("holdfast")]
        caplog.clear()
        return [line for line in found if not line.startswith("results are not shared with")]

    return lines


# -- damage ----------------------------------------------------------------------------------------


def delete_one(directory: Path) -> None:
    parts(directory)[1].unlink()


def delete_all(directory: Path) -> None:
    for path in parts(directory):
        path.unlink()


def truncate(directory: Path) -> None:
    os.truncate(parts(directory)[0], 10)


def empty(directory: Path) -> None:
    os.truncate(parts(directory)[-1], 0)


def noise(directory: Path) -> None:
    path = parts(directory)[2]
    path.write_bytes(os.urandom(path.stat().st_size))


def _disguised(path: Path, content: bytes) -> None:
    """Overwrites a file such that its directory entry and checksums don't give it away."""
    status = path.stat()
    assert len(content) == status.st_size
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def disguised_noise(directory: Path) -> None:
    path = parts(directory)[2]
    _disguised(path, os.urandom(path.stat().st_size))


def disguised_noise_in_pages(directory: Path) -> None:
    path = parts(directory)[3]
    content = bytearray(path.read_bytes())
    # Beyond the magic and the first page's header, before the footer.
    for place in range(200, 260):
        content[place] ^= 0xFF
    _disguised(path, bytes(content))


def noise_that_the_checksums_tell(directory: Path) -> None:
    path = parts(directory)[4]
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[250] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def whole_directory(directory: Path) -> None:
    shutil.rmtree(directory)


def whole_root(directory: Path) -> None:
    shutil.rmtree(directory.parents[2])


def manifest(directory: Path) -> None:
    (directory / "_manifest.json").unlink()


def swap(directory: Path) -> None:
    first, second, *_ = parts(directory)
    third = directory / "third"
    first.rename(third)
    second.rename(first)
    third.rename(second)


def stranger(directory: Path) -> None:
    shutil.copy(parts(directory)[0], directory / "part-00099-x-c000.parquet")


def file_for_directory(directory: Path) -> None:
    shutil.rmtree(directory)
    directory.write_text("not a directory")


def link_to_nowhere(directory: Path) -> None:
    path = parts(directory)[0]
    path.unlink()
    path.symlink_to(directory / "nowhere")


Damage = Callable[[Path], None]
DAMAGES: list[Damage] = [
    delete_one,
    delete_all,
    truncate,
    empty,
    noise,
    disguised_noise,
    disguised_noise_in_pages,
    noise_that_the_checksums_tell,
    whole_directory,
    whole_root,
    manifest,
    swap,
    stranger,
    file_for_directory,
    link_to_nowhere,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.sampled(4)
def test_data_lost_before_a_job_is_computed_again(
    spark: SparkSession,
    env: Environment,
    warnings: Callable[[], list[str]],
    damage: Damage,
) -> None:
    df = numbers(spark)
    hot = keep(env, df)
    before = location(env)
    damage(before)
    warnings()

    assert sorted(hot.collect()) == expected_numbers()
    assert outcomes(env) == PRODUCED
    (loss,) = result_of(env).losses
    (line,) = warnings()
    assert loss in line
    assert location(env) != before

    assert sorted(hot.collect()) == expected_numbers()
    assert outcomes(env) == READ
    assert result_of(env).losses == ()
    assert warnings() == []
    assert staged(env) == []


def test_a_file_of_another_dataset_in_the_place_of_one_is_not_read(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]]
) -> None:
    df = numbers(spark)
    hot = keep(env, df)
    mine = location(env)
    keep(env, df.select((F.col("id") + 1000).alias("id"), "w"))
    other = next(line.location for line in env.list_cached() if line.location != mine)
    assert other is not None
    for target, source in zip(parts(mine), parts(other), strict=True):
        shutil.copy(source, target)
    warnings()
    assert sorted(hot.collect()) == expected_numbers()
    assert len(result_of(env).losses) == len(warnings()) == 1


# -- damage while a job runs -----------------------------------------------------------------------


def meanwhile(doing: Callable[[], None]) -> Any:
    """A function of Spark's workers that passes a number through, and does something first.

    By the time it is called for the first rows, the job has its plan, and the files of the rows
    that are still to come have not been opened.
    """

    @F.udf("long")
    def passed(number):  # type: ignore[no-untyped-def] # PySpark would take hints for its own.
        doing()
        return number

    return passed.asNondeterministic()


def deleting(directory: Path) -> Callable[[], None]:
    path = str(directory)

    def delete() -> None:
        shutil.rmtree(path, ignore_errors=True)

    return delete


def test_data_lost_while_a_job_runs_is_computed_again(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]]
) -> None:
    df = numbers(spark)
    hot = keep(env, df)
    before = location(env)
    warnings()
    rows = hot.select(meanwhile(deleting(before))("id").alias("id")).collect()
    assert sorted(row.id for row in rows) == list(range(60))
    assert outcomes(env) == PRODUCED
    assert len(result_of(env).losses) == len(warnings()) == 1
    assert result_of(env).vertices[-1].attempts == 2
    assert hot.count() == 60
    assert outcomes(env) == READ


def test_a_thread_may_delete_everything_while_a_job_runs(
    spark: SparkSession, env: Environment, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    df = numbers(spark)
    hot = keep(env, df)
    root = location(env).parents[2]
    started, gone = tmp_path / "started", tmp_path / "gone"

    def wait() -> None:
        started.touch()
        while not gone.exists():
            time.sleep(0.01)

    def remove() -> None:
        while not started.exists():
            time.sleep(0.01)
        shutil.rmtree(root)
        gone.touch()

    thread = threading.Thread(target=remove)
    thread.start()
    warnings()
    rows = hot.select(meanwhile(wait)("id").alias("id")).collect()
    thread.join()
    assert sorted(row.id for row in rows) == list(range(60))
    assert len(result_of(env).losses) == len(warnings()) == 1
    assert location(env).exists()


def test_a_file_replaced_while_a_job_runs_is_not_read(
    spark: SparkSession, env: Environment
) -> None:
    df = numbers(spark)
    hot = keep(env, df)
    mine = location(env)
    # As long as mine, so that nothing but the content tells them apart.
    keep(env, df.select((F.lit(59) - F.col("id")).alias("id"), F.reverse("w").alias("w")))
    other = next(line.location for line in env.list_cached() if line.location != mine)
    assert other is not None
    assert any(
        path.stat().st_size == twin.stat().st_size
        for path, twin in zip(parts(mine), parts(other), strict=True)
    )
    sources, targets = list(map(str, parts(other))), list(map(str, parts(mine)))

    def replace() -> None:
        for source, target in zip(sources, targets, strict=True):
            if not os.path.exists(target):
                return
            with suppress(FileNotFoundError):
                os.remove(os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.crc"))
            temporary = f"{target}.{os.getpid()}"
            shutil.copy(source, temporary)
            os.replace(temporary, target)

    step = meanwhile(replace)
    rows = hot.select(step("id").alias("id"), "w").collect()
    assert sorted(rows) == expected_numbers()


def test_nothing_is_kept_of_rows_of_a_file_that_was_replaced(
    spark: SparkSession, env: Environment
) -> None:
    df = numbers(spark)
    inner = keep(env, df)
    targets = [str(path) for path in parts(location(env))]

    def touch() -> None:
        for target in targets:
            if os.path.exists(target):
                os.utime(target, (1, 1))

    outer = inner.select(meanwhile(touch)("id").alias("id")).cache()
    assert sorted(row.id for row in outer.collect()) == list(range(60))
    assert outcomes(env) == [VertexOutcome.PRODUCED, *PRODUCED]
    assert [vertex.attempts for vertex in result_of(env).vertices[:2]] in ([1, 2], [2, 1])
    assert staged(env) == []


@pytest.mark.parametrize("gone", ["inner", "outer", "both"])
def test_nested_caches_recover(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], gone: str
) -> None:
    inner = env.from_dataframe(numbers(spark)).cache()
    outer = inner.withColumn("double", F.col("id") * 2).cache()
    outer.count()
    assert outcomes(env) == [VertexOutcome.PRODUCED, *PRODUCED]
    where = {line.rows: line.location for line in env.list_cached()}
    directories = {"inner": location(env, 0), "outer": location(env, 1)}
    assert len(where) == 1
    for name, directory in directories.items():
        if gone in (name, "both"):
            shutil.rmtree(directory)
    warnings()
    assert sorted(row.double for row in outer.collect()) == list(range(0, 120, 2))
    expected = {"inner": (READ, 0), "outer": ([VertexOutcome.READ, *PRODUCED], 1)}
    expected["both"] = ([VertexOutcome.PRODUCED, *PRODUCED], 2)
    assert sorted(outcomes(env), key=str) == sorted(expected[gone][0], key=str)
    assert len(result_of(env).losses) == expected[gone][1]
    assert len(warnings()) == min(1, expected[gone][1])
    inner.count(), outer.count()
    warnings()
    inner.count()
    assert outcomes(env) == READ
    outer.count()
    assert outcomes(env) == READ
    assert warnings() == []


def test_an_inner_cache_lost_while_the_outer_is_kept_recovers(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]]
) -> None:
    inner = keep(env, numbers(spark))
    outer = inner.select(meanwhile(deleting(location(env)))("id").alias("id")).cache()
    warnings()
    assert sorted(row.id for row in outer.collect()) == list(range(60))
    assert outcomes(env) == [VertexOutcome.PRODUCED, *PRODUCED]
    assert len(result_of(env).losses) == len(warnings()) == 1
    assert staged(env) == []


# -- writes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
@pytest.mark.sampled(2)
def test_a_write_holds_each_row_once_when_data_is_lost_in_its_middle(
    spark: SparkSession,
    env: Environment,
    tmp_path: Path,
    warnings: Callable[[], list[str]],
    mode: str,
) -> None:
    hot = keep(env, numbers(spark))
    path = str(tmp_path / "out")
    before = []
    if mode in ("append", "overwrite"):
        spark.range(100, 103).write.parquet(path)
        before = [100, 101, 102] if mode == "append" else []
    lossy = hot.select(meanwhile(deleting(location(env)))("id").alias("id"))
    warnings()
    lossy.write.mode(mode).parquet(path)
    rows = sorted(row.id for row in spark.read.parquet(path).collect())
    assert rows == [*range(60), *before]
    assert len(result_of(env).losses) == len(warnings()) == 1


@pytest.mark.parametrize("mode", ["append", "overwrite", "error"])
@pytest.mark.sampled(3)
def test_a_task_of_the_first_attempt_that_commits_too_late_adds_no_rows(
    spark: SparkSession, env: Environment, tmp_path: Path, mode: str
) -> None:
    hot = keep(env, numbers(spark))
    path = tmp_path / "out"
    late = tmp_path / "late"
    spark.range(1000, 1010).coalesce(1).write.parquet(str(late))
    if mode != "error":
        spark.range(100, 103).write.parquet(str(path))
    kept, asked, uncommitted = str(location(env)), str(tmp_path / "asked"), path / "_temporary"

    @F.udf("long")
    def passed(number):  # type: ignore[no-untyped-def] # PySpark would take hints for its own.
        if number == 10 and not os.path.exists(asked):
            Path(asked).touch()
            # The first attempt is cleared away once a task misses its file.
            end = time.monotonic() + 20
            while not uncommitted.exists() and time.monotonic() < end:
                time.sleep(0.01)
            shutil.rmtree(kept, ignore_errors=True)
            while uncommitted.exists() and time.monotonic() < end:
                time.sleep(0.01)
            shutil.copytree(late, uncommitted / "0" / "task_00000000000000000000_0001_m_000001")
        return number

    lossy = hot.select(passed.asNondeterministic()("id").alias("id"))
    lossy.write.mode(mode).parquet(str(path))
    assert Path(asked).exists() and not uncommitted.exists()
    rows = sorted(row.id for row in spark.read.parquet(str(path)).collect())
    assert rows == [*range(60), *([100, 101, 102] if mode == "append" else [])]
    assert len(result_of(env).losses) == 1


# -- rows one by one -------------------------------------------------------------------------------


def test_rows_one_by_one_go_on_when_the_originals_are_deleted(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]]
) -> None:
    hot = keep(env, numbers(spark))
    directory = location(env)
    rows = hot.toLocalIterator()
    first = next(rows)
    assert len(staged(env)) == 1
    shutil.rmtree(directory)
    assert [first.id, *(row.id for row in rows)] == list(range(60))
    assert staged(env) == []
    assert warnings() == []
    assert result_of(env).losses == ()
    located = result_of(env).persistent_result_partitions.descriptors.values()
    assert all(str(directory) in each.location for line in located for each in line)


def test_invalidation_leaves_rows_one_by_one_alone(spark: SparkSession, env: Environment) -> None:
    hot = keep(env, numbers(spark))
    rows = hot.toLocalIterator()
    first = next(rows)
    hot.invalidate_cache()
    assert [first.id, *(row.id for row in rows)] == list(range(60))
    assert staged(env) == []


def test_rows_one_by_one_may_be_left_alone(spark: SparkSession, env: Environment) -> None:
    hot = keep(env, numbers(spark))
    rows = hot.toLocalIterator()
    next(rows)
    rows.close()
    assert staged(env) == []
    # An iterator that nobody asked for a row has pinned nothing.
    hot.toLocalIterator()
    assert staged(env) == []


@pytest.mark.parametrize("how", ["without links", "with the root"])
def test_data_lost_after_the_first_row_is_an_error_that_says_so(
    spark: SparkSession,
    env: Environment,
    monkeypatch: pytest.MonkeyPatch,
    warnings: Callable[[], list[str]],
    how: str,
) -> None:
    hot = keep(env, numbers(spark))
    directory = location(env)
    if how == "without links":

        def refuse(*_: object) -> None:
            raise PermissionError(1, "links are not allowed")

        monkeypatch.setattr(os, "link", refuse)
    else:
        directory = directory.parents[2]
    rows = hot.toLocalIterator()
    next(rows)
    shutil.rmtree(directory)
    with pytest.raises(KeptPartitionLostError, match="run the job again") as lost:
        list(rows)
    assert len(lost.value.dataset_ids) == 1
    assert len(warnings()) == 1
    assert [row.id for row in hot.toLocalIterator()] == list(range(60))
    assert outcomes(env) == PRODUCED
    assert warnings() == []


def test_data_lost_before_the_first_row_is_computed_again(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]]
) -> None:
    hot = keep(env, numbers(spark))
    disguised_noise(location(env))
    os.truncate(parts(location(env))[0], 10)
    assert [row.id for row in hot.toLocalIterator()] == list(range(60))
    assert len(result_of(env).losses) == len(warnings()) == 1


# -- where results can't be kept -------------------------------------------------------------------


def test_a_full_disk_makes_no_job_fail(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]]
) -> None:
    with Environment(spark, {DIRECTORY: str(small_disk / "kept")}) as env:
        wide = spark.range(0, 8000, 1, 2).select(
            F.sha2(F.col("id").cast("string"), 512).alias("w"), "id"
        )
        hot = env.from_dataframe(wide).cache()
        assert hot.agg(F.sum("id")).collect() == wide.agg(F.sum("id")).collect()
        assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
        assert "No space left" in (result_of(env).vertices[0].reason or "")
        (line,) = warnings()
        assert "No space left" in line
        assert staged(env) == []


def test_a_disk_too_full_for_a_directory_makes_no_job_fail(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]]
) -> None:
    with Environment(spark, {DIRECTORY: str(small_disk / "kept")}) as env:
        hot = env.from_dataframe(numbers(spark)).cache()
        with (small_disk / "rest").open("wb", buffering=0) as rest, pytest.raises(OSError):
            while True:
                rest.write(bytes(1024))
        assert hot.count() == 60
        assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
        assert len(warnings()) == 1


def test_a_directory_that_became_read_only_makes_no_job_fail(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]]
) -> None:
    with Environment(spark, {DIRECTORY: str(small_disk / "kept")}) as env:
        hot = env.from_dataframe(numbers(spark)).cache()
        root = str(small_disk / "kept")
        # A view of itself, since the lock in it is open for writing.
        subprocess.run(["mount", "--bind", root, root], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", root], check=True)
            rows = hot.collect()
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)
        assert sorted(rows) == expected_numbers()
        assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
        assert len(warnings()) == 1


def test_a_full_disk_is_listed_and_not_written_to_by_each_query(
    spark: SparkSession, small_disk: Path, warnings: Callable[[], list[str]]
) -> None:
    session = holdfast.attach(spark.newSession(), {DIRECTORY: str(small_disk / "kept")})
    text = F.sha2(F.col("id").cast("string"), 512).alias("w")
    hot = session.range(0, 8000, 1, 2).select("id", text).cache()
    try:
        for _ in range(3):
            # Spark runs it for an RDD, and no action of a table's.
            assert hot.rdd.map(lambda row: row.id).sum() == sum(range(8000))
        # The first query has tried to keep it, the others have not.
        (line,) = warnings()
        assert "No space left" in line
        assert "a recent attempt" in (result_of(session.holdfast).vertices[0].reason or "")
        (listed,) = session.holdfast.list_cached()
        assert "No space left" in (listed.not_kept_by_holdfast or "")
    finally:
        holdfast.detach(session)


# -- a person's own errors -------------------------------------------------------------------------


def counting(path: Path, fails_at: int = -1) -> Any:
    """A function of Spark's workers that notes each number that it is called with."""
    notes = str(path)

    @F.udf("long")
    def noted(number):  # type: ignore[no-untyped-def]
        with open(notes, "a") as file:
            file.write(f"{number}\n")
        if number == fails_at:
            raise ValueError(f"{number} is one too many")
        return number

    return noted


def calls(path: Path) -> list[int]:
    noted = sorted(int(line) for line in path.read_text().split())
    path.unlink()
    return noted


def failure_of(df: DataFrame) -> Exception:
    with pytest.raises(Exception) as failed:
        df.collect()
    return failed.value


def test_a_failing_function_surfaces_as_with_plain_spark(
    spark: SparkSession, env: Environment, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    notes = tmp_path / "calls"
    df = spark.range(0, 20, 1, 1).select(counting(notes, fails_at=7)("id").alias("id"))
    expected, expected_calls = failure_of(df), calls(notes)
    table = env.from_dataframe(df).cache()
    for query in (table, table.groupBy("id").count(), table.cache().orderBy("id").cache()):
        failure = failure_of(query)
        assert isinstance(failure, PythonException)
        assert type(failure) is type(expected)
        assert str(failure) == str(expected)
        # Once more for each result that was to be kept: the answer might not have needed it.
        assert set(calls(notes)) == set(expected_calls)
    assert warnings() == []
    assert staged(env) == []
    assert all(line.location is None for line in env.list_cached())


def test_a_function_that_fails_above_what_is_kept_is_not_retried(
    spark: SparkSession, env: Environment, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    notes = tmp_path / "calls"
    hot = keep(env, numbers(spark, 20, 1))
    step = counting(notes, fails_at=7)
    expected, expected_calls = failure_of(plain(hot).select(step("id"))), calls(notes)
    failure = failure_of(hot.select(step("id")))
    assert type(failure) is type(expected)
    assert str(failure) == str(expected)
    assert calls(notes) == expected_calls
    assert warnings() == []
    assert location(env).exists()


def test_a_function_is_called_once_a_row_for_any_number_of_jobs(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    notes = tmp_path / "calls"
    df = spark.range(0, 20, 1, 2).select(counting(notes)("id").alias("id"))
    hot = env.from_dataframe(df).cache()
    hot.join(hot.withColumnRenamed("id", "other"), F.col("id") == F.col("other")).count()
    hot.where("id > 3").collect()
    hot.toPandas()
    assert calls(notes) == list(range(20))


QUERIES = {
    "division by zero": "SELECT 1 / (id - 3) AS v FROM range(0, 5, 1, 1)",
    "a cast": "SELECT CAST(concat('x', id) AS INT) AS v FROM range(0, 5, 1, 1)",
    "an overflow": "SELECT id + 9223372036854775807L AS v FROM range(0, 5, 1, 1)",
    "an index": "SELECT array(1, 2)[id] AS v FROM range(0, 5, 1, 1)",
    "an error of one's own": "SELECT raise_error('mine') AS v FROM range(0, 5, 1, 1)",
    "too many rows of a subquery": "SELECT (SELECT id FROM range(3)) AS v",
    "an error before a shuffle": "SELECT max(1 / (id - 3)) AS v FROM range(0, 5, 1, 1) GROUP BY id",
}


@pytest.mark.parametrize(
    "narrow",
    [
        lambda table: table.select("k"),
        lambda table: table.where("k < 3"),
        lambda table: table.groupBy().count(),
    ],
    ids=["its column is not asked for", "its rows are filtered out", "rows are counted"],
)
def test_an_error_in_what_is_not_asked_for_fails_no_job(
    spark: SparkSession,
    env: Environment,
    warnings: Callable[[], list[str]],
    narrow: Callable[[DataFrame], DataFrame],
) -> None:
    query = "SELECT id AS k, 1 / (id - 3) AS e FROM range(0, 5, 1, 1)"
    hot = env.sql(query).cache()
    assert narrow(hot).collect() == narrow(spark.sql(query)).collect()
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert "DIVIDE_BY_ZERO" in (result_of(env).vertices[0].reason or "")
    assert [each.kind for each in result_of(env).vertices[0].reasons] == [Why.FAILED.name]
    (warning,) = warnings()
    assert "DIVIDE_BY_ZERO" in warning
    assert staged(env) == []
    # What has just failed isn't computed in vain by the next job, too.
    assert narrow(hot).collect() == narrow(spark.sql(query)).collect()
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert result_of(env).vertices[0].reasons == (Why.FAILED_BEFORE.of(),)
    assert warnings() == []


def test_once_a_result_is_kept_the_failure_before_is_not_its_reason(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    mended = str(tmp_path / "mended")

    @F.udf("long")
    def checked(number: int) -> int:
        if not os.path.exists(mended):
            raise ValueError("not yet")
        return number

    hot = env.from_dataframe(spark.range(5).select("id", checked("id").alias("x"))).cache()
    assert len(hot.select("id").collect()) == 5
    (listed,) = env.list_cached()
    assert "not yet" in (listed.not_kept_by_holdfast or "")
    Path(mended).touch()
    deadline = time.monotonic() + 100
    # The next attempt is made when some time has passed.
    while outcomes(env)[0] is VertexOutcome.NOT_KEPT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
        assert len(hot.select("id").collect()) == 5
    (listed,) = env.list_cached()
    assert listed.not_kept_by_holdfast is None


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
@pytest.mark.sampled(2)
def test_an_error_of_sql_surfaces_unchanged(
    spark: SparkSession, env: Environment, warnings: Callable[[], list[str]], query: str
) -> None:
    expected = failure_of(spark.sql(query))
    hot = env.sql(query).cache()
    for table in (hot, hot.where("v IS NOT NULL")):
        failure = failure_of(table)
        assert type(failure) is type(expected)
        assert _message(failure) == _message(expected)
    assert warnings() == []
    assert staged(env) == []


def test_division_by_zero_is_an_arithmetic_error(env: Environment) -> None:
    assert isinstance(failure_of(env.sql(QUERIES["division by zero"]).cache()), ArithmeticException)


def _message(error: Exception) -> str:
    """What an error says, without the name that Py4J gave the call and the JVM's stack."""
    return str(error).partition("\n\tat ")[0].partition("\n: ")[2] or str(error)


def test_a_missing_source_file_surfaces_unchanged(
    spark: SparkSession, env: Environment, tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    source = tmp_path / "source"
    spark.range(10).repartition(2).write.parquet(str(source))
    df = spark.read.parquet(str(source))
    hot = env.from_dataframe(df.where("id >= 0")).cache()
    parts(source)[0].unlink()
    expected = failure_of(df.where("id >= 0"))
    failure = failure_of(hot)
    assert type(failure) is type(expected)
    assert _message(failure) == _message(expected)
    assert str(parts(source)[0].parent) in str(failure)
    assert warnings() == []
    assert staged(env) == []
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        env.read.parquet(str(tmp_path / "nowhere"))


# -- sources that change ---------------------------------------------------------------------------


def test_a_source_rewritten_after_it_was_listed_is_not_kept(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    source.write_text("4\n5\n6\n")
    os.utime(source, (1, 1))
    assert hot.collect() == plain(hot).collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert "changed after it was listed" in (result_of(env).vertices[0].reason or "")
    assert staged(env) == []
    again = env.read.csv(str(source)).cache()
    assert again.collect() == [Row(_c0=each) for each in "456"]
    assert again.collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == READ


def test_a_source_rewritten_while_it_is_read_is_not_kept(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    path = str(source)

    def rewrite() -> None:
        with open(path, "w") as file:
            file.write("7\n8\n9\n")
        os.utime(path, (1, 1))

    df = spark.read.csv(str(source)).select(F.col("_c0").cast("long").alias("n"))
    hot = env.from_dataframe(df.select(meanwhile(rewrite)("n").alias("n"))).cache()
    hot.count()
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert sorted(row.n for row in hot.collect()) == [7, 8, 9]
    assert env.list_cached()[0].location is None
