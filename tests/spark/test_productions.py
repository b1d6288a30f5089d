"""What is kept depends on the plan, the versions of files, and the job's settings: nothing else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.fresh_plans import FreshPlans
from holdfast.spark.session_settings import session_inputs, session_under

pytestmark = pytest.mark.usefixtures("interpreted")

NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"


def outcomes(env: Environment) -> list[VertexOutcome]:
    result = env.last_job_result
    assert result is not None
    return [vertex.outcome for vertex in result.vertices]


def rows(table: DataFrame) -> list[str]:
    return sorted(repr(row) for row in table.collect())


def plain(env: Environment, query: str) -> list[str]:
    return rows(ClassicDataFrame(env.spark.sql(query)._jdf, env.spark))


@pytest.fixture
def v(spark: SparkSession) -> Iterator[None]:
    spark.sql("SELECT * FROM VALUES (1, null), (2, 3) AS t(i, j)").createOrReplaceTempView("v")
    yield
    spark.catalog.dropTempView("v")


# --- settings that expressions hold on to ---------------------------------------------------------

HOLDING = {
    "a struct as JSON": (
        "SELECT to_json(struct(i, j)) AS r FROM v",
        {NULL_FIELDS: ("false", "true")},
    ),
    "in a subquery": (
        "SELECT i, (SELECT max(to_json(struct(i, j))) FROM v WHERE i = 1) AS r FROM v",
        {NULL_FIELDS: ("false", "true")},
    ),
    "in a definition": (
        "WITH a AS (SELECT to_json(struct(i, j)) AS r FROM v), b AS (SELECT r FROM a) "
        "SELECT * FROM b UNION ALL SELECT * FROM a",
        {NULL_FIELDS: ("false", "true")},
    ),
    "below an aggregate": (
        "SELECT r, count(*) AS n FROM (SELECT to_json(struct(i, j)) AS r FROM v) GROUP BY r",
        {NULL_FIELDS: ("false", "true")},
    ),
    "a time as a text": (
        "SELECT date_format(timestamp_seconds(i), 'yyyy-MM-dd HH') AS r FROM v",
        {ZONE: ("UTC", "Asia/Tokyo")},
    ),
    "a time that old rules read": (
        "SELECT to_timestamp('2020-1-1', 'yyyy-MM-dd') AS r, i FROM v",
        {"spark.sql.legacy.timeParserPolicy": ("LEGACY", "CORRECTED")},
    ),
}


@pytest.mark.parametrize(("query", "values"), HOLDING.values(), ids=HOLDING.keys())
def test_what_ran_under_other_settings_is_not_produced_from(
    env: Environment, v: None, settings: Any, query: str, values: dict[str, tuple[str, str]]
) -> None:
    before = {key: both[0] for key, both in values.items()}
    after = {key: both[1] for key, both in values.items()} | {ANSI: "false"}
    with settings(before | {ANSI: "false"}):
        table = env.sql(query).cache()
        old = rows(table)
        assert VertexOutcome.PRODUCED in outcomes(env)
        # The expressions of the one who cached it have run under these settings.
        assert rows(table.to_dataframe()) == old
        table.invalidate_cache()
        ClassicDataFrame(table._jdf, env.spark).collect()
    with settings(after):
        new = plain(env, query)
        assert new != old
        assert rows(env.sql(query).cache()) == new
        assert VertexOutcome.PRODUCED in outcomes(env)
        assert rows(env.sql(query)) == new
        assert VertexOutcome.READ in outcomes(env)
        assert rows(env.sql(f"SELECT * FROM ({query})")) == new


# A session's time zone is an argument of what needs it, since the analysis.
HOLDING_ALONE = {name: each for name, each in HOLDING.items() if ZONE not in each[1]}


@pytest.mark.parametrize(("query", "values"), HOLDING_ALONE.values(), ids=HOLDING_ALONE.keys())
def test_the_cached_object_itself_is_produced_under_the_settings_of_its_job(
    env: Environment, v: None, settings: Any, query: str, values: dict[str, tuple[str, str]]
) -> None:
    before = {key: both[0] for key, both in values.items()}
    after = {key: both[1] for key, both in values.items()} | {ANSI: "false"}
    with settings(before | {ANSI: "false"}):
        table = env.sql(query).cache()
        table.collect()
    with settings(after):
        expected = plain(env, query)
        # It is what jobs of the same query find.
        table.count()
        assert VertexOutcome.PRODUCED in outcomes(env)
        assert rows(env.sql(query)) == expected
        assert VertexOutcome.PRODUCED not in outcomes(env)


def test_a_copy_runs_as_its_plan_does(spark: SparkSession, v: None, tmp_path: Path) -> None:
    spark.range(20).selectExpr("id", "id % 3 AS k").write.partitionBy("k").parquet(
        str(tmp_path / "p")
    )
    read = spark.read.parquet(str(tmp_path / "p"))
    read.createOrReplaceTempView("parts")
    frames = [
        spark.sql("SELECT t.i, l.y FROM v t, LATERAL (SELECT t.i + 1 AS y) l"),
        spark.sql("SELECT i, explode(sequence(1, i)) AS e FROM v"),
        spark.sql("SELECT DISTINCT k FROM parts WHERE k > 0 AND id < 15 ORDER BY k LIMIT 2"),
        spark.sql("SELECT k, rank() OVER (PARTITION BY k ORDER BY id) AS r FROM parts"),
        spark.sql("SELECT transform(array(i, j), x -> x + 1) AS a, map('k', i) AS m FROM v"),
        spark.sql("SELECT CASE WHEN i = 1 THEN 'a' WHEN j = 3 THEN 'b' END AS c FROM v"),
        spark.sql("SELECT i, j, count(*) AS n FROM v GROUP BY GROUPING SETS ((i), (j), ())"),
        spark.sql("SELECT * FROM v WHERE i IN (SELECT k FROM parts) AND EXISTS (SELECT 1)"),
        spark.sql("SELECT (SELECT 1) AS one, 2 AS two"),
        spark.sql("SELECT * FROM (SELECT i, j FROM v) PIVOT (sum(j) FOR i IN (1, 2))"),
        read.select("id", "_metadata.file_size").where("k = 1"),
        spark.range(0, 40, 1, 5).where("id > 3").union(spark.range(7)).repartition(3, "id"),
        spark.createDataFrame(
            spark.sparkContext.parallelize([(1, 2.0), (2, 3.0)]), "a int, b double"
        ),
        read.withColumn("u", F.udf(lambda value: value * 2, "long")("id")),
        read.groupBy("k").agg(F.collect_set("id").alias("ids"), F.expr("mode(id)")).join(read, "k"),
        read.sample(0.5, seed=3).dropDuplicates(["k"]).unpivot("k", ["id"], "name", "value"),
    ]
    owner = spark._jsparkSession
    of_rows = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows  # type: ignore[union-attr]
    for frame in frames:
        session = session_under(spark, session_inputs(spark))
        plan = frame._jdf.queryExecution().analyzed()
        for copy in (
            FreshPlans.of(spark).copied(plan, session),
            FreshPlans.of(spark).detached(plan, owner, session),
        ):
            made = ClassicDataFrame(of_rows(session, copy), spark)
            assert made.columns == frame.columns
            assert rows(made) == rows(frame)
            assert made.rdd.getNumPartitions() == frame.rdd.getNumPartitions()
            optimized = made._jdf.queryExecution().optimizedPlan()
            as_it_was = frame._jdf.queryExecution().optimizedPlan()
            kinds = [node.split("(")[0].split(" ")[0] for node in optimized.toString().split("\n")]
            assert "holdfast" not in optimized.toString()
            assert kinds == [
                node.split("(")[0].split(" ")[0] for node in as_it_was.toString().split("\n")
            ]
    spark.catalog.dropTempView("parts")


# --- settings that others change ------------------------------------------------------------------


class Meddler:
    """Changes a setting at a moment of the job that a test chooses."""

    def __init__(self, spark: SparkSession, values: dict[str, str]) -> None:
        self._spark = spark
        self._values = values
        self.times = 0

    def now(self) -> None:
        def change() -> None:
            for key, value in self._values.items():
                self._spark.conf.set(key, value)

        self.times += 1
        other = threading.Thread(target=change)
        other.start()
        other.join()


def at(
    monkeypatch: pytest.MonkeyPatch, env: Environment, method: str, step: Callable[[], None]
) -> None:
    """Has a step taken right before a method of the engine's runs."""
    runner = env._master._runner
    whole = getattr(type(runner), method)

    def stepping(self: Any, *args: Any, **kwargs: Any) -> Any:
        step()
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(type(runner), method, stepping)


def in_one_job(table: DataFrame) -> None:
    """Has what is cached kept while it is read."""
    table.collect()


def in_two_jobs(table: DataFrame) -> None:
    """Has what is cached kept before it is read: of the last rows alone nothing could be kept."""
    table.tail(1)


@pytest.mark.parametrize(
    ("method", "act"),
    [
        ("produce", in_two_jobs),
        ("_plan", in_two_jobs),
        ("_write", in_two_jobs),
        ("_check_settings", in_two_jobs),
        ("teed", in_one_job),
        ("_plan", in_one_job),
        ("_check_settings", in_one_job),
    ],
)
def test_settings_that_change_while_a_job_runs_are_those_of_later_jobs(
    env: Environment,
    v: None,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    act: Callable[[DataFrame], object],
) -> None:
    query = "SELECT to_json(struct(i, j)) AS r FROM v"
    with settings({NULL_FIELDS: "false"}):
        before = plain(env, query)
        env.sql(query).cache()
        meddler = Meddler(env.spark, {NULL_FIELDS: "true"})
        at(monkeypatch, env, method, meddler.now)
        act(env.sql(query))
        monkeypatch.undo()
        assert meddler.times and VertexOutcome.PRODUCED in outcomes(env)
        after = plain(env, query)
        assert after != before
        assert rows(env.sql(query)) == after
        assert VertexOutcome.PRODUCED in outcomes(env)
        env.spark.conf.set(NULL_FIELDS, "false")
        assert rows(env.sql(query)) == before
        assert VertexOutcome.READ in outcomes(env)


@pytest.mark.parametrize(("method", "act"), [("_write", in_two_jobs), ("teed", in_one_job)])
def test_files_are_read_under_the_settings_of_the_job(
    env: Environment,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    method: str,
    act: Callable[[DataFrame], object],
) -> None:
    key = "spark.sql.csv.parser.columnPruning.enabled"
    (tmp_path / "bad.csv").write_text("1,a\n2,b,c\n")
    read = env.spark.read.schema("i int, s string").option("mode", "DROPMALFORMED")
    with settings({key: "false"}):
        few = rows(read.csv(str(tmp_path / "bad.csv")).select("s"))
        env.from_dataframe(read.csv(str(tmp_path / "bad.csv")).select("s")).cache()
        meddler = Meddler(env.spark, {key: "true"})
        at(monkeypatch, env, method, meddler.now)
        act(env.from_dataframe(read.csv(str(tmp_path / "bad.csv")).select("s")))
        monkeypatch.undo()
        assert meddler.times
        many = rows(read.csv(str(tmp_path / "bad.csv")).select("s"))
        assert len(many) > len(few)
        env.spark.conf.set(key, "false")
        assert rows(env.from_dataframe(read.csv(str(tmp_path / "bad.csv")).select("s"))) == few
        assert VertexOutcome.READ in outcomes(env)


def test_settings_that_are_changed_all_the_time_make_no_wrong_hit(
    env: Environment, v: None, settings: Any
) -> None:
    query = "SELECT to_json(struct(i, j)) AS r, i FROM v"
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            for value in ("true", "false"):
                env.spark.conf.set(NULL_FIELDS, value)
                time.sleep(0.01)

    with settings({NULL_FIELDS: "false"}):
        expected = {}
        for value in ("true", "false"):
            env.spark.conf.set(NULL_FIELDS, value)
            expected[value] = plain(env, query)
        flipping = threading.Thread(target=flip)
        flipping.start()
        try:
            for number in range(8):
                env.sql(f"{query} WHERE i <> {-number}").cache().count()
        finally:
            stop.set()
            flipping.join()
        for value in ("true", "false"):
            env.spark.conf.set(NULL_FIELDS, value)
            for number in range(8):
                assert rows(env.sql(f"{query} WHERE i <> {-number}")) == expected[value]


def test_what_is_observed_is_not_kept_where_a_setting_changes_meanwhile(
    env: Environment, v: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "SELECT to_json(struct(i, j)) AS r FROM v"
    with settings({NULL_FIELDS: "false"}):
        observation = Observation()
        seen = env.sql(query).observe(observation, F.count(F.lit(1)).alias("n")).cache()
        meddler = Meddler(env.spark, {NULL_FIELDS: "true"})
        at(monkeypatch, env, "_write", meddler.now)
        seen.collect()
        monkeypatch.undo()
        assert outcomes(env)[0] is VertexOutcome.NOT_KEPT
        assert observation.get == {"n": 2}


def test_a_session_is_put_under_settings(spark: SparkSession, settings: Any) -> None:
    with settings(
        {ANSI: "false", ZONE: "Asia/Tokyo", "my.own": "1", "spark.sql.shuffle.partitions": "7"}
    ):
        inputs = session_inputs(spark)
    with settings({ANSI: "true", "spark.sql.caseSensitive": "true", "my.own": "2"}):
        session = session_under(spark, inputs)
        same = ClassicDataFrame(session.range(1).toDF(), spark)
        assert session.conf().get(ANSI) == "false"
        assert session.conf().get(ZONE) == "Asia/Tokyo"
        assert session.conf().get("my.own") == "1"
        assert session.conf().get("spark.sql.caseSensitive") == "false"
        assert same.count() == 1
        assert spark.conf.get(ANSI) == "true"
    assert isinstance(inputs, SessionInputs)


# --- what Spark has cached ------------------------------------------------------------------------


def replaced(spark: SparkSession, path: Path, values: str) -> None:
    spark.sql(f"SELECT * FROM VALUES {values} AS t(a)").coalesce(1).write.mode("overwrite").parquet(
        str(path)
    )


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
}


@pytest.mark.parametrize("query", CACHED_BY_SPARK.values(), ids=CACHED_BY_SPARK.keys())
@pytest.mark.parametrize("which", ["what is read", "all of it"])
def test_what_spark_has_cached_is_not_kept_as_what_is_in_the_files(
    env: Environment,
    tmp_path: Path,
    query: Callable[[SparkSession, str], DataFrame],
    which: str,
) -> None:
    spark, path = env.spark, tmp_path / "p"
    replaced(spark, path, "(1), (2)")
    spark.read.parquet(str(path)).createOrReplaceTempView("stale")
    held = query(spark, str(path)) if which == "all of it" else spark.read.parquet(str(path))
    held.cache()
    try:
        held.collect()
        for each in path.glob("*.parquet"):
            each.unlink()
        other = tmp_path / "other"
        replaced(spark, other, "(3), (4), (5)")
        for each in other.glob("*.parquet"):
            each.rename(path / each.name)
        spark.read.parquet(str(path)).createOrReplaceTempView("stale")
        table = env.from_dataframe(query(spark, str(path))).cache()
        table.collect()
        assert VertexOutcome.PRODUCED in outcomes(env)
    finally:
        held.unpersist(blocking=True)
    expected = rows(query(spark, str(path)))
    assert rows(env.from_dataframe(query(spark, str(path)))) == expected
    assert VertexOutcome.READ in outcomes(env)
    spark.catalog.dropTempView("stale")


def test_what_spark_has_cached_under_other_settings_is_not_kept_under_these(
    env: Environment, v: None, settings: Any
) -> None:
    query = "SELECT to_json(struct(i, j)) AS r FROM v"
    with settings({NULL_FIELDS: "false"}):
        held = env.spark.sql(query).cache()
        held.collect()
    try:
        with settings({NULL_FIELDS: "true"}):
            env.sql(query).cache().collect()
            assert VertexOutcome.PRODUCED in outcomes(env)
            held.unpersist(blocking=True)
            assert rows(env.sql(query)) == plain(env, query)
            assert VertexOutcome.READ in outcomes(env)
    finally:
        held.unpersist(blocking=True)


def test_a_cached_table_of_the_catalog(env: Environment, tmp_path: Path) -> None:
    spark = env.spark
    spark.sql(f"CREATE TABLE stale_table (a LONG) USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        spark.sql("INSERT INTO stale_table VALUES (1)")
        spark.sql("CACHE TABLE stale_table")
        for each in (tmp_path / "t").glob("*.parquet"):
            each.unlink()
        spark.sql("SELECT 7L AS a").write.mode("append").parquet(str(tmp_path / "t"))
        env.from_dataframe(spark.read.parquet(str(tmp_path / "t"))).cache().collect()
        spark.sql("UNCACHE TABLE stale_table")
        again = env.from_dataframe(spark.read.parquet(str(tmp_path / "t")))
        assert again.collect() == [Row(a=7)]
        assert VertexOutcome.READ in outcomes(env)
    finally:
        spark.sql("DROP TABLE stale_table")


def test_what_matches_only_itself_is_kept_as_spark_has_shown_it(env: Environment) -> None:
    shown = env.spark.range(5).withColumn(
        "u", F.udf(lambda value: __import__("uuid").uuid4().hex).asNondeterministic()("id")
    )
    shown.cache()
    try:
        seen = rows(shown)
        kept = env.from_dataframe(shown).cache()
        assert rows(kept) == seen
        assert rows(env.from_dataframe(shown).where("id > 2")) == [
            each for each in seen if "id=3" in each or "id=4" in each
        ]
        assert VertexOutcome.READ in outcomes(env)
    finally:
        shown.unpersist(blocking=True)
    assert rows(kept) == seen


def test_what_matches_only_itself_is_not_kept_of_older_files(
    env: Environment, tmp_path: Path
) -> None:
    def marked() -> DataFrame:
        return env.spark.read.parquet(str(tmp_path / "p")).withColumn("t", F.current_date())

    replaced(env.spark, tmp_path / "p", "(1), (2)")
    held = marked().cache()
    try:
        held.collect()
        for each in (tmp_path / "p").glob("*.parquet"):
            each.unlink()
        replaced(env.spark, tmp_path / "other", "(3)")
        for each in (tmp_path / "other").glob("*.parquet"):
            each.rename(tmp_path / "p" / each.name)
        table = env.from_dataframe(marked()).cache()
        table.collect()
        assert VertexOutcome.PRODUCED in outcomes(env)
    finally:
        held.unpersist(blocking=True)
    assert [row.a for row in table.collect()] == [3]


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


def of_fields_with_ids(nested: str, *flags: str) -> Any:
    # Every combination over one type, and both ends of them over each.
    further = nested != "in a struct" and len(set(flags)) > 1
    return pytest.param(nested, *flags, marks=pytest.mark.soak if further else ())


@pytest.mark.parametrize(
    ("nested", "read", "write", "missing"),
    [of_fields_with_ids(*each) for each in product(NESTED, *[("true", "false")] * 3)],
)
def test_fields_with_ids_are_kept_and_found(
    env: Environment, settings: Any, nested: str, read: str, write: str, missing: str
) -> None:
    keys = {
        "spark.sql.parquet.fieldId.read.enabled": read,
        "spark.sql.parquet.fieldId.write.enabled": write,
        "spark.sql.parquet.fieldId.read.ignoreMissing": missing,
    }
    with settings(keys):
        data_type, values = NESTED[nested]
        column = StructField("s", data_type, True, {FIELD_ID: 1})
        frame = env.spark.createDataFrame([(each,) for each in values], StructType([column]))
        expected = rows(frame)
        table: Table = env.from_dataframe(frame).cache()
        assert rows(table) == expected
        assert outcomes(env)[0] is VertexOutcome.PRODUCED
        assert env.last_job_result is not None and not env.last_job_result.losses
        assert rows(table) == expected
        assert VertexOutcome.READ in outcomes(env)
        assert table.to_dataframe().schema == frame.schema
        if nested == "in a struct":
            assert rows(table.where("s.x > 1").select("s.x")) == ["Row(x=3)"]
