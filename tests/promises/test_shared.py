"""What programs on one storage directory find of each other; here they share a JVM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.cli.main import main
from holdfast.testing import assert_computes, assert_reads, outcomes
from tests.promises.conftest import rows

Program = Callable[..., AbstractContextManager[Environment]]


@pytest.fixture
def program(spark: SparkSession, tmp_path: Path) -> Program:
    """Starts a program on the test's storage directory."""

    def start(**config: object) -> Environment:
        given = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
        options = {key.replace("__", ".").replace("_", "-"): each for key, each in config.items()}
        return Environment(spark.newSession(), config=given | options)

    return start


def counts(env: Environment, files: Path) -> DataFrame:
    return env.read.parquet(str(files / "trips")).groupBy("a").agg(F.count("*").alias("n"))


def test_with_a_lifetime_it_outlives_its_program(
    program: Program, files: Path, plain: SparkSession
) -> None:
    with program() as first:
        assert counts(first, files).cache(lifetime="1 d").count() == 5
    with program() as later:
        asked = counts(later, files)
        assert_reads(asked)
        assert rows(asked) == rows(plain.sql("SELECT a, count(*) AS n FROM trips GROUP BY a"))
        assert "kept by" in repr(later.last_job_result)


def test_without_one_it_goes_with_its_program(program: Program, files: Path) -> None:
    with program() as one, program() as beside:
        counts(one, files).cache().count()
        assert_reads(counts(beside, files))
        assert counts(beside, files).count() == 5
        assert outcomes(beside) == [VertexOutcome.READ, VertexOutcome.RUN]
    with program() as later:
        assert_computes(counts(later, files))


def test_a_default_lifetime(program: Program, files: Path) -> None:
    with program(intermediate_result_storage__lifetime="1 d") as first:
        counts(first, files).cache().count()
    with program() as later:
        assert_reads(counts(later, files))


def test_a_release_is_one_for_all_programs(program: Program, files: Path) -> None:
    with program() as first:
        counts(first, files).cache(lifetime="1 d").count()
    with program() as later:
        counts(later, files).cache().invalidate_cache()
    with program() as last:
        assert_computes(counts(last, files))


def test_a_file_that_has_changed_since(
    program: Program, plain: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "in")

    def asked(env: Environment) -> DataFrame:
        return env.read.parquet(path).groupBy().agg(F.sum("id"))

    plain.range(9).write.parquet(path)
    with program() as first:
        asked(first).cache(lifetime="1 d").count()
    with program() as later:
        assert_reads(asked(later))
        plain.range(10).write.mode("overwrite").parquet(path)
        assert_computes(asked(later))
        assert asked(later).first() == (45,)


def test_catalog_tables_by_the_partitions_that_a_query_reaches(
    program: Program, spark: SparkSession
) -> None:
    spark.sql("CREATE TABLE promised (id BIGINT, p INT) USING parquet PARTITIONED BY (p)")
    try:
        spark.sql("INSERT INTO promised SELECT id, id % 3 FROM range(30)")

        def of_one(env: Environment) -> DataFrame:
            return env.table("promised").where("p = 1").groupBy().agg(F.sum("id"))

        with program() as first:
            of_one(first).cache(lifetime="1 d").count()
        spark.sql("INSERT INTO promised VALUES (100, 2)")
        with program() as later:
            assert_reads(of_one(later))
        spark.sql("INSERT INTO promised VALUES (100, 1)")
        with program() as last:
            assert_computes(of_one(last))
            assert of_one(last).first() == (245,)
    finally:
        spark.sql("DROP TABLE promised")


@pytest.mark.parametrize("shared", [True, False])
def test_one_of_several_right_answers_is_kept_as_such(
    program: Program, files: Path, shared: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def any_seven(env: Environment) -> DataFrame:
        return env.read.parquet(str(files / "trips")).limit(7)

    sharing = {"intermediate_result_storage__share_ambiguous": shared}
    with program(**sharing) as first:
        answer = rows(any_seven(first).cache(lifetime="1 d"))
        any_seven(first).explain()
        assert "one of several right answers: GlobalLimit" in capsys.readouterr().out
    with program(**sharing) as later:
        if shared:
            assert_reads(any_seven(later))
            assert rows(any_seven(later)) == answer
        else:
            assert_computes(any_seven(later))


PRIVATE: dict[str, tuple[Callable[[Environment], DataFrame], str]] = {
    "chance": (lambda env: env.range(3).selectExpr("uuid()"), "not deterministic"),
    "the moment": (lambda env: env.range(3).selectExpr("now()"), "depends on when"),
    "an RDD": (
        lambda env: env.from_dataframe(
            env.spark.createDataFrame(env.spark.sparkContext.parallelize([(1,)]), "a INT")
        ),
        "an RDD",
    ),
}


@pytest.mark.parametrize("what", PRIVATE)
def test_what_no_other_program_finds_says_why(program: Program, what: str) -> None:
    make, why = PRIVATE[what]
    with program() as first:
        make(first).cache(lifetime="1 d").count()
        (listed,) = first.list_cached()
        assert why in listed.reasons[0].sentence
    with program() as later:
        assert_computes(make(later))


def test_what_there_is_no_room_for_is_computed(program: Program, files: Path) -> None:
    with program(intermediate_result_storage__max_size="100 b") as env:
        assert counts(env, files).cache().count() == 5
        (listed,) = env.list_cached()
        assert "there is no room for its" in listed.reasons[0].sentence
        assert counts(env, files).count() == 5


def test_commands_show_and_remove_it(
    program: Program, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = ["--directory", str(tmp_path / "kept")]
    with program() as first:
        counts(first, files).cache(lifetime="1 d").count()
        (listed,) = first.list_cached()
    assert main(["ls", *directory]) == 0
    assert "Aggregate [a]" in capsys.readouterr().out
    assert main(["verify", *directory]) == 0
    assert main(["rm", str(listed.dataset_id), *directory]) == 0
    with program() as later:
        assert_computes(counts(later, files))
