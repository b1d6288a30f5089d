"""A cached table may overwrite the files that it was read from."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_runner import NotKeptError

LEFT = list(range(3, 10))


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> str:
    path = tmp_path / "my source%20"
    spark.range(0, 10, 1, 2).write.parquet(f"file:{path}")
    return f"file:{path}"


def rows(spark: SparkSession, source: str) -> list[int]:
    return sorted(row.id for row in spark.read.parquet(source).collect())


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(
    "write",
    [
        lambda writer, path: writer.parquet(path),
        lambda writer, path: writer.format("parquet").option("path", path).save(),
    ],
)
@pytest.mark.sampled(3)
def test_the_source_is_replaced(
    env: Environment, spark: SparkSession, source: str, kept: bool, write: Callable[..., Any]
) -> None:
    hot = env.read.parquet(source).cache()
    if kept:
        hot.collect()
    write(hot.filter("id > 2").write.mode("overwrite"), source)
    assert rows(spark, source) == LEFT
    assert sorted(row.id for row in env.read.parquet(source).collect()) == LEFT
    again = env.read.parquet(source).cache()
    write(again.filter("id > 8").write.mode("overwrite"), source)
    assert rows(spark, source) == [9]
    assert [each.name for each in Path(source.removeprefix("file:")).parent.glob(".my*")] == []


def test_what_is_not_kept_is_not_overwritten(
    env: Environment, spark: SparkSession, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = env.read.parquet(source)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        table.write.mode("overwrite").parquet(source)
    hot = table.cache()

    def produce(*arguments: object) -> None:
        raise NotKeptError(Why.FAILED.of("the disk is full"))

    monkeypatch.setattr(env._master._runner, "produce", produce)
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE"):
        hot.write.mode("overwrite").parquet(source)
    assert rows(spark, source) == list(range(10))


def test_what_is_lost_is_computed_again_from_the_source(
    env: Environment, spark: SparkSession, source: str, caplog: pytest.LogCaptureFixture
) -> None:
    hot = env.read.parquet(source).cache()
    hot.collect()
    location = env.list_cached()[0].location
    assert location is not None
    for file in location.glob("*.parquet"):
        # As long and as old as before, so that nothing but reading it tells.
        status = file.stat()
        damaged = bytearray(file.read_bytes())
        damaged[8:40] = bytes(32)
        file.write_bytes(damaged)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        hot.filter("id > 2").write.mode("overwrite").parquet(source)
    assert rows(spark, source) == LEFT
    assert "lost kept data" in caplog.text
