"""Should Spark ever refuse a plan that reads kept data, the job answers without it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.spark.partition_reader import PartitionReader
from holdfast.storage.kept_dataset import KeptDataSet


class ForgetfulReader(PartitionReader):
    """Leaves out a column, which Spark notices when it makes the physical plan."""

    def plan(self, kept: KeptDataSet, node: Any, *arguments: Any, **options: Any) -> Any:
        read = super().plan(kept, node, *arguments, **options)
        return self._logical_relation(read.relation(), read.output().tail())


class UnableReader(PartitionReader):
    """Fails in the JVM before there is a plan."""

    def plan(self, kept: KeptDataSet, node: Any, *arguments: Any, **options: Any) -> Any:
        return super().plan(kept, node.noSuchMethod(), *arguments, **options)


@pytest.mark.parametrize("reader", [ForgetfulReader, UnableReader])
def test_the_job_answers_and_says_so(
    env: Environment, spark: SparkSession, caplog: pytest.LogCaptureFixture, reader: Any
) -> None:
    df = spark.range(100).selectExpr("id % 7 AS k", "id AS v")
    hot = env.from_dataframe(df).cache()
    assert hot.count() == 100
    env._master._runner._reader = reader(spark)  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        rows = hot.groupBy("k").sum("v").collect()
    assert sorted(rows) == sorted(df.groupBy("k").sum("v").collect())
    assert [r for r in caplog.records if "without kept results" in r.getMessage()]


def test_an_action_that_spark_refuses_anyway_fails_as_on_spark(
    env: Environment, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    df = spark.range(10)
    hot = env.from_dataframe(df).cache()
    hot.count()
    with pytest.raises(AnalysisException) as expected:
        df.approxQuantile("missing", [0.5], 0.1)
    with (
        caplog.at_level(logging.WARNING, logger="holdfast"),
        pytest.raises(AnalysisException) as got,
    ):
        hot.approxQuantile("missing", [0.5], 0.1)
    assert str(got.value) == str(expected.value)
    assert not [r for r in caplog.records if r.name.startswith("holdfast")]
