"""What has to work on each Spark that Holdfast supports, in a minute."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.spark.java_classes import compiled
from holdfast.spark.versions import NEEDED_FOR, NEWEST, OLDEST, version_of


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A file of numbers."""
    path = str(tmp_path / "numbers")
    spark.range(1000).selectExpr("id", "id % 7 AS k").write.parquet(path)
    return spark.read.parquet(path)


def _outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def test_this_version_is_supported(spark: SparkSession) -> None:
    version = version_of(spark.version)
    assert version is not None and OLDEST <= version <= NEWEST


@pytest.mark.parametrize("name", NEEDED_FOR)
def test_each_class_is_compiled(spark: SparkSession, name: str) -> None:
    assert compiled(spark, name).getSimpleName() == name


def test_a_table_is_kept_and_read(env: Environment, numbers: DataFrame) -> None:
    table = env.from_dataframe(numbers)
    hot = table.groupBy("k").agg(F.sum("id").alias("s")).cache()
    expected = sorted(numbers.groupBy("k").agg(F.sum("id").alias("s")).collect())
    assert sorted(hot.collect()) == expected
    assert VertexOutcome.PRODUCED in _outcomes(env)
    again = env.sql("SELECT k AS g, sum(id) FROM {t} GROUP BY k", t=table)
    assert sorted(again.collect()) == expected
    assert VertexOutcome.READ in _outcomes(env)
    assert sorted(hot.to_dataframe().collect()) == expected


def test_simplified_conditions_match(env: Environment, numbers: DataFrame) -> None:
    table = env.from_dataframe(numbers)
    table.where("NOT (k <= 3 OR id < 10)").cache().count()
    assert table.where("id >= 10 AND k > 3").count() == numbers.where("k > 3 AND id >= 10").count()
    assert VertexOutcome.READ in _outcomes(env)


def test_what_is_kept_is_verified(
    spark: SparkSession, numbers: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.verify-fraction": 1.0,
    }
    with Environment(spark, config) as env:
        hot = env.from_dataframe(numbers).where("k = 3").cache()
        assert hot.count() == hot.count() == numbers.where("k = 3").count()
        assert VertexOutcome.READ in _outcomes(env)
    assert "verif" not in caplog.text


def test_a_stream_is_kept(env: Environment) -> None:
    kept = env.from_collection(range(20)).map(lambda n: n * n).cache()
    for _ in range(2):
        with kept.execute_and_collect() as records:
            assert sorted(records) == [n * n for n in range(20)]
    assert VertexOutcome.READ in _outcomes(env)


def test_jobs_run_with_recovery(
    spark: SparkSession, numbers: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "execution.batch.job-recovery.enabled": True,
        "high-availability.storageDir": str(tmp_path / "jobs"),
    }
    with Environment(spark, config) as env:
        table = env.from_dataframe(numbers).groupBy("k").count()
        assert sorted(table.collect()) == sorted(numbers.groupBy("k").count().collect())
        table.write.parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 7
    assert caplog.text == ""


def test_shuffles_of_earlier_queries_are_reused(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    spark.range(1000).selectExpr("id", "id % 7 AS k").write.parquet(path)
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.enabled": False,
    }
    with Environment(spark.newSession(), config=config) as env:
        live = env._implicit.live
        assert live is not None

        def counts() -> DataFrame:
            numbers: DataFrame = env.read.parquet(path)
            return numbers.groupBy("k").count()

        first = sorted(counts().collect())
        assert sorted(counts().collect()) == first
        assert counts().agg(F.max("count").alias("n")).collect()[0].n == 143
        assert live.uses == 2
