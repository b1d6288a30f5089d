"""Whatever makes a result private, unmatchable or not kept has one reason, the same everywhere."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml.feature import StopWordsRemover
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table
from holdfast.cli.main import main
from holdfast.plan.canonicalizer import Canonicalizer
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity
from holdfast.plan.value_digest import Undigestible

KEPT = "intermediate-result-storage.directory"


def numbers(env: Environment) -> Table:
    return env.range(0, 60, 1, 3).selectExpr("id", "id % 7 AS k", "concat('x', id) AS t")


def observed(env: Environment) -> Table:
    return numbers(env).observe("seen", F.count("*").alias("n"))


def looking_around(env: Environment) -> Table:
    return numbers(env).select(
        F.udf(lambda value: len(os.environ) + value, "long")("id").alias("x")
    )


def sampled(env: Environment) -> Table:
    numbers(env).createOrReplaceTempView("sampled_numbers")
    return env.sql("SELECT * FROM sampled_numbers TABLESAMPLE (50 PERCENT)")


def of_rdd(env: Environment) -> Table:
    rows = env.spark.sparkContext.parallelize([(1, 2)])
    return env.from_dataframe(env.spark.createDataFrame(rows, "a INT, b INT"))


def of_database(env: Environment) -> Table:
    url, table = "jdbc:derby:memory:reasons;create=true", "numbers"
    df = env.spark.range(3).selectExpr("id")
    df.write.jdbc(url, table, mode="overwrite", properties={"driver": DRIVER})
    return env.from_dataframe(env.spark.read.jdbc(url, table, properties={"driver": DRIVER}))


def without_many_words(env: Environment) -> Table:
    remover = StopWordsRemover(inputCol="t", outputCol="left", stopWords=["x" * 9_000_000])
    return env.from_dataframe(remover.transform(env.spark.sql("SELECT array('x', 'y') AS t")))


DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"

CASES: dict[str, tuple[Callable[[Environment], Table], Reason]] = {
    "uuid": (lambda env: numbers(env).selectExpr("uuid() AS u"), Why.RANDOM.of("Uuid")),
    "partition": (
        lambda env: numbers(env).selectExpr("spark_partition_id() AS p"),
        Why.PARTITIONED.of("SparkPartitionID"),
    ),
    "moment": (
        lambda env: numbers(env).withColumn("now", F.current_timestamp()),
        Why.MOMENT.of("CurrentTimestamp"),
    ),
    "day": (
        lambda env: numbers(env).selectExpr("CAST(concat('to', 'day') AS DATE) AS d"),
        Why.MOMENT_IN_TEXT.of(),
    ),
    "operator": (observed, Why.UNKNOWN_OPERATOR.of("CollectMetrics")),
    "function": (looking_around, Why.PYTHON.of("")),
    "database": (of_database, Why.UNVERSIONED.of("JDBCRelation")),
    "expression": (
        lambda env: numbers(env).freqItems(["k"]),
        Why.UNKNOWN_EXPRESSION.of("CollectFrequentItems"),
    ),
    "script": (
        lambda env: env.sql("SELECT TRANSFORM(id) USING 'cat' AS (x) FROM range(3)"),
        Why.UNREADABLE.of("a reference to an attribute that no input has"),
    ),
    "command": (lambda env: env.sql("SHOW CATALOGS"), Why.OPAQUE.of("GenericInternalRow")),
    "sample": (sampled, Why.UNSEEDED.of("Sample")),
    "rdd": (of_rdd, Why.RDD.of()),
    "values": (
        lambda env: env.createDataFrame([("x" * 9_000_000,)], "x STRING"),
        Why.MANY_VALUES.of(),
    ),
    "object": (
        without_many_words,
        Why.OBJECT.of("a function that holds more than 8388608 bytes"),
    ),
    "first": (
        lambda env: numbers(env).groupBy("k").agg(F.first("id")),
        Why.PARTITIONED.of("First"),
    ),
    "limit": (lambda env: numbers(env).limit(7), Why.PARTITIONED.of("LocalLimit")),
    "ties": (
        lambda env: numbers(env).selectExpr("row_number() OVER (PARTITION BY k ORDER BY k) AS n"),
        Why.TIES.of("RowNumber"),
    ),
    "batches": (
        lambda env: numbers(env).select("id").mapInArrow(lambda rows: rows, "id long"),
        Why.PARTITIONED.of("PythonUDF"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reason_is_the_same_everywhere(
    env: Environment,
    tmp_path: Path,
    case: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    make, reason = CASES[case]
    table = make(env).cache()
    (listed,) = env.list_cached()
    if case == "sample" and Why.UNSEEDED.name not in [each.kind for each in listed.reasons]:
        pytest.skip("this Spark draws the seed when it analyzes the query")
    assert any(said_by(reason, each) for each in listed.matches_only_itself), listed.reasons
    table.count()
    assert_everywhere(env, tmp_path, table, reason, capsys)
    with caplog.at_level(logging.INFO, logger="holdfast"):
        env.invalidate_all()
        make(env).cache(lifetime="1 h").count()
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.INFO]
    lines = [each for each in told if "has a lifetime, but" in each]
    if reason.kind in (Why.PARTITIONED.name, Why.TIES.name):
        # One of several right answers is then the one for all programs.
        assert lines == []
    else:
        assert [reason.sentence in line for line in lines] == [True]


def assert_everywhere(
    env: Environment,
    tmp_path: Path,
    table: Table,
    reason: Reason,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert env.last_job_result is not None
    capsys.readouterr()
    table.explain()
    explained = capsys.readouterr().out
    directory = ["--directory", str(tmp_path / "kept")]
    assert main(["ls", *directory]) == 0
    seen = capsys.readouterr().out
    assert main(["why", *directory]) == 0
    why = capsys.readouterr().out
    places = (repr(env.list_cached()), explained, repr(env.last_job_result), seen, why)
    assert [reason.sentence in each for each in places] == [True] * 5, places


def said_by(reason: Reason, found: Reason) -> bool:
    return found.kind == reason.kind and found.text.startswith(reason.text)


def test_what_any_program_finds_has_no_reason(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = numbers(env).groupBy("k").count().cache(lifetime="1 h")
    table.count()
    table.explain()
    assert main(["ls", "--directory", str(tmp_path / "kept")]) == 0
    said = capsys.readouterr().out + repr(env.list_cached()) + repr(env.last_job_result)
    assert "program reads it" not in said and "table reads it" not in said
    (listed,) = env.list_cached()
    assert listed.reasons == ()


def test_a_table_that_spark_has_cached_says_so_everywhere(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env.spark.sql("CREATE TABLE held (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    try:
        env.spark.sql("INSERT INTO held VALUES (1, 1)")
        env.spark.sql("CACHE TABLE held")
        hot = env.table("held").where("id > 0").cache()
        hot.count()
        reason = Why.LISTED_LATER.of("a catalog's table that Spark has cached")
        assert_everywhere(env, tmp_path, hot, reason, capsys)
    finally:
        env.spark.sql("DROP TABLE held")


# -- what is not kept ------------------------------------------------------------------------------


def test_a_source_that_changes_says_so_everywhere(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1\n2\n3\n")
    hot = env.read.csv(str(source)).cache()
    source.write_text("4\n5\n6\n")
    os.utime(source, (1, 1))
    assert len(hot.collect()) == 3
    reason = Why.SOURCE_CHANGED.of(source.as_uri().replace("///", "/"))
    assert_everywhere(env, tmp_path, hot, reason, capsys)


def test_what_there_is_no_room_for_says_so_everywhere(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {KEPT: str(tmp_path / "kept"), "intermediate-result-storage.max-size": "100 b"}
    with Environment(spark, config=config) as env:
        hot = numbers(env).cache()
        hot.count()
        (listed,) = env.list_cached()
        (reason,) = listed.reasons
        assert reason.kind == Why.NO_ROOM.name and reason.where is Validity.NOWHERE
        assert_everywhere(env, tmp_path, hot, reason, capsys)


def test_what_parquet_cannot_hold_says_so_everywhere(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hot = env.sql("SELECT make_interval(1) AS odd").cache()
    (listed,) = env.list_cached()
    (reason,) = listed.reasons
    assert reason.kind == Why.OF_SPARK.name
    hot.explain()
    assert reason.sentence in capsys.readouterr().out
    for command in ("ls", "why"):
        assert main([command, "--directory", str(tmp_path / "kept")]) == 0
        assert reason.sentence in capsys.readouterr().out
    hot.unpersist()
    assert env.list_cached() == []


# -- where nothing is shared -----------------------------------------------------------------------


def test_without_a_catalog_a_lifetime_is_said_to_end_with_the_program(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {KEPT: str(tmp_path / "kept"), "catalog.url": "none"}
    with Environment(spark, config=config) as env:
        hot = numbers(env).cache(lifetime="1 h")
        hot.count()
        hot.explain()
        for said in (repr(env.list_cached()), repr(env.last_job_result), capsys.readouterr().out):
            assert Why.NO_CATALOG.of().sentence in said


def test_an_answer_that_is_not_to_be_shared_says_so_everywhere(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {KEPT: str(tmp_path / "kept"), "intermediate-result-storage.share-ambiguous": False}
    with Environment(spark, config=config) as env:
        hot = numbers(env).limit(7).cache(lifetime="1 h")
        hot.count()
        assert_everywhere(env, tmp_path, hot, Why.OWN_ANSWER.of(), capsys)


def test_a_catalog_that_cannot_be_used_is_said_to_keep_results_with_their_program(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {KEPT: str(tmp_path / "kept"), "catalog.url": "sqlite:////dev/null/catalog.db"}
    with Environment(spark, config=config) as env:
        hot = numbers(env).cache(lifetime="1 h")
        hot.count()
        hot.explain()
        for said in (repr(env.list_cached()), repr(env.last_job_result), capsys.readouterr().out):
            assert Why.CATALOG_FAILED.of().sentence in said


def test_what_cannot_be_put_where_it_stays_is_said_to_end_with_the_program(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = tmp_path / "kept" / "shared"
    shared.parent.mkdir(parents=True, exist_ok=True)
    shared.write_text("in the way")
    hot = numbers(env).cache(lifetime="1 h")
    hot.count()
    (listed,) = env.list_cached()
    (reason,) = listed.reasons
    assert reason.kind == Why.NOT_PUT.name
    assert_everywhere(env, tmp_path, hot, reason, capsys)


# -- each of them ----------------------------------------------------------------------------------

CATALOG = "catalog/test_shared_results.py"
SEALED = "catalog/test_sealed_results.py"
PRODUCED_BY = {
    Why.OF_SPARK: "test_what_parquet_cannot_hold_says_so_everywhere",
    Why.NO_ROOM: "test_what_there_is_no_room_for_says_so_everywhere",
    Why.SOURCE_CHANGED: "test_a_source_that_changes_says_so_everywhere",
    Why.NO_CATALOG: "test_without_a_catalog_a_lifetime_is_said_to_end_with_the_program",
    Why.CATALOG_FAILED: "test_a_catalog_that_cannot_be_used_is_said_to_keep_results_with_their_pro"
    "gram",
    Why.OWN_ANSWER: "test_an_answer_that_is_not_to_be_shared_says_so_everywhere",
    Why.NOT_PUT: "test_what_cannot_be_put_where_it_stays_is_said_to_end_with_the_program",
    Why.UNKEEPABLE: "spark/test_kept_types.py::test_what_no_cache_can_hold_is_computed",
    Why.DISTRUSTED: "spark/test_unreadable_results.py"
    "::test_the_query_is_answered_as_it_was_written_and_the_result_goes",
    Why.OUTDATED: "spark/test_source_versions.py"
    "::test_a_catalog_s_table_over_a_file_that_changed_without_a_refresh",
    Why.LISTED_LATER: "test_a_table_that_spark_has_cached_says_so_everywhere",
    Why.FAILED: "spark/test_failures.py::test_an_error_in_what_is_not_asked_for_fails_no_job",
    Why.FAILED_BEFORE: "spark/test_failures.py"
    "::test_an_error_in_what_is_not_asked_for_fails_no_job",
    Why.SETTING_CHANGED: "spark/test_one_pass.py::test_a_setting_of_files_that_changes_is_said",
    Why.NOT_ALL_ROWS: "spark/test_one_pass.py"
    "::test_what_spark_does_not_need_is_not_kept_and_the_next_job_keeps_it_first",
    Why.NOT_WRITTEN: "spark/test_one_pass.py::test_rows_flow_on_where_they_cannot_be_written",
    Why.KEPT_ALREADY: f"{CATALOG}::test_who_may_not_read_a_source_does_not_get_the_result",
    Why.OVERTAKEN: f"{CATALOG}::test_a_producer_that_comes_back_is_fenced_and_leaves_no_garbage",
    Why.UNCHECKABLE: f"{CATALOG}::test_what_is_made_of_a_catalog_s_table_is_its_user_s_and_says_so",
    Why.UNOPENED: f"{CATALOG}::test_what_cannot_be_opened_to_others_is_its_user_s_and_says_so",
    Why.OWN_CLASSES: f"{SEALED}"
    "::test_those_whose_records_bring_classes_along_are_for_their_program",
    Why.OWN_SEAL: f"{SEALED}::test_whoever_has_another_key_neither_reads_nor_offers_any",
}
"""The tests that produce reasons, beside those of `CASES`."""

UNPRODUCED = {
    Why.UNKNOWN_AGGREGATE: "Spark has none that is not known, but those of a catalog's functions",
    Why.INCOMPARABLE_ROWS: "Spark lays out rows of all its types",
    Why.BUSY: "somebody would have to wait for minutes",
    Why.NOT_ONCE: "a stage would have to run again, for an executor that was lost",
}
"""Why no test leads to the others."""


def test_each_reason_is_produced_by_a_test() -> None:
    of_queries = {Why[reason.kind] for _, reason in CASES.values()}
    assert not of_queries & PRODUCED_BY.keys()
    assert {*Why} - of_queries - PRODUCED_BY.keys() == UNPRODUCED.keys()
    here = Path(__file__)
    for why, test in PRODUCED_BY.items():
        file, _, name = test.rpartition("::")
        text = (here.parents[1] / file if file else here).read_text()
        (body,) = re.findall(rf"^def {name}\(.*?(?=^[\w@#]|\Z)", text, re.DOTALL | re.MULTILINE)
        assert re.search(rf"\bWhy\.{why.name}\b", body), test


# -- what no query of these tests leads to ---------------------------------------------------------


def doubts_of(**arguments: Any) -> list[Reason]:
    def undigestible(pickled: str) -> str:
        raise Undigestible("a lock")

    operator: Any = {
        "i": 0,
        "c": "org.apache.spark.sql.catalyst.plans.logical.Filter",
        "n": 0,
        "t": "salt",
        "f": [],
        "o": [],
        **arguments,
    }
    made = Canonicalizer("session", undigestible, str).canonicalize([operator])
    return list(made.reasons())


LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def leaf(argument: Any) -> dict[str, Any]:
    return {"c": f"{LOGICAL}Range", "f": [argument, 0, 0, 0, []], "out": []}


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (leaf({"opaque": "a.b.Relation"}), Why.OPAQUE.of("Relation")),
        (leaf({"opaque": "a.b.Function", "why": "a lock"}), Why.OBJECT.of("a lock")),
        (leaf({"c": "a.b.Odd", "f": [], "o": []}), Why.UNKNOWN_EXPRESSION.of("Odd")),
        (
            leaf({"c": f"{EXPRESSIONS}aggregate.Odd", "f": [], "o": []}),
            Why.UNKNOWN_AGGREGATE.of("Odd"),
        ),
        (leaf({"python": "AAAA", "version": "3.11"}), Why.PYTHON.of("a lock")),
        (leaf({"id": 7}), Why.UNREADABLE.of("an expression id that something may refer to")),
        (
            {"c": f"{LOGICAL}LocalRelation", "s": {"fields": []}, "rows": None, "out": []},
            Why.INCOMPARABLE_ROWS.of(),
        ),
    ],
    ids=lambda each: each.kind if isinstance(each, Reason) else "",
)
def test_a_plan_says_what_it_is_doubted_for(operator: dict[str, Any], reason: Reason) -> None:
    assert doubts_of(**operator) == [reason]
