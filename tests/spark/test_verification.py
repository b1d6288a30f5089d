"""For a share of hits the plan is computed as well, and compared with what is kept."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import _parse_datatype_json_string

from holdfast import Environment
from holdfast.api.table_session import plain_session
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.row_hash import positional_type, row_hash
from holdfast.spark.versions import version_of

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
COMPUTED = [VertexOutcome.RUN]
FRACTION = "intermediate-result-storage.verify-fraction"


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Uncompressed, so that rows of one width make files of one length."""
    return {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.compression": "uncompressed",
        FRACTION: 1,
    }


@pytest.fixture
def env(spark: SparkSession, config: dict[str, Any]) -> Iterator[Environment]:
    with Environment(spark, config) as environment:
        yield environment


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, logger="holdfast"):
        yield caplog


def outcomes(env: Environment) -> list[VertexOutcome]:
    result = env.last_job_result
    assert result is not None
    return [vertex.outcome for vertex in result.vertices]


def losses(env: Environment) -> tuple[str, ...]:
    assert env.last_job_result is not None
    return env.last_job_result.losses


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in log.records if each.levelno >= logging.WARNING]


def notes(log: pytest.LogCaptureFixture) -> list[str]:
    records = [each for each in log.records if each.name == "holdfast.runtime.verification"]
    return [each.getMessage() for each in records if each.levelno == logging.DEBUG]


def plain(table: DataFrame) -> list[Row]:
    return ClassicDataFrame(table._jdf, plain_session(table.sparkSession)).collect()


def verified(spark: SparkSession) -> int:
    """How many of Spark's jobs have been for verification, up to now."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = (jobs.apply(index).description() for index in range(jobs.size()))
    return sum(each.isDefined() and "Holdfast verifies" in str(each.get()) for each in described)


def kept_files(env: Environment, computes: str) -> list[Path]:
    [place] = [each.location for each in env.list_cached() if computes in each.computes]
    assert place is not None
    return sorted(place.glob("part-*.parquet"))


def forge(env: Environment, config: dict[str, Any], others: str, computes: str = "") -> None:
    """Puts other rows in the place of those that are kept; nothing but the rows tells."""
    place = str(Path(config["intermediate-result-storage.directory"]).with_name("others"))
    assert computes or len(env.list_cached()) == 1
    with Environment(env.spark, {**config, "intermediate-result-storage.directory": place}) as it:
        it.sql(others).cache().count()
        pairs = zip(kept_files(env, computes), kept_files(it, ""), strict=True)
        for mine, its in pairs:
            status = mine.stat()
            assert its.stat().st_size == status.st_size
            shutil.copyfile(its, mine)
            shutil.copyfile(its.with_name(f".{its.name}.crc"), mine.with_name(f".{mine.name}.crc"))
            os.utime(mine, ns=(status.st_atime_ns, status.st_mtime_ns))


# -- what agrees -----------------------------------------------------------------------------------


def test_a_hit_is_verified_once_for_each_job_and_read(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    before = verified(spark)
    hot = env.sql("SELECT id, id % 3 AS k FROM range(100)").cache()
    hot.count()
    assert outcomes(env) == PRODUCED
    assert verified(spark) == before
    assert hot.count() == 100
    assert outcomes(env) == READ
    once = verified(spark)
    assert once > before
    assert hot.union(hot.where("k = 1")).count() == 133
    assert outcomes(env) == READ
    assert verified(spark) - once == once - before
    assert (warnings(log), losses(env)) == ([], ())


def test_nothing_is_verified_unless_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    before = verified(spark)
    with Environment(
        spark, {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    ) as env:
        hot = env.sql("SELECT id FROM range(10)").cache()
        hot.count(), hot.count()
        assert outcomes(env) == READ
    assert verified(spark) == before


IS_4_0 = version_of(pyspark.__version__) == (4, 0)
_ALL_TYPES = """
    SELECT id % 7 AS l, cast(id % 3 AS BYTE) AS b, cast(id AS FLOAT) / 3 AS f, id % 2 = 0 AS t,
           CASE id % 5 WHEN 0 THEN -0.0D WHEN 1 THEN 0.0D WHEN 2 THEN double('NaN')
                       WHEN 3 THEN double('-Infinity') END AS d,
           cast(id AS DECIMAL(30, 4)) / 7 AS n, cast(id AS STRING) AS s,
           cast(id AS STRING) COLLATE UNICODE_CI AS ci, cast(cast(id AS STRING) AS BINARY) AS bin,
           date_add(DATE'2020-01-01', cast(id AS INT)) AS day, timestamp_seconds(id) AS ts,
           TIMESTAMP_NTZ'2020-01-01 00:00:00' AS ntz, make_ym_interval(1, cast(id AS INT)) AS ym,
           make_dt_interval(1, cast(id AS INT)) AS dt, NULL AS nothing,
           array(id, NULL, 2) AS a, array(array(-0.0D), NULL, array()) AS aa,
           map(id, struct(-0.0D AS `a b`, map('k', NULL) AS m), 1000 + id, NULL) AS m,
           struct(id AS A, id + 1 AS a, struct(array(map(1, 2)) AS `x.y`) AS `z``z`) AS st,
           IF(id % 3 = 0, NULL, struct(NULL AS u, id AS v)) AS nst,
           parse_json(concat('{"b": 1.50, "a": [', id, ', null, "x"]}')) AS v,
           id AS l, id AS `a b`
    FROM range(200)"""


def test_rows_of_all_types_agree_with_themselves(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    query = _ALL_TYPES
    if IS_4_0:
        # It writes nothing of type VOID to Parquet.
        for void in ("NULL AS nothing", "map('k', NULL)", "NULL AS u"):
            query = query.replace(void, void.replace("NULL", "CAST(NULL AS INT)"))
    hot = env.sql(query).cache()
    hot.count()
    before = verified(spark)
    # PySpark can't collect intervals of months.
    # Nor is a variant written as it was, only with the same values.
    rows = hot.drop("ym").withColumn("v", F.to_json("v"))
    assert not Counter(map(repr, rows.collect())) - Counter(map(repr, plain(rows)))
    assert outcomes(env) == READ
    assert verified(spark) > before
    assert warnings(log) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM range(50) ORDER BY id % 7, id DESC",
        "SELECT k, count(*) AS n, sum(x) AS s FROM "
        "(SELECT id % 5 AS k, id / 7 AS x FROM range(1000)) GROUP BY k",
        "SELECT 1 WHERE false",
        "SELECT DISTINCT id % 3 AS k FROM range(10) JOIN range(3) USING (id)",
    ],
)
def test_results_of_all_forms_agree_with_themselves(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture, query: str
) -> None:
    hot = env.sql(query).cache()
    hot.collect()
    before = verified(spark)
    assert sorted(map(repr, hot.collect())) == sorted(map(repr, plain(hot)))
    assert outcomes(env) == READ
    assert verified(spark) > before
    assert warnings(log) == []


def test_rows_without_columns_are_counted(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    hot = env.from_dataframe(spark.range(5).select()).cache()
    hot.count()
    before = verified(spark)
    assert hot.count() == 5
    assert outcomes(env) == READ
    assert verified(spark) > before
    assert warnings(log) == []


def test_hits_in_subqueries_and_common_tables_are_verified(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql("SELECT id, id % 3 AS k FROM range(30)").cache()
    hot.count()
    whole = env.sql(
        "WITH c AS (SELECT k, count(*) AS n FROM {h} GROUP BY k) SELECT * FROM c", h=hot
    )
    whole.cache().count()
    for query in (
        "WITH c AS (SELECT id FROM {h} WHERE k = 1) SELECT * FROM c a JOIN c b USING (id)",
        "SELECT * FROM range(9) WHERE id IN (SELECT k FROM {h})",
        "WITH c AS (SELECT 1 AS k), w AS (SELECT id FROM {h} WHERE k IN (SELECT k FROM c)) "
        "SELECT * FROM w UNION ALL SELECT id FROM w",
    ):
        before = verified(spark)
        table = env.sql(query, h=hot)
        assert sorted(table.collect()) == sorted(plain(table))
        assert outcomes(env) == READ
        assert verified(spark) > before
    assert sorted(whole.collect()) == sorted(plain(whole))
    assert outcomes(env) == READ
    assert warnings(log) == []


# -- what differs ----------------------------------------------------------------------------------


def test_other_rows_are_dropped_and_the_user_gets_those_that_are_computed(
    spark: SparkSession, env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql("SELECT concat('a', id % 10) AS x FROM range(100)").cache()
    expected = hot.collect()
    [kept] = env.list_cached()
    place = kept.location
    assert place is not None
    forge(env, config, "SELECT concat(IF(id % 10 < 3, 'b', 'a'), id % 10) AS x FROM range(100)")
    assert hot.where("x LIKE 'a%'").count() == 100
    assert outcomes(env) == COMPUTED
    [loss] = losses(env)
    difference = "30 of 100 kept rows were not computed, and 30 computed rows were not kept"
    assert loss == f"{kept.dataset_id}: {difference}"
    [warning] = warnings(log)
    for said in (str(kept.dataset_id), kept.computes, difference):
        assert said in warning
    # Not for this job alone.
    assert not place.exists()
    assert env.list_cached() == []
    log.clear()
    assert hot.collect() == expected
    assert hot.cache().collect() == expected
    assert outcomes(env) == COMPUTED
    assert (warnings(log), losses(env)) == ([], ())
    (listed,) = env.list_cached()
    assert "had other rows than its plan" in (listed.not_kept_by_holdfast or "")


@pytest.mark.parametrize(
    ("query", "others"),
    [
        (
            "SELECT -0.0D * id AS x FROM range(0, 4, 1, 1)",
            "SELECT 0.0D * id AS x FROM range(0, 4, 1, 1)",
        ),
        (
            "SELECT id, IF(id % 2 = 0, 'a', 'b') AS x FROM range(0, 4, 1, 1)",
            "SELECT id, IF(id % 2 = 0, 'b', 'a') AS x FROM range(0, 4, 1, 1)",
        ),
        (
            "SELECT IF(id < 2, 'a', 'b') AS x FROM range(0, 4, 1, 1)",
            "SELECT IF(id < 1, 'a', 'b') AS x FROM range(0, 4, 1, 1)",
        ),
    ],
    ids=["the sign of zero", "the same values in other rows", "how often a row is there"],
)
def test_what_differs_is_found(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture, query: str, others: str
) -> None:
    hot = env.sql(query).cache()
    expected = list(map(repr, hot.collect()))
    forge(env, config, others)
    assert list(map(repr, hot.collect())) == expected
    assert outcomes(env) == COMPUTED
    assert len(warnings(log)) == len(losses(env)) == 1


def test_what_was_made_of_other_rows_is_dropped_too(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql("SELECT concat('a', id % 10) AS x FROM range(100)").cache()
    hot.count()
    other = env.sql("SELECT id FROM range(3) WHERE id < 2").cache()
    other.count()
    forge(env, config, "SELECT concat('b', id % 10) AS x FROM range(100)", "hot:")
    made = hot.groupBy("x").count().cache()
    # It is not looked at where it is not its turn.
    verification = env._master._verification
    env._master._verification = None
    assert {row.x for row in made.collect()} == {f"b{digit}" for digit in range(10)}
    env._master._verification = verification
    both = hot.join(made, "x").join(other, F.col("count") > F.col("id"))
    assert {row.x for row in both.collect()} == {f"a{digit}" for digit in range(10)}
    assert outcomes(env).count(VertexOutcome.READ) == 1
    assert len(warnings(log)) == len(losses(env)) == 1
    assert {row.x for row in made.collect()} == {f"a{digit}" for digit in range(10)}
    assert len(env.list_cached()) == 2


def test_the_plan_that_asks_is_computed_not_the_one_that_the_result_was_made_from(
    spark: SparkSession, env: Environment
) -> None:
    """Should two functions that differ have one digest, their rows are not mixed up."""

    def named(name: str) -> Any:
        def inner() -> str:
            return ""

        inner.__name__ = name
        return F.udf(lambda _: getattr(inner, "__name__"), "string")  # noqa: B009

    first = env.from_dataframe(spark.range(3)).select(named("one")("id").alias("n")).cache()
    assert {row.n for row in first.collect()} == {"one"}
    second = env.from_dataframe(spark.range(3)).select(named("two")("id").alias("n"))
    assert {row.n for row in second.collect()} == {"two"}


def test_rows_that_spark_s_own_cache_has_are_not_what_is_computed(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    source = str(tmp_path / "source")
    spark.range(3).write.parquet(source)
    stale = spark.read.parquet(source).cache()
    try:
        stale.count()
        for part in Path(source).iterdir():
            part.unlink()
        spark.range(7, 10).write.parquet(str(tmp_path / "new"))
        for part in (tmp_path / "new").iterdir():
            shutil.move(part, source)
        hot = env.read.parquet(source).cache()
        hot.collect()
        stale.unpersist()
        assert sorted(row.id for row in hot.collect()) == [7, 8, 9]
    finally:
        stale.unpersist()


# -- numbers ---------------------------------------------------------------------------------------

_SUM = (
    "SELECT k, sum(x) AS s FROM VALUES ('a', 0.1D), ('a', 0.2D), ('a', 0.3D) AS v(k, x) GROUP BY k"
)


def test_the_last_digits_of_what_was_added_up_may_differ(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql(_SUM).cache()
    [row] = hot.collect()
    other = 0.6 if row.s == 0.6000000000000001 else 0.6000000000000001
    forge(env, config, f"SELECT 'a' AS k, sum({other!r}D) AS s")
    assert hot.collect() == [Row(k="a", s=other)]
    assert outcomes(env) == READ
    assert warnings(log) == []
    assert any("floating-point rounding" in note for note in notes(log))


def test_other_sums_are_found(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql(_SUM).cache()
    rows = hot.collect()
    forge(env, config, "SELECT 'a' AS k, sum(0.6000001D) AS s")
    assert hot.collect() == rows
    assert len(warnings(log)) == len(losses(env)) == 1


def test_every_bit_of_numbers_counts_that_come_of_one_row(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql("SELECT 0.1D + 0.2D * id AS x FROM range(1, 2, 1, 1)").cache()
    assert hot.collect() == [Row(x=0.30000000000000004)]
    forge(env, config, "SELECT 0.3D * id AS x FROM range(1, 2, 1, 1)")
    assert hot.collect() == [Row(x=0.30000000000000004)]
    assert len(warnings(log)) == len(losses(env)) == 1


def test_nearly_equal_numbers_lie_on_one_side_of_some_bound(spark: SparkSession) -> None:
    """Of all magnitudes, and where large numbers have cancelled each other out."""
    values = spark.sql(
        "SELECT x, x * (1 + 1E-14D) AS y FROM "
        "(SELECT (rand(7) - 0.5D) * pow(10, id % 40 - 8) AS x FROM range(200000)) "
        "UNION ALL SELECT 1E-12D, 0D UNION ALL SELECT 0D, -0D "
        "UNION ALL SELECT double('NaN'), double('NaN') UNION ALL SELECT 1.7E308D, 1.7E308D"
    )
    same = [
        f"{row_hash([('x', 'double')], each)} = {row_hash([('y', 'double')], each)}"
        for each in (0.0, 1 / 3, 2 / 3)
    ]
    assert values.where(f"NOT ({' OR '.join(same)})").count() == 0
    assert values.where("x <> y").count() > 100_000
    for first, second in ((1.0, 1.0 + 1e-7), (0.0, 1e-7), (1e300, 1.0001e300), (-1.0, 1.0)):
        row = spark.sql(f"SELECT {first!r}D AS x, {second!r}D AS y")
        assert row.where(" OR ".join(same)).count() == 0


# -- hashes ----------------------------------------------------------------------------------------


def hashed(spark: SparkSession, values: list[str]) -> list[int]:
    selects = [f"SELECT {place} AS place, {value} AS c0" for place, value in enumerate(values)]
    rows = spark.sql(" UNION ALL ".join(selects))
    data_type = positional_type(rows.schema["c0"].dataType.jsonValue())
    cast: Any = _parse_datatype_json_string(json.dumps(data_type))
    rows = rows.withColumn("c0", F.col("c0").cast(cast)).orderBy("place")
    return [
        row.h for row in rows.select(F.expr(row_hash([("c0", data_type)])).alias("h")).collect()
    ]


@pytest.mark.parametrize(
    "values",
    [
        ["0D", "-0D", "NULL", "double('NaN')", "1D"],
        ["float(0)", "float('-0')", "NULL", "float('NaN')"],
        ["0L", "NULL", "42L", "7L", "-3074457345618258604L"],
        ["''", "NULL", "'a'", "'A'", "'a '"],
        ["'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE", "NULL"],
        pytest.param(
            ["'a' COLLATE UTF8_BINARY_RTRIM", "'a ' COLLATE UTF8_BINARY_RTRIM"],
            marks=pytest.mark.skipif(IS_4_0, reason="Spark 4.0 has no collations that trim"),
        ),
        ["X''", "X'00'", "X'0000'", "NULL"],
        ["array(NULL, 1)", "array(1, NULL)", "array(1)", "array(1, NULL, NULL)", "NULL", "array()"],
        ["array(array(1), array(2))", "array(array(1, 2))", "array(array(), array(1, 2))"],
        ["array(array())", "array(NULL)", "array()", "NULL"],
        ["array('ab', 'c')", "array('a', 'bc')", "array('abc')"],
        ["array(0D)", "array(-0D)"],
        ["named_struct('a', NULL, 'b', 1)", "named_struct('a', 1, 'b', NULL)", "NULL"],
        ["named_struct('a', CAST(NULL AS INT))", "NULL"],
        ["map(1, 2)", "map(2, 1)", "map(1, NULL)", "map()", "NULL", "map(1, 2, 2, 1)"],
        ["map('k', 0D)", "map('k', -0D)"],
        ["map(1, 1, 2, 2)", "map(1, 2, 2, 1)"],
        ["INTERVAL 1 MONTH", "INTERVAL 2 MONTH", "NULL"],
        ["make_interval(0, 1)", "make_interval(0, 0, 0, 30)", "make_interval(0, 0, 0, 0, 720)"],
        ["1.10", "1.11", "NULL"],
        ["1234567890123456789012345678.1BD", "1234567890123456789012345678.2BD", "NULL"],
        ["parse_json('1')", "parse_json('\"1\"')", "parse_json('1.5')", "parse_json('null')"],
        ["to_variant_object(array(0D))", "to_variant_object(array(-0D))"],
        ["true", "false", "NULL"],
    ],
)  # fmt: skip
def test_other_values_have_other_hashes(spark: SparkSession, values: list[str]) -> None:
    hashes = hashed(spark, values)
    assert len(set(hashes)) == len(values)
    assert hashed(spark, values) == hashes


def test_the_order_of_a_map_s_entries_means_nothing(spark: SparkSession) -> None:
    first, second = hashed(spark, ["map(1, 'a', 2, 'b')", "map(2, 'b', 1, 'a')"])
    assert first == second


# -- what is not verified --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, rand() AS r FROM range(10)",
        "SELECT * FROM range(100) LIMIT 5",
        "SELECT first(id) AS f FROM range(100) GROUP BY id % 7",
    ],
)
def test_what_may_differ_by_right_is_read_without_being_verified(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture, query: str
) -> None:
    hot = env.sql(query).cache()
    rows, before = hot.collect(), verified(spark)
    assert sorted(hot.collect()) == sorted(rows)
    assert outcomes(env) == READ
    assert verified(spark) == before
    assert warnings(log) == []
    assert any("unverified" in note for note in notes(log))


def test_streams_are_read_without_being_verified(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    kept = env.from_collection([1, 2, 3]).map(lambda x: x + 1).cache()
    with kept.execute_and_collect() as records:
        assert sorted(records) == [2, 3, 4]
    before = verified(spark)
    with kept.execute_and_collect() as records:
        assert sorted(records) == [2, 3, 4]
    assert verified(spark) == before
    assert warnings(log) == []


def test_a_source_that_changed_can_not_be_computed_any_more(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    hot.collect()
    source.write_text("4\n5\n6\n")
    assert [row._c0 for row in hot.collect()] == ["1", "2", "3"]
    assert outcomes(env) == READ
    [warning] = warnings(log)
    assert f"{source} changed after it was listed" in warning
    assert losses(env) == ()


# -- with recovery on ------------------------------------------------------------------------------


@pytest.fixture
def recovering(
    spark: SparkSession, config: dict[str, Any], tmp_path: Path
) -> Iterator[Environment]:
    """Its files count with path, length and modification time alone."""
    recovery = {
        "execution.batch.job-recovery.enabled": True,
        "high-availability.storageDir": (tmp_path / "ha").as_uri(),
    }
    with Environment(spark, {**config, **recovery}) as environment:
        yield environment


def rewrite(path: Path, data: bytes) -> None:
    status = path.stat()
    assert len(data) == status.st_size
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("held_by_spark", [False, True])
def test_jobs_that_are_recovered_are_verified(
    spark: SparkSession,
    recovering: Environment,
    log: pytest.LogCaptureFixture,
    tmp_path: Path,
    held_by_spark: bool,
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = recovering.read.csv(str(source)).cache()
    hot.collect()
    held = spark.read.csv(str(source))
    if held_by_spark:
        held.cache().count()
    try:
        rewrite(source, b"4\n5\n6\n")
        rows = hot.collect()
        assert rows == plain(hot)
        assert [row._c0 for row in rows] == (["1", "2", "3"] if held_by_spark else ["4", "5", "6"])
    finally:
        held.unpersist()
    [loss] = losses(recovering)
    assert "3 of 3 kept rows were not computed, and 3 computed rows were not kept" in loss
    assert len([each for each in warnings(log) if "its rows differ" in each]) == 1


def test_an_error_of_the_verification_costs_nobody_an_answer(
    recovering: Environment, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    source = tmp_path / "source.parquet"
    recovering.spark.range(3).toPandas().to_parquet(source)
    hot = recovering.read.parquet(str(source)).cache()
    rows = hot.collect()
    rewrite(source, bytes(source.stat().st_size))
    assert hot.collect() == rows
    assert VertexOutcome.READ in outcomes(recovering)
    [warning] = [each for each in warnings(log) if "unverified" in each]
    assert "source.parquet" in warning
    assert losses(recovering) == ()
