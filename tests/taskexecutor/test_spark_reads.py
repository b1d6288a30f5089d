"""Spark's own WebHDFS client reads what task executors keep, and Spark's own writer wrote it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.taskexecutor.callers import Caller, output_of

ROWS = 4_000
OUTPUT = output_of("a")
COMMITTER = "mapreduce.fileoutputcommitter.algorithm.version"


def rows(spark: SparkSession, begin: int, end: int, partitions: int) -> DataFrame:
    return spark.range(begin, end, 1, partitions).select(
        "id",
        (F.col("id") % 7).alias("k"),
        F.sha1(F.col("id").cast("string")).alias("text"),
        F.array("id", F.lit(1)).alias("list"),
        F.when(F.col("id") % 3 == 0, F.col("id") / 2).alias("half"),
    )


def kept(app: Any, dataframe: DataFrame) -> str:
    """Has Spark write an output, and an executor keep it; gives its URL."""
    directory = app.open(OUTPUT)
    dataframe.write.mode("append").option(COMMITTER, "2").option(
        "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
    ).option("parquet.block.size", 1 << 20).parquet(f"file:{directory}")
    app.promote(OUTPUT, app.finish(OUTPUT))
    return f"{app.read_root}/{OUTPUT}"


@pytest.fixture(scope="module")
def two(spark: SparkSession, start_for_module: Any, tmp_path_factory: Any) -> Iterator[list[Any]]:
    """Half of the rows on each of two executors."""
    apps = []
    for number, host in enumerate(("127.0.0.1", "127.0.0.2")):
        directory = tmp_path_factory.mktemp("executor") / "kept"
        executor = start_for_module(directory, "--host", host).serving()
        app = Caller(executor.gateway()).connect(lease_seconds=3600)
        half = ROWS // 2
        app.url = kept(app, rows(spark, number * half, (number + 1) * half, 3))
        apps.append(app)
    yield apps


def plan(dataframe: DataFrame) -> str:
    return str(dataframe._jdf.queryExecution().executedPlan().toString())


def same(found: DataFrame, expected: DataFrame) -> bool:
    return sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))


def test_two_executors_are_read_as_one(spark: SparkSession, two: list[Any]) -> None:
    found = spark.read.parquet(*[app.url for app in two])
    assert same(found, rows(spark, 0, ROWS, 6))
    assert found.count() == ROWS


def test_filters_and_columns_are_pushed_down_and_batches_are_read(
    spark: SparkSession, two: list[Any]
) -> None:
    read = spark.read.parquet(*[app.url for app in two])
    found = read.where((F.col("id") >= 3_000) & (F.col("k") == 3)).select("half", "id")
    explained = plan(found)
    assert "Batched: true" in explained
    assert "GreaterThanOrEqual(id,3000)" in explained
    assert re.search(r"ReadSchema: struct<id:bigint,k:bigint,half:double>", explained)
    expected = rows(spark, 0, ROWS, 6).where("id >= 3000 and k = 3").select("half", "id")
    assert same(found, expected)


def test_a_key_of_another_application_reads_nothing(spark: SparkSession, two: list[Any]) -> None:
    keys = [app.read_root.split("/")[3] for app in two]
    with pytest.raises(Py4JJavaError, match="read key does not open"):
        spark.read.parquet(two[0].url.replace(keys[0], keys[1])).count()


def test_what_has_changed_or_gone_fails_and_gives_no_wrong_rows(
    spark: SparkSession, start_for_module: Any, tmp_path: Path
) -> None:
    executor = start_for_module(tmp_path / "kept").serving()
    app = Caller(executor.gateway()).connect(lease_seconds=3600)
    url = kept(app, rows(spark, 0, 1000, 2))
    read = spark.read.parquet(url)
    assert read.count() == 1000
    (report,) = app.gateway.report(app.application)
    file = Path(report.directory) / report.partitions[0].file
    status = file.stat()
    os.utime(file, ns=(1, 1))
    with pytest.raises(Exception, match="was modified"):
        read.agg(F.sum("id")).collect()
    os.utime(file, ns=(1, status.st_mtime_ns))
    assert read.count() == 1000
    file.unlink()
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        read.agg(F.sum("id")).collect()
    app.gateway.release_outputs(app.application, [OUTPUT])
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        read.agg(F.sum("id")).collect()
    executor.kill()
    with pytest.raises(Exception, match="refused"):
        read.agg(F.sum("id")).collect()
