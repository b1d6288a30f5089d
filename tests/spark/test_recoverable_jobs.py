"""A job that is started again reads what an earlier start has left, and gives its rows."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, JobExecutionResult, VertexOutcome
from holdfast.errors import ConfigurationError, StorageError
from holdfast.testing import outcomes
from tests.lying_files import parquet_below
from tests.spark.running_jobs import SlowJob
from tests.spark.starts import Query, Starts, recovered_tasks

DIRECTORY = "intermediate-result-storage.directory"
PRODUCED, READ, RECOVERED, RUN = (
    VertexOutcome.PRODUCED,
    VertexOutcome.READ,
    VertexOutcome.RECOVERED,
    VertexOutcome.RUN,
)


@pytest.fixture
def starts(spark: SparkSession, tmp_path: Path, settings: Any) -> Iterator[Starts]:
    values = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.files.openCostInBytes": str(1 << 27),
    }
    with settings(values), Starts(spark, tmp_path, {}) as found:
        yield found


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Path:
    """Files of rows, as a person has them."""
    rows = spark.range(0, 3000, 1, 3).selectExpr("id", "id % 50 AS k", "sha2(string(id), 256) AS w")
    rows.write.parquet(str(tmp_path / "orders"))
    return tmp_path / "orders"


@pytest.fixture
def totals(orders: Path) -> Query:
    """A query with two shuffles, one above the other."""

    def query(session: Any) -> DataFrame:
        read = session.read.parquet(str(orders))
        counts = read.groupBy("k").agg(F.count("*").alias("n"), F.max("w").alias("m"))
        sums = F.sum("id").alias("s"), F.max("m").alias("m")
        found: DataFrame = read.join(counts, "k").groupBy("n").agg(*sums)
        return found

    return query


LARGEST = max(hashlib.sha256(str(n).encode()).hexdigest() for n in range(3000))
TOTALS = Counter([repr(Row(n=60, s=sum(range(3000)), m=LARGEST))])
"""The rows of that query."""


def ends(result: JobExecutionResult) -> Counter[VertexOutcome]:
    return Counter(vertex.outcome for vertex in result.vertices)


# -- what a second start reads ---------------------------------------------------------------------


def test_a_second_start_reads_what_the_first_has_finished_and_says_so(
    starts: Starts, totals: Query
) -> None:
    assert starts.leave(totals)
    rows, result = starts.run(totals)
    assert rows == TOTALS
    recovered = [each for each in result.vertices if each.outcome is RECOVERED]
    assert recovered and ends(result)[PRODUCED] == 0
    assert all(vertex.recovered == vertex.partitions for vertex in recovered)
    assert recovered_tasks(result)
    said = f"{recovered_tasks(result)} tasks were completed by an earlier start"
    assert "recovered" in repr(result) and said in repr(result)
    assert starts.outputs() == starts.files() == starts.records() == []
    # Without a failure nothing is recovered, and as little left.
    rows, result = starts.run(totals)
    assert rows == TOTALS
    assert ends(result)[PRODUCED] >= 1 and result.vertices[0].recovered == 0
    assert starts.files() == starts.records() == []


def test_a_vertex_that_was_cut_off_is_completed_under_other_settings(
    starts: Starts, spark: SparkSession, tmp_path: Path, settings: Any
) -> None:
    spark.range(0, 4, 1, 4).write.parquet(str(tmp_path / "numbers"))
    with SlowJob(tmp_path) as slow:
        wait = slow.function

        def last_waits(number: int) -> int:
            return -int(wait(number)) if number == 3 else -number

        def numbers(env: Environment) -> Any:
            read = env.read.parquet(str(tmp_path / "numbers"))
            return read.select(F.udf(last_waits, "bigint", useArrow=False)("id").alias("n")).cache()

        first, found = starts.start(), []
        second = threading.Thread(target=lambda: found.append(starts.run(numbers)))

        def begin_again() -> None:
            deadline = time.monotonic() + 60
            while len(parquet_below(tmp_path / "store")) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            later.enter_context(settings({"spark.sql.files.maxPartitionNum": "2"}))
            slow.expect_another()
            second.start()
            slow.wait(second)

        with ExitStack() as later:
            slow.run(lambda: list(numbers(first).toLocalIterator()), begin_again)
            second.join()
    ((rows, result),) = found
    assert rows == Counter(f"Row(n={-each})" for each in range(4))
    (produced,) = [each for each in result.vertices if each.dataset_id is not None]
    assert (produced.outcome, produced.partitions, produced.rows) == (PRODUCED, 4, 4)
    # On a slow machine all of them.
    assert produced.recovered is not None and produced.recovered >= 3


def test_where_shuffle_files_can_t_be_kept_more_is_cut(
    starts: Starts, orders: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def query(session: Any) -> Any:
        some = session.read.parquet(str(orders)).where("k < 9")
        return some.groupBy("w").agg(F.max("id").alias("id")).groupBy("id").count()

    expected, usual = starts.run(query)
    assert not caplog.text
    starts.leave(query, **{DIRECTORY: str(elsewhere)})
    rows, result = starts.run(query, **{DIRECTORY: str(elsewhere)})
    assert rows == expected
    assert len(result.vertices) > len(usual.vertices)
    assert ends(result) == {RECOVERED: len(result.vertices) - 1, RUN: 1}
    assert "must be on the same file system as spark.local.dir" in caplog.text


def test_what_is_cached_is_recovered_and_outlives_the_job(starts: Starts, orders: Path) -> None:
    def evens(session: Any) -> Any:
        return session.read.parquet(str(orders)).where("id % 2 = 0").cache()

    # Nothing of it is worth cutting for the job's sake.
    starts.leave(lambda env: evens(env).where("k < 40"))
    env = starts.start()
    hot = evens(env)
    assert len(list(hot.where("k < 40").toLocalIterator())) == 1200
    assert outcomes(env) == [RECOVERED, RUN]
    assert hot.where("k = 8").count() == 60
    assert outcomes(env) == [READ, RUN]
    third = starts.start()
    assert evens(third).count() == 1500
    assert RECOVERED not in outcomes(third)


def test_streams_are_recovered(starts: Starts) -> None:
    def sums(env: Environment) -> Any:
        pairs = env.from_collection(range(2000)).map(lambda i: (i % 10, i))
        return pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))

    first, second = starts.start(), starts.start()
    held = sums(first).execute_and_collect()
    # All of them, as Spark's tasks wait for room until they are taken.
    assert len([next(held) for _ in range(10)]) == 10
    with sums(second).execute_and_collect() as records:
        assert sorted(records) == [(k, sum(range(k, 2000, 10))) for k in range(10)]
    assert outcomes(second).count(RECOVERED) == 1
    held.close()


# -- what changes between starts -------------------------------------------------------------------


def test_files_that_came_since_do_not_change_a_job_half_done(
    starts: Starts, totals: Query, orders: Path, spark: SparkSession
) -> None:
    starts.leave(totals)
    more = spark.range(10_000, 10_050).selectExpr("id", "id AS k", "'z' AS w").coalesce(1)
    more.write.mode("append").parquet(str(orders))
    rows, result = starts.run(totals)
    assert rows == TOTALS
    assert ends(result)[RECOVERED] >= 1
    # The job has ended; the next one sees them.
    rows, _ = starts.run(totals)
    assert rows == starts.plain_rows(totals) != TOTALS


def test_files_that_changed_make_the_job_begin_from_scratch(
    starts: Starts,
    totals: Query,
    orders: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    starts.leave(totals)
    rows = spark.range(0, 10, 1, 1).selectExpr("id", "id AS k", "'z' AS w")
    rows.write.mode("overwrite").parquet(str(orders))
    with caplog.at_level(logging.WARNING):
        found, result = starts.run(totals)
    assert "rerun from scratch" in caplog.text
    assert ends(result)[RECOVERED] == 0
    assert found == starts.plain_rows(totals)


def test_a_program_that_changed_recovers_what_is_unchanged(starts: Starts, totals: Query) -> None:
    def changed(session: Any) -> Any:
        return totals(session).where("s >= 0").select("n", "s", "m")

    starts.config["pipeline.name"] = "nightly"
    starts.leave(totals)
    rows, result = starts.run(changed)
    assert ends(result)[RECOVERED] >= 1
    assert rows == TOTALS


def test_lost_partitions_are_computed_again(starts: Starts, totals: Query) -> None:
    starts.leave(totals)
    for file in starts.files():
        file.unlink()
    rows, result = starts.run(totals)
    assert rows == TOTALS
    assert ends(result)[RECOVERED] == 0


@pytest.mark.parametrize("remembered", [True, False])
def test_a_job_that_has_failed_is_continued_after_errors(
    starts: Starts, totals: Query, spark: SparkSession, tmp_path: Path, remembered: bool
) -> None:
    mended = tmp_path / "mended"

    def weigh(total: int) -> int:
        if not mended.exists():
            raise ValueError("as asked")
        return total

    def write() -> list[VertexOutcome]:
        with starts.start(**{"execution.batch.job-recovery.after-errors": remembered}) as env:
            weighed = totals(env).select(F.udf(weigh, "long")("s").alias("s"))
            weighed.write.mode("append").parquet(str(tmp_path / "out"))
            return outcomes(env)

    starts.config["pipeline.name"] = "nightly"
    with pytest.raises(PythonException, match="as asked"):
        write()
    mended.touch()
    assert (RECOVERED in write()) is remembered
    assert spark.read.parquet(str(tmp_path / "out")).collect() == [Row(s=sum(range(3000)))]
    assert starts.outputs() == starts.files() == starts.records() == []


# -- rows, errors, and what can't be recorded ------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, count(*) FROM o GROUP BY k HAVING count(*) > (SELECT avg(k) FROM o)",
        "SELECT a.k, b.w FROM o a JOIN o b ON a.id = b.k WHERE a.w < b.w",
        "SELECT DISTINCT k FROM o EXCEPT SELECT id FROM o WHERE id > 20",
        "SELECT k, row_number() OVER (PARTITION BY k ORDER BY id) AS r FROM o ORDER BY k, r",
        "SELECT k, sum(id) AS s FROM o GROUP BY GROUPING SETS ((k), ()) ORDER BY s LIMIT 5",
        "SELECT o.k, x FROM o LEFT ANTI JOIN (SELECT 7L AS x) ON k = x, (SELECT 1 AS x)",
        "SELECT k, collect_set(w) AS w FROM o WHERE id < 0 GROUP BY k",
        "SELECT rand() < 2 AS always, count(*) FROM o GROUP BY 1",
        "SELECT current_date() IS NOT NULL AS c, k, count(*) FROM o GROUP BY k",
    ],
)
@pytest.mark.sampled(5)
def test_rows_are_those_of_plain_spark(
    starts: Starts, orders: Path, spark: SparkSession, query: str
) -> None:
    spark.read.parquet(str(orders)).createOrReplaceTempView("o")
    found, expected = starts.start().sql(query).collect(), spark.sql(query).collect()
    assert Counter(map(repr, found)) == Counter(map(repr, expected))
    assert found == expected or "ORDER BY k" not in query


def test_a_job_keeps_nothing_of_what_its_query_ran_under_before(
    starts: Starts, orders: Path, spark: SparkSession, settings: Any
) -> None:
    key, env = "spark.sql.jsonGenerator.ignoreNullFields", starts.start()
    text = (
        "SELECT to_json(struct(k, nullif(k, 7) AS o)) AS r, count(*) AS n "
        f"FROM parquet.`{orders}` GROUP BY 1"
    )
    with settings({key: "false"}):
        hot = env.sql(text).cache()
        old = sorted(hot.collect())
    # What Spark has cached of files of before counts as little.
    held = spark.read.parquet(str(orders)).cache()
    held.count()
    min(orders.glob("*.parquet")).unlink()
    with settings({key: "true"}):
        for outcome in (PRODUCED, READ):
            found = sorted(env.sql(text).cache().collect())
            assert outcome in outcomes(env)
        held.unpersist(blocking=True)
        assert found == sorted(spark.sql(text).collect()) != old


def test_an_error_of_the_query_is_its_own_and_ends_the_job(starts: Starts, totals: Query) -> None:
    with pytest.raises(ArithmeticException):
        totals(starts.start()).select(F.expr("s / (n - n)")).collect()
    assert starts.files() == starts.records() == []


def test_a_job_goes_on_where_it_can_t_be_recorded(
    starts: Starts, totals: Query, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = starts.start()
    (tmp_path / "ha").rename(tmp_path / "gone")
    (tmp_path / "ha").touch()
    with caplog.at_level(logging.WARNING):
        rows = Counter(map(repr, totals(env).collect()))
    assert "continues unrecorded" in caplog.text
    assert rows == TOTALS
    (tmp_path / "ha").unlink()


def test_recovery_takes_a_place_to_record_jobs_in(spark: SparkSession, tmp_path: Path) -> None:
    enabled: dict[str, Any] = {"execution.batch.job-recovery.enabled": True}
    with pytest.raises(ConfigurationError, match="storageDir"):
        Environment(spark, config=enabled)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        Environment(spark, config=enabled | {"high-availability.storageDir": f"{tmp_path}/file"})


def test_a_job_that_looks_like_no_other_says_so(
    starts: Starts, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    rows = spark.createDataFrame(spark.sparkContext.parallelize([Row(a=1)]))
    with caplog.at_level(logging.WARNING):
        assert starts.start().from_dataframe(rows).groupBy("a").count().count() == 1
    assert "pipeline.name" in caplog.text
