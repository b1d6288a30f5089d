"""For a share of hits the plan is computed as well, and compared with what is kept."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
COMPUTED = [VertexOutcome.RUN]
DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"
FRACTION = "intermediate-result-storage.verify-fraction"


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Uncompressed, so that forged files are not longer than those in whose place they go."""
    return {DIRECTORY: str(tmp_path / "kept"), COMPRESSION: "uncompressed", FRACTION: 1}


@pytest.fixture
def env(spark: SparkSession, config: dict[str, Any]) -> Iterator[Environment]:
    with Environment(spark, config) as environment:
        yield environment


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, logger="holdfast"):
        yield caplog


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in log.records if each.levelno >= logging.WARNING]


def losses(env: Environment) -> tuple[str, ...]:
    assert env.last_job_result is not None
    return env.last_job_result.losses


def verified(spark: SparkSession) -> int:
    """How many of Spark's jobs have been for verification, up to now."""
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    described = (jobs.apply(index).description() for index in range(jobs.size()))
    return sum(each.isDefined() and "Holdfast verifies" in str(each.get()) for each in described)


def kept_files(env: Environment) -> list[Path]:
    (place,) = [each.location for each in env.list_cached()]
    assert place is not None
    return sorted(place.glob("part-*.parquet"))


def filled(query: str) -> str:
    """With a column that is long where nothing is compressed, and short elsewhere."""
    return f"SELECT *, repeat('x', 9000) AS filler FROM ({query})"


def forge(env: Environment, config: dict[str, Any], others: str) -> None:
    """Puts other rows in the place of those that are kept; nothing but the rows shows it."""
    place = str(Path(config[DIRECTORY]).with_name("others"))
    with Environment(env.spark, {DIRECTORY: place, COMPRESSION: "zstd"}) as it:
        it.sql(filled(others)).cache().count()
        for mine, its in zip(kept_files(env), kept_files(it), strict=True):
            status, content = mine.stat(), its.read_bytes()
            footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
            padding = bytes(status.st_size - len(content))
            mine.write_bytes(content[:footer] + padding + content[footer:])
            mine.with_name(f".{mine.name}.crc").unlink(missing_ok=True)
            os.utime(mine, ns=(status.st_atime_ns, status.st_mtime_ns))


# -- what agrees -----------------------------------------------------------------------------------


def test_a_hit_is_verified_once_for_each_job_and_read(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    before = verified(spark)
    hot = env.sql("SELECT id, id % 3 AS k FROM range(100)").cache()
    hot.count()
    assert verified(spark) == before
    assert hot.count() == 100
    once = verified(spark)
    assert once > before and outcomes(env) == READ
    assert hot.union(hot.where("k = 1")).count() == 133
    assert outcomes(env) == READ and verified(spark) - once == once - before
    assert (warnings(log), losses(env)) == ([], ())


def test_nothing_is_verified_unless_it_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    before = verified(spark)
    with Environment(spark, {DIRECTORY: str(tmp_path / "kept")}) as env:
        hot = env.sql("SELECT id FROM range(10)").cache()
        hot.count(), hot.count()
        assert outcomes(env) == READ
    assert verified(spark) == before


FORMS = (
    "SELECT k, count(*) AS n, sum(x) AS s FROM "
    "(SELECT id % 5 AS k, id / 7 AS x FROM range(1000)) GROUP BY k",
    "SELECT id FROM range(50) ORDER BY id % 7, id DESC",
    "SELECT 1 WHERE false",
    "SELECT DISTINCT id % 3 AS k FROM range(10) JOIN range(3) USING (id)",
)


def test_results_of_all_forms_agree_with_themselves(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    no_columns = env.from_dataframe(spark.range(5).select())
    for table in (no_columns, *map(env.sql, FORMS)):
        rows, before = table.cache().collect(), verified(spark)
        assert sorted(table.collect()) == sorted(rows)
        assert outcomes(env) == READ and verified(spark) > before, table.columns
    assert warnings(log) == []


def test_hits_in_subqueries_and_common_tables_are_verified(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql("SELECT id, id % 3 AS k FROM range(30)").cache()
    hot.count()
    spark.sql("SELECT id, id % 3 AS k FROM range(30)").createOrReplaceTempView("h")
    for query in (
        "WITH c AS (SELECT id FROM {h} WHERE k = 1) SELECT * FROM c a JOIN c b USING (id)",
        "SELECT * FROM range(9) WHERE id IN (SELECT k FROM {h})",
        "WITH c AS (SELECT 1 AS k), w AS (SELECT id FROM {h} WHERE k IN (SELECT k FROM c)) "
        "SELECT * FROM w UNION ALL SELECT id FROM w",
    ):
        before = verified(spark)
        expected = sorted(spark.sql(query.replace("{h}", "h")).collect())
        assert sorted(env.sql(query, h=hot).collect()) == expected
        assert outcomes(env) == READ and verified(spark) > before
    spark.catalog.dropTempView("h")
    assert warnings(log) == []


# -- what differs ----------------------------------------------------------------------------------


def test_other_rows_are_dropped_and_the_user_gets_those_that_are_computed(
    env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    hot = env.sql(filled("SELECT concat('a', id % 10) AS x FROM range(100)")).cache()
    expected = hot.collect()
    (kept,) = env.list_cached()
    assert kept.location is not None
    forge(env, config, "SELECT concat(IF(id % 10 < 3, 'b', 'a'), id % 10) AS x FROM range(100)")
    assert hot.where("x LIKE 'a%'").count() == 100
    assert outcomes(env) == COMPUTED
    difference = "30 of 100 kept rows were not computed, and 30 computed rows were not kept"
    assert losses(env) == (f"{kept.dataset_id}: {difference}",)
    (warning,) = warnings(log)
    for said in (str(kept.dataset_id), kept.computes, difference):
        assert said in warning
    # Not for this job alone.
    assert not kept.location.exists() and env.list_cached() == []
    log.clear()
    assert hot.cache().collect() == expected
    assert outcomes(env) == COMPUTED and (warnings(log), losses(env)) == ([], ())
    (listed,) = env.list_cached()
    assert "had other rows than its plan" in (listed.not_kept_by_holdfast or "")


# The first value of each is in all rows that are kept; where each of the others is in one of
# them, that row is found to be another.
VALUES = [
    ["0D", "-0D", "NULL", "double('NaN')", "1D"],
    ["float(0)", "float('-0')", "NULL", "float('NaN')"],
    ["0L", "NULL", "42L", "7L", "-3074457345618258604L"],
    ["''", "NULL", "'a'", "'A'", "'a '"],
    ["'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE", "NULL"],
    ["'a' COLLATE UTF8_BINARY_RTRIM", "'a ' COLLATE UTF8_BINARY_RTRIM"],
    ["X''", "X'00'", "X'0000'", "NULL"],
    ["array(NULL, 1)", "array(1, NULL)", "array(1)", "array(1, NULL, NULL)", "NULL", "array()"],
    ["array(array(1), array(2))", "array(array(1, 2))", "array(array(), array(1, 2))"],
    ["array(CAST(array() AS ARRAY<INT>))", "array(NULL)", "array()", "NULL"],
    ["array('ab', 'c')", "array('a', 'bc')", "array('abc')"],
    # Spark takes a branch with another zero, and nothing else, for the same one.
    ["array(0D)", "array(IF(id < 0, 1D, -0D))"],
    ["named_struct('a', NULL, 'b', 1)", "named_struct('a', 1, 'b', NULL)", "NULL"],
    ["named_struct('a', CAST(NULL AS INT))", "NULL"],
    ["map(1, 2)", "map(2, 1)", "map(1, NULL)", "map()", "NULL", "map(1, 2, 2, 1)"],
    ["map('k', 0D)", "map('k', IF(id < 0, 1D, -0D))"],
    ["map(1, 1, 2, 2)", "map(1, 2, 2, 1)"],
    ["INTERVAL 1 MONTH", "INTERVAL 2 MONTH", "NULL"],
    ["1.10", "1.11", "NULL"],
    ["1234567890123456789012345678.1BD", "1234567890123456789012345678.2BD", "NULL"],
    ["parse_json('1')", "parse_json('\"1\"')", "parse_json('1.5')", "parse_json('null')"],
    ["to_variant_object(array(0D))", "to_variant_object(array(-0D))"],
    ["true", "false", "NULL"],
    ["double('-Infinity')", "double('Infinity')"],
    ["CAST(1 AS BYTE)", "CAST(2 AS BYTE)", "NULL"],
    ["DATE'2020-01-01'", "DATE'2020-01-02'", "NULL"],
    ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-01-01 00:00:00.000001'", "NULL"],
    ["TIMESTAMP_NTZ'2020-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 00:00:01'"],
    ["INTERVAL 1 DAY", "INTERVAL 2 DAY"],
    [
        "struct(1 AS A, 2 AS a, struct(array(map(1, 2)) AS `x.y`) AS `z``z`)",
        "struct(2 AS A, 1 AS a, struct(array(map(1, 2)) AS `x.y`) AS `z``z`)",
        "struct(1 AS A, 2 AS a, struct(array(map(1, 3)) AS `x.y`) AS `z``z`)",
    ],
]


def test_each_value_of_each_type_counts(
    spark: SparkSession, env: Environment, config: dict[str, Any], log: pytest.LogCaptureFixture
) -> None:
    lists = [
        # Spark 4.0 has no collations that trim.
        values for values in VALUES if "RTRIM" not in values[0] or spark.version > "4.1"
    ]  # fmt: skip
    others = [(place, other) for place, values in enumerate(lists) for other in values[1:]]

    def query(*, forged: bool) -> str:
        columns = []
        for place, (first, *_) in enumerate(lists):
            cases = [
                f"WHEN {row} THEN {other if forged else first}"
                for row, (at, other) in enumerate(others)
                if at == place
            ]
            # Both have the values as candidates, so that both have one type.
            never = " ".join(
                f"WHEN {-1 - row} THEN {each}" for row, each in enumerate(lists[place])
            )
            columns.append(f"CASE id {' '.join(cases)} {never} ELSE {first} END AS c{place}")
        named = f"id, id AS `a b`, id AS c0, {', '.join(columns)}"
        return f"SELECT {named} FROM range(0, {len(others) + 1}, 1, 1)"

    hot = env.sql(filled(query(forged=False))).cache()
    hot.count()
    assert hot.count() == len(others) + 1
    assert outcomes(env) == READ and warnings(log) == []
    forge(env, config, query(forged=True))
    assert hot.count() == len(others) + 1
    (loss,) = losses(env)
    assert f"{len(others)} of {len(others) + 1} kept rows were not computed" in loss


def test_which_values_are_together_and_how_often_counts(
    env: Environment, config: dict[str, Any]
) -> None:
    query = (
        "SELECT id, (id + {swapped}) % 2 AS x, '' AS y FROM range(0, 4, 1, 1) UNION ALL "
        "SELECT 9, 9, IF(id < {first}, 'a', 'b') FROM range(0, 4, 1, 1)"
    )
    hot = env.sql(filled(query.format(swapped=0, first=2))).cache()
    expected = hot.collect()
    forge(env, config, query.format(swapped=1, first=1))
    assert hot.collect() == expected
    assert outcomes(env) == COMPUTED
    assert "5 of 8 kept rows were not computed" in losses(env)[0]


def test_what_was_made_of_other_rows_is_dropped_too(
    spark: SparkSession, config: dict[str, Any]
) -> None:
    def hot(env: Environment) -> Any:
        return env.sql(filled("SELECT concat('a', id % 10) AS x FROM range(100)"))

    def made(env: Environment) -> set[str]:
        return {row.x for row in hot(env).groupBy("x").count().cache(lifetime="1 d").collect()}

    with Environment(spark, {**config, FRACTION: 0}) as trusting:
        hot(trusting).cache(lifetime="1 d").count()
        forge(trusting, config, "SELECT concat('b', id % 10) AS x FROM range(100)")
        assert made(trusting) == {f"b{digit}" for digit in range(10)}
    expected = {f"a{digit}" for digit in range(10)}
    with Environment(spark, config) as env:
        assert made(env) == expected and len(losses(env)) >= 1
        assert made(env) == {row.x for row in hot(env).collect()} == expected


def test_the_plan_that_asks_is_computed_not_the_one_that_the_result_was_made_from(
    spark: SparkSession, env: Environment
) -> None:
    """Should two functions that differ have one digest, their rows are not mixed up."""

    def named(name: str) -> Any:
        def inner() -> str:
            return ""

        inner.__name__ = name
        function = F.udf(lambda _: getattr(inner, "__name__"), "string")  # noqa: B009
        return env.from_dataframe(spark.range(3)).select(function("id").alias("n"))

    assert {row.n for row in named("one").cache().collect()} == {"one"}
    assert {row.n for row in named("two").collect()} == {"two"}


def test_rows_that_spark_s_own_cache_has_are_not_what_is_computed(
    spark: SparkSession, env: Environment, tmp_path: Path
) -> None:
    source, new = tmp_path / "source", tmp_path / "new"
    spark.range(3).write.parquet(str(source))
    spark.range(7, 10).write.parquet(str(new))
    stale = spark.read.parquet(str(source)).cache()
    try:
        stale.count()
        shutil.rmtree(source)
        shutil.move(new, source)
        hot = env.read.parquet(str(source)).cache()
        hot.collect()
        stale.unpersist()
        assert sorted(row.id for row in hot.collect()) == [7, 8, 9]
    finally:
        stale.unpersist()


# -- numbers ---------------------------------------------------------------------------------------

# Of all magnitudes, and where large numbers cancel each other out.
SUMS = """
    SELECT k, sum(x * {factor}) AS s FROM (
        SELECT id AS k, explode(array(x, x / 3, -x)) AS x FROM (
            SELECT id, hash(id) / 1E9D * pow(10, id % 40 - 8) AS x FROM range(0, 3000, 1, 1)))
    GROUP BY k"""


@pytest.mark.parametrize(("factor", "found"), [("(1 + 1E-14D)", False), ("(1 + 1E-6D)", True)])
def test_only_the_last_digits_of_what_was_added_up_may_differ(
    env: Environment,
    config: dict[str, Any],
    log: pytest.LogCaptureFixture,
    factor: str,
    found: bool,
) -> None:
    hot = env.sql(filled(SUMS.format(factor="1D"))).cache()
    hot.count()
    forge(env, config, SUMS.format(factor=factor))
    assert hot.count() == 3000
    assert outcomes(env) == (COMPUTED if found else READ)
    assert ("floating-point rounding" in log.text) == (not found)


def test_every_bit_of_numbers_counts_that_come_of_one_row(
    env: Environment, config: dict[str, Any]
) -> None:
    hot = env.sql(filled("SELECT 0.1D + 0.2D * id AS x FROM range(1, 2, 1, 1)")).cache()
    assert hot.select("x").collect() == [(0.30000000000000004,)]
    forge(env, config, "SELECT 0.3D * id AS x FROM range(1, 2, 1, 1)")
    assert hot.select("x").collect() == [(0.30000000000000004,)]
    assert len(losses(env)) == 1


# -- what is not verified --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM range(100) LIMIT 5",
        "SELECT id, rand() AS r FROM range(10)",
        "SELECT first(id) AS f FROM range(100) GROUP BY id % 7",
    ],
    ids=["limit", "rand", "first"],
)
@pytest.mark.sampled(3)
def test_what_may_differ_by_right_is_read_without_being_verified(
    spark: SparkSession, env: Environment, log: pytest.LogCaptureFixture, query: str
) -> None:
    hot = env.sql(query).cache()
    rows, before = hot.collect(), verified(spark)
    assert sorted(hot.collect()) == sorted(rows)
    assert outcomes(env) == READ and verified(spark) == before
    assert warnings(log) == [] and "unverified" in log.text


@pytest.mark.soak
def test_streams_are_read_without_being_verified(spark: SparkSession, env: Environment) -> None:
    kept = env.from_collection([1, 2, 3]).map(lambda x: x + 1).cache()
    before = verified(spark)
    for _ in range(2):
        with kept.execute_and_collect() as records:
            assert sorted(records) == [2, 3, 4]
    assert verified(spark) == before


def test_a_source_that_changed_can_not_be_computed_any_more(
    env: Environment, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    hot.collect()
    source.write_text("4\n5\n6\n")
    assert [row._c0 for row in hot.collect()] == ["1", "2", "3"]
    assert outcomes(env) == READ and losses(env) == ()
    (warning,) = warnings(log)
    assert f"{source} changed after it was listed" in warning


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
@pytest.mark.sampled(2)
def test_jobs_that_are_recovered_are_verified(
    spark: SparkSession, recovering: Environment, tmp_path: Path, held_by_spark: bool
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
        expected = ["1", "2", "3"] if held_by_spark else ["4", "5", "6"]
        assert [row._c0 for row in hot.collect()] == expected
    finally:
        held.unpersist()
    (loss,) = losses(recovering)
    assert "3 of 3 kept rows were not computed, and 3 computed rows were not kept" in loss


def test_an_error_of_the_verification_costs_no_answer(
    recovering: Environment, log: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    source = tmp_path / "source.parquet"
    recovering.spark.range(3).toPandas().to_parquet(source)
    hot = recovering.read.parquet(str(source)).cache()
    rows = hot.collect()
    rewrite(source, bytes(source.stat().st_size))
    assert hot.collect() == rows
    assert VertexOutcome.READ in outcomes(recovering) and losses(recovering) == ()
    (warning,) = [each for each in warnings(log) if "unverified" in each]
    assert "source.parquet" in warning
