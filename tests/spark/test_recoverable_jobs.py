"""A job that is started again goes on with what an earlier start has left, and gives its rows.

The earlier start lives on here, in the middle of a job whose rows are taken one by one, as a driver
does that was only cut off. `tests/chaos` kills drivers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.errors import ConfigurationError, HoldfastError, StorageError
from holdfast.runtime.vertex_outcome import VertexOutcome

ENABLED = "execution.batch.job-recovery.enabled"
MINIMUM = "execution.batch.job-recovery.min-vertex-input"
STORAGE_DIR = "high-availability.storageDir"
NAME = "pipeline.name"
DIRECTORY = "intermediate-result-storage.directory"

Start = Callable[..., Environment]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Starts of programs over the same storage directory."""
    started: list[Environment] = []
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")

    def make(**config: Any) -> Environment:
        keys = {
            ENABLED: True,
            MINIMUM: 0,
            STORAGE_DIR: f"file://{tmp_path / 'ha'}",
            DIRECTORY: str(tmp_path / "store"),
            # A start that is only left, and not killed, would share what it has kept.
            "catalog.url": "none",
        }
        started.append(Environment(spark, config=keys | config))
        return started[-1]

    yield make
    for env in started:
        env.close()
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> Path:
    """Files of rows, as a person has them."""
    path = tmp_path / "orders"
    rows = spark.range(0, 3000, 1, 3).select(
        "id", (F.col("id") % 50).alias("k"), F.sha2(F.col("id").cast("string"), 256).alias("w")
    )
    rows.write.parquet(str(path))
    return path


def totals(env: Environment, orders: Path) -> DataFrame:
    """A query with two shuffles, one above the other."""
    read = env.read.parquet(str(orders))
    counts = read.groupBy("k").agg(F.count("*").alias("n"), F.max("w").alias("m"))
    return read.join(counts, "k").groupBy("n").agg(F.sum("id").alias("s"), F.max("m").alias("m"))


def result_of(env: Environment) -> JobExecutionResult:
    assert env.last_job_result is not None
    return env.last_job_result


def outcomes(env: Environment) -> Counter[VertexOutcome]:
    return Counter(vertex.outcome for vertex in result_of(env).vertices)


def rows_of(rows: list[Row]) -> Counter[str]:
    return Counter(map(repr, rows))


def left_in_the_middle(query: DataFrame) -> Iterator[Row]:
    """A start of the query's job that has run its vertices, and stands still."""
    rows: Iterator[Row] = query.toLocalIterator()
    next(rows)
    return rows


def taken(query: DataFrame) -> list[Row]:
    """All rows of a job that is the same one as that of `left_in_the_middle`."""
    return list(query.toLocalIterator())


def is_empty(directory: Path) -> bool:
    return not any(path.is_file() for path in directory.rglob("*.parquet"))


def test_a_job_without_failure_gives_its_rows_and_leaves_nothing(
    start: Start, orders: Path, tmp_path: Path, spark: SparkSession
) -> None:
    env = start()
    rows = totals(env, orders).collect()
    assert outcomes(env)[VertexOutcome.PRODUCED] >= 1
    assert result_of(env).vertices[0].recovered == 0
    assert is_empty(tmp_path / "store")
    assert not list((tmp_path / "ha").glob("job-*"))
    env.close()
    plain = Environment(spark)
    assert rows_of(rows) == rows_of(totals(plain, orders).collect())
    plain.close()


def test_a_second_start_runs_no_map_task_that_the_first_has_run(
    start: Start, orders: Path, tmp_path: Path, spark: SparkSession
) -> None:
    first, second = start(), start()
    held = left_in_the_middle(totals(first, orders))
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    kept = list((tmp_path / "store").rglob("shuffles/*/*.index"))
    assert kept
    rows = taken(totals(second, orders))
    answer = result_of(second).vertices[-1]
    assert answer.recovered_tasks
    assert f"{answer.recovered_tasks} tasks were completed by an earlier start" in repr(
        result_of(second)
    )
    assert not list((tmp_path / "store").rglob("*.index"))
    plain = Environment(spark)
    assert rows_of(rows) == rows_of(totals(plain, orders).collect())
    plain.close()
    held.close()  # type: ignore[attr-defined]


def test_where_shuffle_files_can_t_be_kept_more_is_cut(
    start: Start, orders: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def query(env: Environment) -> DataFrame:
        some = env.read.parquet(str(orders)).where("k < 9")
        return some.groupBy("w").agg(F.max("id").alias("id")).groupBy("id").count()

    usual = start()
    expected = rows_of(query(usual).collect())
    assert not caplog.text
    first, second = (start(**{DIRECTORY: str(elsewhere)}) for _ in range(2))
    held = left_in_the_middle(query(first))
    assert rows_of(taken(query(second))) == expected
    cut, usually = (outcomes(each).total() for each in (second, usual))
    assert cut > usually
    assert outcomes(second)[VertexOutcome.RECOVERED] == cut - 1
    held.close()  # type: ignore[attr-defined]
    assert "must be on the same file system as spark.local.dir" in caplog.text


def test_a_second_start_reads_what_the_first_has_finished(start: Start, orders: Path) -> None:
    first, second = start(), start()
    held = left_in_the_middle(totals(first, orders))
    rows = taken(totals(second, orders))
    ends = outcomes(second)
    assert ends[VertexOutcome.RECOVERED] >= 1
    assert ends[VertexOutcome.PRODUCED] == 0
    with pytest.raises((HoldfastError, StopIteration)):
        while True:
            next(held)
    assert rows_of(rows) == rows_of(totals(start(**{ENABLED: False}), orders).collect())


def test_the_result_says_how_much_was_recovered(start: Start, orders: Path) -> None:
    held = left_in_the_middle(totals(start(), orders))
    second = start()
    taken(totals(second, orders))
    recovered = [
        vertex for vertex in result_of(second).vertices if vertex.outcome is VertexOutcome.RECOVERED
    ]
    assert recovered
    assert all(vertex.recovered == vertex.partitions for vertex in recovered)
    assert "recovered" in repr(result_of(second))
    held.close()  # type: ignore[attr-defined]


def test_files_that_came_since_do_not_change_a_job_half_done(
    start: Start, orders: Path, spark: SparkSession
) -> None:
    before = rows_of(totals(start(**{ENABLED: False}), orders).collect())
    held = left_in_the_middle(totals(start(), orders))
    more = spark.range(10_000, 10_050).select("id", F.col("id").alias("k"), F.lit("z").alias("w"))
    more.coalesce(1).write.mode("append").parquet(str(orders))
    second = start()
    assert rows_of(taken(totals(second, orders))) == before
    assert outcomes(second)[VertexOutcome.RECOVERED] >= 1
    # The job has ended; the next one sees them.
    assert rows_of(taken(totals(second, orders))) != before
    held.close()  # type: ignore[attr-defined]


def test_files_that_changed_make_the_job_begin_anew(
    start: Start, orders: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    held = left_in_the_middle(totals(start(), orders))
    rows = spark.range(0, 10, 1, 1).select("id", F.col("id").alias("k"), F.lit("z").alias("w"))
    rows.write.mode("overwrite").parquet(str(orders))
    second = start()
    with caplog.at_level(logging.WARNING):
        found = taken(totals(second, orders))
    assert "rerun from scratch" in caplog.text
    assert outcomes(second)[VertexOutcome.RECOVERED] == 0
    assert rows_of(found) == rows_of(totals(start(**{ENABLED: False}), orders).collect())
    held.close()  # type: ignore[attr-defined]


def test_a_program_that_changed_recovers_what_is_unchanged(start: Start, orders: Path) -> None:
    def changed(env: Environment) -> DataFrame:
        return totals(env, orders).where("s >= 0").withColumn("added", F.lit(1))

    held = left_in_the_middle(totals(start(**{NAME: "nightly"}), orders))
    second = start(**{NAME: "nightly"})
    rows = list(changed(second).toLocalIterator())
    assert outcomes(second)[VertexOutcome.RECOVERED] >= 1
    assert rows_of(rows) == rows_of(changed(start(**{ENABLED: False})).collect())
    held.close()  # type: ignore[attr-defined]


def test_what_is_cached_outlives_the_job_and_is_found_again(start: Start, orders: Path) -> None:
    def counts(env: Environment) -> Any:
        return env.read.parquet(str(orders)).groupBy("k").agg(F.count("*").alias("n")).cache()

    first, second = start(), start()
    held = left_in_the_middle(counts(first).where("k < 40"))
    hot = counts(second)
    rows = list(hot.where("k < 40").toLocalIterator())
    assert len(rows) == 40
    assert outcomes(second)[VertexOutcome.RECOVERED] >= 1
    assert hot.where("k = 7").collect() == [Row(k=7, n=60)]
    assert outcomes(second)[VertexOutcome.READ] == 1
    held.close()  # type: ignore[attr-defined]


def test_what_is_cached_is_recovered_where_nothing_is_worth_cutting(
    start: Start, orders: Path
) -> None:
    def evens(env: Environment) -> Any:
        return env.read.parquet(str(orders)).where("id % 2 = 0").cache()

    first, second, third = start(), start(), start()
    held = left_in_the_middle(evens(first).where("k < 40"))
    rows = list(evens(second).where("k < 40").toLocalIterator())
    assert outcomes(second) == {VertexOutcome.RECOVERED: 1, VertexOutcome.RUN: 1}
    assert rows_of(rows) == rows_of(evens(third).where("k < 40").collect())
    assert outcomes(third)[VertexOutcome.RECOVERED] == 0
    held.close()  # type: ignore[attr-defined]


def test_a_job_keeps_nothing_of_the_settings_that_its_query_ran_under_before(
    start: Start, orders: Path, spark: SparkSession, settings: Any
) -> None:
    key, env = "spark.sql.jsonGenerator.ignoreNullFields", start()
    spark.read.parquet(str(orders)).createOrReplaceTempView("orders_by_k")
    text = (
        "SELECT to_json(struct(k, nullif(k, 7) AS o)) AS r, count(*) AS n "
        "FROM orders_by_k GROUP BY 1"
    )
    with settings({key: "false"}):
        hot = env.sql(text).cache()
        old = rows_of(hot.collect())
    with settings({key: "true"}):
        expected = rows_of(spark.sql(text).collect())
        assert expected != old
        assert rows_of(hot.collect()) == expected
        assert outcomes(env)[VertexOutcome.PRODUCED] >= 1
        assert rows_of(env.sql(text).collect()) == expected
        assert outcomes(env)[VertexOutcome.READ] == 1
    spark.catalog.dropTempView("orders_by_k")


def test_a_job_keeps_nothing_of_what_spark_has_cached(
    start: Start, orders: Path, spark: SparkSession
) -> None:
    held = spark.read.parquet(str(orders)).cache()
    held.count()
    first = min(orders.glob("*.parquet"))
    first.unlink()
    env = start()

    def counts() -> DataFrame:
        return totals(env, orders).union(env.sql("SELECT 1L, 2L, 'three'"))

    counts().cache().collect()
    assert outcomes(env)[VertexOutcome.PRODUCED] >= 2
    held.unpersist(blocking=True)
    assert rows_of(counts().collect()) == rows_of(
        totals(start(**{ENABLED: False}), orders).collect()
    ) + Counter({"Row(n=1, s=2, m='three')": 1})
    assert outcomes(env)[VertexOutcome.READ] == 1


def test_streams_are_recovered(start: Start) -> None:
    def sums(env: Environment) -> Any:
        pairs = env.from_collection(range(2000)).map(lambda i: (i % 10, i))
        return pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))

    first, second = start(), start()
    held = sums(first).execute_and_collect()
    # All of them, as Spark's tasks wait for room until they are taken.
    assert len([next(held) for _ in range(10)]) == 10
    with sums(second).execute_and_collect() as records:
        found = sorted(records)
    assert found == [(k, sum(range(k, 2000, 10))) for k in range(10)]
    assert outcomes(second)[VertexOutcome.RECOVERED] == 1
    held.close()


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
def test_rows_are_those_of_plain_spark(
    start: Start, orders: Path, spark: SparkSession, query: str
) -> None:
    spark.read.parquet(str(orders)).createOrReplaceTempView("o")
    env = start()
    found, expected = env.sql(query).collect(), spark.sql(query).collect()
    assert rows_of(found) == rows_of(expected)
    if "ORDER BY k" in query:
        assert found == expected


def test_an_error_of_the_query_is_its_own_and_ends_the_job(
    start: Start, orders: Path, tmp_path: Path
) -> None:
    env = start()
    failing = totals(env, orders).select(F.expr("s / (n - n)"))
    with pytest.raises(ArithmeticException):
        failing.collect()
    assert is_empty(tmp_path / "store")
    assert not list((tmp_path / "ha").glob("job-*"))


def test_lost_partitions_are_computed_again(start: Start, orders: Path, tmp_path: Path) -> None:
    expected = rows_of(totals(start(**{ENABLED: False}), orders).collect())
    held = left_in_the_middle(totals(start(), orders))
    for file in (tmp_path / "store").rglob("part-*.parquet"):
        file.unlink()
    second = start()
    assert rows_of(taken(totals(second, orders))) == expected
    assert outcomes(second)[VertexOutcome.RECOVERED] == 0
    held.close()  # type: ignore[attr-defined]


def test_a_job_goes_on_where_it_can_t_be_recorded(
    start: Start, orders: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = start()
    (tmp_path / "ha").rename(tmp_path / "gone")
    (tmp_path / "ha").touch()
    with caplog.at_level(logging.WARNING):
        rows = totals(env, orders).collect()
    assert "continues unrecorded" in caplog.text
    assert rows_of(rows) == rows_of(totals(start(**{ENABLED: False}), orders).collect())
    (tmp_path / "ha").unlink()


def test_recovery_takes_a_place_to_record_jobs_in(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="storageDir"):
        Environment(spark, config={ENABLED: True})
    (tmp_path / "file").touch()
    with pytest.raises(StorageError):
        Environment(spark, config={ENABLED: True, STORAGE_DIR: str(tmp_path / "file")})


def test_a_job_that_can_t_be_told_from_others_says_so(
    start: Start, spark: SparkSession, caplog: pytest.LogCaptureFixture, orders: Path
) -> None:
    env = start()
    unknown = env.from_dataframe(spark.createDataFrame(spark.sparkContext.parallelize([(1, 2)])))
    joined = totals(env, orders).crossJoin(unknown)
    with caplog.at_level(logging.WARNING):
        assert joined.count() >= 1
    assert "pipeline.name" in caplog.text
