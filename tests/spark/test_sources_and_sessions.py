"""Sources with awkward names, and DataFrames of other sessions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.errors import UnsupportedPlanError


@pytest.mark.parametrize("name", ["at 12%3A30", "a#b?c", "ü=1", "with space"])
def test_files_of_any_name_are_kept(
    env: Environment, spark: SparkSession, tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / name)
    spark.range(10).write.parquet(path)
    hot = env.read.parquet(path).cache()
    assert hot.count() == 10
    assert [vertex.outcome.value for vertex in env.last_job_result.vertices] == ["produced", "run"]


def test_timestamp_partitions_are_kept(
    env: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "by-moment")
    moments = spark.range(3).selectExpr("id", "timestamp_seconds(id * 86400) AS moment")
    moments.write.partitionBy("moment").parquet(path)
    hot = env.read.parquet(path).cache()
    assert sorted(hot.collect()) == sorted(spark.read.parquet(path).collect())
    assert env.last_job_result.vertices[0].outcome.value == "produced"


def test_a_dataframe_of_another_session_is_refused(env: Environment, spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with pytest.raises(UnsupportedPlanError, match="another Spark session"):
        env.from_dataframe(other.sql("SELECT current_timezone()"))


@pytest.mark.parametrize("name", ["with space", "100%25", "a[b]*{c,d}?", "ü#1"])
def test_results_are_kept_in_a_directory_of_any_name(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    directory = str(tmp_path / name)
    with Environment(spark, {"intermediate-result-storage.directory": directory}) as env:
        hot = env.from_dataframe(spark.range(10).orderBy("id")).cache()
        for outcome in ("produced", "read from cache"):
            assert hot.collect() == spark.range(10).collect()
            assert env.last_job_result.vertices[0].outcome.value == outcome
        (kept,) = env.list_cached()
        path = kept.location / kept.location.joinpath("_manifest.json").name
        assert path.exists()
        next(kept.location.glob("part-*")).write_bytes(b"noise")
        assert hot.collect() == spark.range(10).collect()
        assert len(env.last_job_result.losses) == 1
