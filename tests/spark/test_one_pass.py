"""The first job that needs a cached table keeps it while its rows flow on: in one Spark job."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment, VertexOutcome
from holdfast.api.table import Table
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.plan.reasons import Why
from holdfast.spark.failures import is_cancelled
from holdfast.spark.one_pass import OnePass
from holdfast.spark.program_environment import program_environment
from holdfast.spark.task_classes import ship
from tests.short_lived_jvm import environment_of_program

pytestmark = pytest.mark.usefixtures("interpreted")

NOT_KEPT, PRODUCED, READ, RUN = (
    VertexOutcome.NOT_KEPT,
    VertexOutcome.PRODUCED,
    VertexOutcome.READ,
    VertexOutcome.RUN,
)
ZONE = "spark.sql.session.timeZone"
ODD = {
    "empty": "SELECT id, id * 2 AS twice FROM range(0, 10, 1, 3) WHERE id > 99",
    "one row": "SELECT 1 AS a, 'x' AS b",
    "some partitions empty": "SELECT id FROM range(0, 100, 1, 7) WHERE id BETWEEN 40 AND 45",
    "all kinds": "SELECT *, d * -1 AS e FROM trips",
    "the same name twice": "SELECT a, b AS a, st AS `a.b` FROM trips",
    "fields of the same name": "SELECT named_struct('x', a, 'X', b, 'x', c) AS s, a FROM trips",
    "intervals and nulls": "SELECT INTERVAL 1 DAY AS i, b, array(NULL, a) AS n FROM trips",
    "a collation": "SELECT c COLLATE UTF8_LCASE AS c, array(c COLLATE UNICODE) AS l FROM trips",
    "many partitions": "SELECT id % 5 AS k, id FROM range(0, 1000, 1, 60)",
    "in order": "SELECT * FROM range(0, 500, 1, 5) ORDER BY id % 7, id DESC",
    "in order within": "SELECT * FROM (SELECT * FROM range(0, 500, 1, 5) SORT BY id % 7, id)",
    "names kept": "SELECT CAST(id AS bigint) AS id, id % 7 AS k FROM range(0, 50, 1, 3)",
    "a join": "SELECT a, b, e FROM trips JOIN riders USING (a)",
    "windows": "SELECT a, b, row_number() OVER (PARTITION BY c ORDER BY a, b, i) AS n FROM trips",
}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[OnePass]:
    """Those that have begun."""
    begun: list[OnePass] = []
    original = OnePass.__init__

    def noting(self: OnePass, *arguments: Any) -> None:
        original(self, *arguments)
        begun.append(self)

    monkeypatch.setattr(OnePass, "__init__", noting)
    return begun


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def staged(env: Environment) -> list[Path]:
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    return list(root.glob("application-*/staging/*"))


def plain(env: Environment, table: DataFrame) -> ClassicDataFrame:
    return ClassicDataFrame(table._jdf, env.spark)


def texts(df: DataFrame) -> list[str]:
    return [repr(row) for row in df.collect()]


def spark_jobs(spark: SparkSession, act: Callable[[], Any]) -> tuple[Any, int]:
    """What an action gives, and how many Spark jobs it takes."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        answer = act()
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(key, None)  # type: ignore[arg-type]
    return answer, len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def numbers(env: Environment, parts: int = 3) -> Table:
    return env.range(0, 300, 1, parts)


@pytest.mark.parametrize("query", ODD.values(), ids=ODD)
@pytest.mark.usefixtures("tables")
@pytest.mark.sampled(2)
def test_rows_are_plain_spark_s_whether_they_flow_or_are_read(
    env: Environment, passes: list[OnePass], query: str
) -> None:
    kept = env.sql(query).cache()
    expected = texts(plain(env, kept))
    in_order = "ORDER BY id" in query
    first = texts(kept)
    assert outcomes(env) == [PRODUCED, RUN]
    assert len(passes) == 1
    second = texts(kept)
    assert outcomes(env) == [READ, RUN]
    if in_order:
        assert first == expected == second
    assert sorted(first) == sorted(expected) == sorted(second)
    assert staged(env) == []


def test_rows_without_columns_flow_too(env: Environment, passes: list[OnePass]) -> None:
    kept = numbers(env).select().cache()
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]
    assert kept.count() == 300
    assert outcomes(env) == [READ, RUN]
    assert len(passes) == 1


def test_no_spark_job_is_added_and_nothing_is_read_again(
    env: Environment, passes: list[OnePass], tally: Any
) -> None:
    seen = F.udf(tally.counting(lambda n: n), "long")
    kept = numbers(env).select(seen("id").alias("id"), (F.col("id") % 3).alias("k")).cache()
    totals = kept.groupBy("k").agg(F.sum("id").alias("total"))
    expected, alone = spark_jobs(env.spark, lambda: sorted(texts(plain(env, totals))))
    before = tally.count()
    answer, jobs = spark_jobs(env.spark, lambda: sorted(texts(totals)))
    assert answer == expected
    assert outcomes(env) == [PRODUCED, RUN]
    assert (jobs, tally.count() - before) == (alone, 300)
    assert sorted(texts(totals)) == expected
    assert outcomes(env) == [READ, RUN]
    assert tally.count() - before == 300
    (listed,) = (each for each in env.list_cached() if each.dataset_id is not None)
    assert (listed.rows, listed.partitions) == (300, 3)
    assert len(passes) == 1


@pytest.mark.parametrize("way", ["count", "toPandas", "toArrow", "parquet", "csv", "noop"])
def test_every_action_that_takes_all_rows_keeps_them(
    env: Environment, passes: list[OnePass], tmp_path: Path, way: str
) -> None:
    kept = numbers(env).withColumn("k", F.col("id") % 3).cache()
    target = str(tmp_path / "written")
    if way == "noop":
        kept.write.format("noop").mode("overwrite").save()
    elif way in ("parquet", "csv"):
        getattr(kept.write, way)(target)
        assert env.spark.read.format(way).load(target).count() == 300
    else:
        got = getattr(kept, way)()
        assert (got if way == "count" else len(got)) == 300
    assert outcomes(env) == [PRODUCED, RUN]
    assert len(passes) == 1
    assert sorted(texts(kept)) == sorted(texts(plain(env, kept)))
    assert outcomes(env) == [READ, RUN]


@pytest.mark.parametrize(
    "act",
    [
        lambda t: t.first(),
        lambda t: t.limit(2).collect(),
        lambda t: t.take(2),
        lambda t: t.orderBy("id").collect(),
        lambda t: t.unionAll(t).count(),
        lambda t: t.where("id = (SELECT 5)").join(t.groupBy("id").count(), "id").count(),
        lambda t: t.write.mode("overwrite").saveAsTable("one_pass_written"),
        lambda t: list(t.toLocalIterator()),
    ],
    ids=["first", "limit", "take", "orderBy", "union", "join", "saveAsTable", "iterator"],
)
def test_others_take_two_spark_jobs(
    env: Environment, passes: list[OnePass], act: Callable[[Table], Any]
) -> None:
    kept = numbers(env).cache()
    try:
        act(kept)
        assert PRODUCED in outcomes(env)
        assert passes == []
    finally:
        env.spark.sql("DROP TABLE IF EXISTS one_pass_written")


@pytest.mark.parametrize(
    "settings_of_join",
    [
        {"spark.sql.autoBroadcastJoinThreshold": "-1"},
        {"spark.sql.autoBroadcastJoinThreshold": "10m"},
        {
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1k",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": "2k",
            "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.1",
        },
        {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"},
    ],
    ids=["sort-merge", "broadcast", "skewed", "not adaptive"],
)
def test_rows_flow_into_and_out_of_joins(
    env: Environment, passes: list[OnePass], settings: Any, settings_of_join: dict[str, str]
) -> None:
    with settings(settings_of_join):
        left = env.range(0, 3000, 1, 4).select(
            F.when(F.col("id") < 2500, 1).otherwise(F.col("id")).alias("k"), "id"
        )
        kept = left.join(env.range(5000).withColumnRenamed("id", "k"), "k").cache()
        joined = kept.join(env.range(0, 4000, 7).withColumnRenamed("id", "k"), "k", "left")
        expected = sorted(texts(plain(env, joined)))
        assert sorted(texts(joined)) == expected
        assert outcomes(env) == [PRODUCED, RUN]
        assert len(passes) == 1
        assert sorted(texts(joined)) == expected
        assert outcomes(env) == [READ, RUN]
        assert sorted(texts(kept)) == sorted(texts(plain(env, kept)))


def test_of_cached_tables_in_each_other_the_outer_one_flows(
    env: Environment, passes: list[OnePass]
) -> None:
    inner = numbers(env).withColumn("k", F.col("id") % 3).cache()
    outer = inner.groupBy("k").count().cache()
    expected = sorted(texts(plain(env, outer)))
    assert sorted(texts(outer)) == expected
    assert outcomes(env) == [PRODUCED, PRODUCED, RUN]
    assert len(passes) == 1
    assert sorted(texts(outer)) == expected
    assert outcomes(env) == [READ, RUN]


def why_not_kept(env: Environment) -> list[str]:
    assert env.last_job_result is not None
    return [each.kind for each in env.last_job_result.vertices[0].reasons]


def test_what_spark_does_not_need_is_not_kept_and_the_next_job_keeps_it_first(
    env: Environment, passes: list[OnePass], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="holdfast")
    kept = numbers(env).withColumn("k", F.col("id") % 3).cache()
    # That there is nothing to join with is found out on the way.
    nothing = env.range(10).where("id % 2 = 7").groupBy("id").count()
    with_nothing = nothing.join(kept, "id")
    assert with_nothing.collect() == []
    if outcomes(env) == [NOT_KEPT, RUN]:
        assert why_not_kept(env) == [Why.NOT_ALL_ROWS.name]
        assert not [each for each in caplog.records if each.levelno >= logging.WARNING]
        assert staged(env) == []
        assert with_nothing.collect() == []
        assert len(passes) == 1
    assert PRODUCED in outcomes(env)
    assert kept.count() == 300
    assert outcomes(env) == [READ, RUN]


def test_an_error_that_plain_spark_does_not_meet_is_not_met(
    env: Environment, passes: list[OnePass]
) -> None:
    def fail(value: int) -> int:
        raise ValueError(value)

    kept = numbers(env).withColumn("bad", F.udf(fail, "long")("id")).cache()
    assert kept.select("id").count() == 300
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert len(passes) == 1
    assert staged(env) == []
    assert kept.select("id").count() == 300
    assert len(passes) == 1


def test_an_error_of_the_answer_is_raised(env: Environment, passes: list[OnePass]) -> None:
    def fail(value: int) -> int:
        raise ValueError("above")

    kept = numbers(env).withColumn("k", F.col("id") % 3).cache()
    with pytest.raises(PySparkException, match="above"):
        kept.select(F.udf(fail, "long")("k")).collect()
    assert len(passes) == 1
    assert staged(env) == []
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]
    # What is above another part has nothing to do with it, but nobody knows.
    assert len(passes) == 1


def test_rows_flow_on_where_they_cannot_be_written(
    env: Environment, passes: list[OnePass], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = OnePass.__init__

    def spoiled(self: OnePass, *arguments: Any) -> None:
        original(self, *arguments)
        directory = self._staged.directory / "_temporary"
        directory.write_text("no directory")

    monkeypatch.setattr(OnePass, "__init__", spoiled)
    kept = numbers(env).withColumn("k", F.col("id") % 3).cache()
    assert sorted(texts(kept)) == sorted(texts(plain(env, kept)))
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert why_not_kept(env) == [Why.NOT_WRITTEN.name]
    assert staged(env) == []
    monkeypatch.undo()
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]


@pytest.fixture
def slow(tmp_path: Path) -> Callable[[Any], Any]:
    """A function that says by a file that it runs, and then waits for somebody to listen.

    One that knows of the clock, or of what is in files, would be doubted.
    """
    started, listened = str(tmp_path / "started"), str(tmp_path / "listened")
    os.mkfifo(listened)

    def waiting(value: int) -> int:
        open(started, "a").close()
        open(listened, "a").close()
        return value

    return waiting


@pytest.fixture
def while_it_runs(tmp_path: Path) -> Iterator[Callable[[Callable[[], Any], Any], Any]]:
    """Takes an action that `slow` is a part of, and what is to happen meanwhile."""
    listeners: list[int] = []

    def both(act: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(act()))
        thread.start()
        while not (tmp_path / "started").exists():
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            meanwhile()
        finally:
            listeners.append(os.open(tmp_path / "listened", os.O_RDONLY | os.O_NONBLOCK))
            thread.join()
        return answers[0] if answers else None

    yield both
    for listener in listeners:
        os.close(listener)


def test_settings_that_change_meanwhile_are_those_of_later_jobs(
    env: Environment, passes: list[OnePass], slow: Any, while_it_runs: Any, settings: Any
) -> None:
    with settings({ZONE: "UTC"}):
        kept = (
            numbers(env, 1)
            .withColumn("id", F.udf(slow, "long")("id"))
            .groupBy("id")
            .count()
            .select("id", F.date_format(F.timestamp_seconds("id"), "HH").alias("hour"))
            .cache()
        )
        rows = while_it_runs(lambda: texts(kept), lambda: env.spark.conf.set(ZONE, "Asia/Tokyo"))
        assert all("hour='00'" in row for row in rows)
        assert outcomes(env) == [PRODUCED, RUN]
        assert len(passes) == 1
        env.spark.conf.set(ZONE, "UTC")
        assert sorted(texts(kept)) == sorted(rows)
        assert outcomes(env) == [READ, RUN]


def test_what_was_read_from_files_that_change_meanwhile_is_not_kept(
    env: Environment, passes: list[OnePass], tmp_path: Path, slow: Any, while_it_runs: Any
) -> None:
    source = tmp_path / "source"
    env.spark.range(0, 50, 1, 1).write.parquet(str(source))
    (file,) = source.glob("part-*.parquet")
    kept = env.read.parquet(str(source)).withColumn("id", F.udf(slow, "long")("id")).cache()
    rows = while_it_runs(lambda: texts(kept), lambda: os.utime(file, (1, 1)))
    assert len(rows) == 50
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert len(passes) == 1
    assert staged(env) == []


def test_a_setting_of_files_that_changes_is_said(
    env: Environment, passes: list[OnePass], slow: Any, while_it_runs: Any
) -> None:
    of_files: Any = env.spark.sparkContext
    of_files = of_files._jsc.hadoopConfiguration()
    kept = numbers(env).withColumn("id", F.udf(slow, "long")("id")).cache()
    try:
        rows = while_it_runs(
            lambda: texts(kept), lambda: of_files.set("parquet.of.tests", "another")
        )
    finally:
        of_files.unset("parquet.of.tests")
    assert len(rows) == 300 and staged(env) == []
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert why_not_kept(env) == [Why.SETTING_CHANGED.name]


def test_a_cancelled_job_leaves_nothing(
    env: Environment, passes: list[OnePass], slow: Any, while_it_runs: Any
) -> None:
    kept = numbers(env).withColumn("id", F.udf(slow, "long")("id")).cache()

    def act() -> bool:
        try:
            kept.count()
        except Exception as error:
            return is_cancelled(error)
        return False

    assert while_it_runs(act, env.spark.sparkContext.cancelAllJobs)
    assert len(passes) == 1
    assert staged(env) == []
    assert kept.count() == 300
    assert outcomes(env) == [PRODUCED, RUN]


def test_of_two_threads_one_keeps_and_the_other_reads(
    env: Environment, passes: list[OnePass], slow: Any, while_it_runs: Any, tally: Any
) -> None:
    seen = F.udf(tally.counting(slow), "long")
    kept = numbers(env, 2).withColumn("id", seen("id")).cache()
    others: list[int] = []
    other = threading.Thread(target=lambda: others.append(kept.where("id >= 0").count()))
    assert while_it_runs(kept.count, other.start) == 300
    other.join()
    assert others == [300]
    assert len(passes) == 1
    assert kept.count() == 300
    assert outcomes(env) == [READ, RUN]


def test_nothing_of_it_is_seen_by_other_programs(spark: SparkSession) -> None:
    before = program_environment(spark)
    ship(spark, "KeptFormat")
    assert any("holdfast-tasks-" in jar for jar in _jars(spark))
    assert program_environment(spark) == before


def _jars(spark: SparkSession) -> Iterator[str]:
    context: Any = spark.sparkContext._jsc
    yield from str(context.sc().listJars().mkString("\n")).splitlines()


_RETRIED = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession, functions as F
from pyspark import TaskContext
from holdfast import Environment

home, where = Path(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master("local[2,4]").config("spark.sql.shuffle.partitions", "3")
    .config("spark.local.dir", str(home / "local")).config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
marks = str(home / "marks")

def once(value):
    # Half of a partition has been written by then.
    if value % 100 == 70:
        try:
            open(f"{marks}-{value}", "x").close()
        except FileExistsError:
            pass
        else:
            raise ValueError("the first attempt fails")
    return value

env = Environment(spark, config={"intermediate-result-storage.directory": str(home / "kept")})
failing = F.udf(once, "long")
kept = env.range(0, 300, 1, 3)
if where == "below":
    kept = kept.select(failing("id").alias("id"))
kept = kept.withColumn("k", F.col("id") % 7).cache()
answer = kept if where == "below" else kept.select(failing("id").alias("id"), "k")
expected = sorted((n, n % 7) for n in range(300))
assert sorted(map(tuple, answer.collect())) == expected
assert [v.outcome.value for v in env.last_job_result.vertices] == ["produced", "run"]
assert len(list(home.glob("marks-*"))) == 3
assert sorted(map(tuple, kept.collect())) == expected
assert [v.outcome.value for v in env.last_job_result.vertices] == ["read from cache", "run"]
assert not list(home.glob("kept/application-*/staging/*"))
"""


@pytest.mark.parametrize("where", ["below", "above"])
@pytest.mark.sampled(2)
def test_of_a_task_that_is_tried_again_the_attempt_that_succeeds_counts(
    tmp_path: Path, where: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RETRIED, str(tmp_path), where],
        env={**os.environ, **environment_of_program(), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
