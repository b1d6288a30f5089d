"""What is kept depends on the plan, the versions of files, and the job's settings: nothing else."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes
from tests.spark.running_jobs import SlowJob

NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
NOT_KEPT, PRODUCED, READ = VertexOutcome.NOT_KEPT, VertexOutcome.PRODUCED, VertexOutcome.READ
JSON = "SELECT to_json(struct(i, j)) AS r FROM v"
JSON_SETTINGS = {NULL_FIELDS: ("false", "true")}


def rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


@pytest.fixture
def v(spark: SparkSession) -> Iterator[None]:
    spark.sql("SELECT * FROM VALUES (1, null), (2, 3) AS t(i, j)").createOrReplaceTempView("v")
    yield
    spark.catalog.dropTempView("v")


# --- settings that expressions hold on to ---------------------------------------------------------

HOLDING = {
    "a struct as JSON": (JSON, JSON_SETTINGS),
    "in a subquery": (
        "SELECT i, (SELECT max(to_json(struct(i, j))) FROM v WHERE i = 1) AS r FROM v",
        JSON_SETTINGS,
    ),
    "in a definition": (
        f"WITH a AS ({JSON}), b AS (SELECT r FROM a) SELECT * FROM b UNION ALL SELECT * FROM a",
        JSON_SETTINGS,
    ),
    "below an aggregate": (f"SELECT r, count(*) AS n FROM ({JSON}) GROUP BY r", JSON_SETTINGS),
    "a time as a text": (
        "SELECT date_format(timestamp_seconds(i), 'yyyy-MM-dd HH') AS r FROM v",
        {ZONE: ("UTC", "Asia/Tokyo")},
    ),
    "a time that old rules read": (
        "SELECT to_timestamp('2020-1-1', 'yyyy-MM-dd') AS r, i FROM v",
        {"spark.sql.legacy.timeParserPolicy": ("LEGACY", "CORRECTED")},
    ),
}


@pytest.mark.parametrize("stays", [True, False], ids=["cached", "invalidated"])
@pytest.mark.parametrize(("query", "values"), HOLDING.values(), ids=HOLDING.keys())
@pytest.mark.sampled(5)
def test_what_ran_under_other_settings_is_not_produced_from(
    env: Environment,
    spark: SparkSession,
    v: None,
    settings: Any,
    query: str,
    values: dict[str, tuple[str, str]],
    stays: bool,
) -> None:
    with settings({key: both[0] for key, both in values.items()} | {ANSI: "false"}):
        table = env.sql(query).cache()
        old = rows(table)
        # The expressions of the one that is cached have run under these settings.
        assert rows(table.to_dataframe()) == old
        if not stays:
            table.invalidate_cache()
    with settings({key: both[1] for key, both in values.items()} | {ANSI: "false"}):
        new = rows(spark.sql(query))
        assert new != old
        # A session's time zone is an argument of what needs it, since the analysis.
        if stays and ZONE not in values:
            table.count()
        else:
            assert rows(env.sql(query).cache()) == new
        assert PRODUCED in outcomes(env)
        assert rows(env.sql(query)) == new
        assert READ in outcomes(env)
        assert rows(env.sql(f"SELECT * FROM ({query})")) == new


def test_odd_plans_are_kept_as_they_run(
    env: Environment, spark: SparkSession, v: None, tmp_path: Path
) -> None:
    path = str(tmp_path / "p")
    spark.range(20).selectExpr("id", "id % 3 AS k").write.partitionBy("k").parquet(path)
    read = spark.read.parquet(path)
    read.createOrReplaceTempView("parts")
    frames = [
        *map(
            spark.sql,
            (
                "SELECT t.i, l.y FROM v t, LATERAL (SELECT t.i + 1 AS y) l",
                "SELECT i, explode(sequence(1, i)) AS e FROM v",
                "SELECT DISTINCT k FROM parts WHERE k > 0 AND id < 15 ORDER BY k LIMIT 2",
                "SELECT transform(array(i, j), x -> x + 1) AS a, map('k', i) AS m FROM v",
                "SELECT i, j, count(*) AS n FROM v GROUP BY GROUPING SETS ((i), (j), ())",
                "SELECT * FROM v WHERE i IN (SELECT k FROM parts) AND EXISTS (SELECT 1)",
                "SELECT * FROM (SELECT i, j FROM v) PIVOT (sum(j) FOR i IN (1, 2))",
            ),
        ),
        read.select("id", "_metadata.file_size").where("k = 1"),
        spark.createDataFrame(spark.sparkContext.parallelize([(1, 2.0)]), "a int, b double"),
        read.withColumn("u", F.udf(lambda value: value * 2, "long")("id")),
        read.groupBy("k").agg(F.collect_set("id").alias("ids"), F.expr("mode(id)")).join(read, "k"),
        read.sample(0.5, seed=3).dropDuplicates(["k"]).unpivot("k", ["id"], "name", "value"),
    ]
    for frame in frames:
        kept, expected = env.from_dataframe(frame).cache(), rows(frame)
        for outcome in (PRODUCED, READ):
            assert rows(kept) == expected
            assert outcome in outcomes(env)
        assert kept.columns == frame.columns
    spark.catalog.dropTempView("parts")


# --- settings that others change ------------------------------------------------------------------


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowJob]:
    with SlowJob(tmp_path) as job:
        yield job


def slow_json(env: Environment, slow: SlowJob) -> Any:
    slowly = env.table("v").withColumn("i", F.udf(slow.function, "int")("i"))
    return slowly.selectExpr("to_json(struct(i, j)) AS r")


def test_settings_that_change_while_a_job_runs_are_those_of_later_jobs(
    env: Environment, spark: SparkSession, v: None, settings: Any, slow: SlowJob
) -> None:
    with settings({NULL_FIELDS: "false"}):
        before = rows(spark.sql(JSON))
        table = slow_json(env, slow).cache()
        slow.run(table.collect, lambda: spark.conf.set(NULL_FIELDS, "true"))
        assert PRODUCED in outcomes(env)
        assert rows(slow_json(env, slow)) == rows(spark.sql(JSON)) != before
        assert PRODUCED in outcomes(env)
        spark.conf.set(NULL_FIELDS, "false")
        assert rows(slow_json(env, slow)) == before
        assert READ in outcomes(env)


def test_what_is_observed_is_not_kept_where_a_setting_changes_meanwhile(
    env: Environment, spark: SparkSession, v: None, settings: Any, slow: SlowJob
) -> None:
    with settings({NULL_FIELDS: "false"}):
        observation = Observation()
        seen = slow_json(env, slow).observe(observation, F.count(F.lit(1)).alias("n")).cache()
        slow.run(seen.collect, lambda: spark.conf.set(NULL_FIELDS, "true"))
        assert outcomes(env)[0] is NOT_KEPT
        assert observation.get == {"n": 2}


TIMES = 4


def malformed(session: Any, path: str) -> Any:
    read = session.read.schema("i int, s string").option("mode", "DROPMALFORMED")
    return read.csv(path).select("s")


@pytest.mark.parametrize(
    ("key", "query"),
    [
        (NULL_FIELDS, lambda session, path: session.sql(JSON)),
        ("spark.sql.csv.parser.columnPruning.enabled", malformed),
    ],
    ids=["expressions", "readers"],
)
def test_settings_that_are_changed_all_the_time_make_no_wrong_hit(
    env: Environment,
    spark: SparkSession,
    v: None,
    settings: Any,
    tmp_path: Path,
    key: str,
    query: Callable[[Any, str], Any],
) -> None:
    path, stop = str(tmp_path / "bad.csv"), threading.Event()
    (tmp_path / "bad.csv").write_text("1,a\n2,b,c\n")

    def flip() -> None:
        while not stop.is_set():
            for value in ("true", "false"):
                spark.conf.set(key, value)
                time.sleep(0.01)

    with settings({key: "false"}):
        flipping = threading.Thread(target=flip)
        flipping.start()
        try:
            for number in range(TIMES):
                query(env, path).withColumn("n", F.lit(number)).cache().count()
        finally:
            stop.set()
            flipping.join()
        found = []
        for value in ("true", "false"):
            spark.conf.set(key, value)
            found.append(rows(query(spark, path)))
            for number in range(TIMES):
                numbered = query(env, path).withColumn("n", F.lit(number))
                assert rows(numbered.drop("n")) == found[-1]
        assert found[0] != found[1]


# --- what Spark has cached ------------------------------------------------------------------------


def replace(spark: SparkSession, path: Path, values: str) -> None:
    """Other files take the place of a directory's, which Spark doesn't see."""
    other = path.with_name(uuid.uuid4().hex)
    spark.sql(f"SELECT * FROM VALUES {values} AS t(a)").coalesce(1).write.parquet(str(other))
    path.mkdir(exist_ok=True)
    for each in path.glob("*.parquet"):
        each.unlink()
    for each in other.glob("*.parquet"):
        each.rename(path / each.name)


CACHED_BY_SPARK: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "files": lambda spark, path: spark.read.parquet(path),
    "above files": lambda spark, path: spark.read.parquet(path).where("a > 0").groupBy("a").count(),
    "a view": lambda spark, path: spark.table("stale"),
    "in a subquery": lambda spark, path: spark.sql(
        f"SELECT (SELECT max(a) FROM parquet.`{path}`) AS m"
    ),
    "in a definition": lambda spark, path: spark.sql(
        f"WITH d AS (SELECT a FROM parquet.`{path}`) SELECT x.a FROM d x JOIN d y ON x.a = y.a"
    ),
    "what matches only itself": lambda spark, path: spark.read.parquet(path).withColumn(
        "t", F.current_date()
    ),
}


@pytest.mark.parametrize("query", CACHED_BY_SPARK.values(), ids=CACHED_BY_SPARK.keys())
@pytest.mark.parametrize("which", ["what is read", "all of it"])
@pytest.mark.sampled(7)
def test_what_spark_has_cached_is_not_kept_as_what_is_in_the_files(
    env: Environment,
    spark: SparkSession,
    tmp_path: Path,
    query: Callable[[SparkSession, str], DataFrame],
    which: str,
) -> None:
    path = tmp_path / "p"
    replace(spark, path, "(1), (2)")
    spark.read.parquet(str(path)).createOrReplaceTempView("stale")
    held = query(spark, str(path)) if which == "all of it" else spark.read.parquet(str(path))
    held.cache()
    try:
        held.collect()
        replace(spark, path, "(3), (4), (5)")
        spark.read.parquet(str(path)).createOrReplaceTempView("stale")
        table = env.from_dataframe(query(spark, str(path))).cache()
        table.collect()
        assert PRODUCED in outcomes(env)
    finally:
        held.unpersist(blocking=True)
    assert rows(table) == rows(query(spark, str(path)))
    # What matches only itself may be produced from the files of now.
    assert READ in outcomes(env) or "t" in table.columns
    spark.catalog.dropTempView("stale")


def test_a_table_of_the_catalog_that_spark_has_cached(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE stale_table (a INT) USING parquet LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO stale_table VALUES (1)")
        spark.sql("CACHE TABLE stale_table")
        replace(spark, path, "(7)")
        kept = env.read.parquet(str(path)).cache()
        kept.collect()
        spark.sql("UNCACHE TABLE stale_table")
        assert rows(kept) == ["Row(a=7)"]
        assert READ in outcomes(env)
    finally:
        spark.sql("DROP TABLE stale_table")


def test_what_spark_has_cached_under_other_settings_is_not_kept_under_these(
    env: Environment, spark: SparkSession, v: None, settings: Any
) -> None:
    with settings({NULL_FIELDS: "false"}):
        held = spark.sql(JSON).cache()
        held.collect()
    with settings({NULL_FIELDS: "true"}):
        env.sql(JSON).cache().collect()
        assert PRODUCED in outcomes(env)
        held.unpersist(blocking=True)
        assert rows(env.sql(JSON)) == rows(spark.sql(JSON))
        assert READ in outcomes(env)


def test_what_matches_only_itself_is_kept_as_spark_has_shown_it(
    env: Environment, spark: SparkSession
) -> None:
    chance = F.udf(lambda value: uuid.uuid4().hex).asNondeterministic()
    shown = spark.range(5).withColumn("u", chance("id")).cache()
    seen = rows(shown)
    kept = env.from_dataframe(shown).cache()
    assert rows(kept) == seen
    assert rows(env.from_dataframe(shown).where("id > 2")) == seen[3:]
    assert READ in outcomes(env)
    shown.unpersist(blocking=True)
    assert rows(kept) == seen


# --- ids of fields --------------------------------------------------------------------------------

FIELD_ID = "parquet.field.id"
INNER = StructType(
    [
        StructField("x", LongType(), True, {FIELD_ID: 5, "comment": "an id"}),
        StructField("y", LongType(), True, {FIELD_ID: 7}),
    ]
)
NESTED: dict[str, tuple[DataType, list[Any]]] = {
    "in a struct": (INNER, [(1, 2), (3, None), None]),
    "in a struct in a struct": (
        StructType([StructField("t", INNER, True, {FIELD_ID: 3})]),
        [((1, 2),), ((3, None),), (None,), None],
    ),
    "in an array": (ArrayType(INNER), [[(1, 2), (3, None)], [], None]),
    "in a map": (MapType(StringType(), INNER), [{"k": (1, 2)}, None]),
}
FLAGS = ("read.enabled", "write.enabled", "read.ignoreMissing")


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("set_", [FLAGS, FLAGS[:1], FLAGS[1:], ()], ids=len)
@pytest.mark.sampled(7)
def test_fields_with_ids_are_kept_and_found(
    env: Environment, spark: SparkSession, settings: Any, nested: str, set_: tuple[str, ...]
) -> None:
    with settings({f"spark.sql.parquet.fieldId.{each}": str(each in set_) for each in FLAGS}):
        data_type, values = NESTED[nested]
        column = StructField("s", data_type, True, {FIELD_ID: 1})
        frame = spark.createDataFrame([(each,) for each in values], StructType([column]))
        table: Any = env.from_dataframe(frame).cache()
        for outcome in (PRODUCED, READ):
            assert rows(table) == rows(frame)
            assert outcomes(env)[0] is outcome
        assert env.last_job_result is not None and not env.last_job_result.losses
        assert table.to_dataframe().schema == frame.schema
        if nested == "in a struct":
            assert rows(table.where("s.x > 1").select("s.x")) == ["Row(x=3)"]
