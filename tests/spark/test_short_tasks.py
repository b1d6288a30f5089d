"""Tasks of a job that is recovered are short, and the same in each of its starts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.spark.starts import Starts, recovered_tasks

MOST_OF_FILES = "spark.sql.files.maxPartitionBytes"
TASK_TIME = "execution.batch.job-recovery.task-time"
CONFIG = {"execution.batch.job-recovery.min-vertex-input": "8 mb", TASK_TIME: "1 ms"}


def totals(session: Any, path: str) -> DataFrame:
    # Work that takes its time.
    hashed = F.col("w")
    for _ in range(12):
        hashed = F.sha2(hashed, 512)
    read = session.read.parquet(path).withColumn("h", hashed)
    found: DataFrame = read.groupBy("k").agg(F.count("*").alias("n"), F.max("h").alias("m"))
    return found


@pytest.fixture(scope="module")
def one_file(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file that Spark would read in one task for each core: 20 MB of many row groups."""
    path = str(tmp_path_factory.mktemp("data") / "orders")
    rows = spark.range(0, 100_000, 1, 1).selectExpr("id", "id % 10 AS k", "randstr(200, 1) AS w")
    rows.write.option("parquet.block.size", str(2 << 20)).parquet(path)
    return path


@pytest.fixture
def starts(spark: SparkSession, tmp_path: Path) -> Iterator[Starts]:
    with Starts(spark, tmp_path, dict(CONFIG)) as found:
        yield found


def test_what_short_tasks_have_left_is_read_by_what_their_start_has_recorded(
    starts: Starts, one_file: str
) -> None:
    asked = partial(totals, path=one_file)
    assert starts.leave(asked) >= 5
    left = starts.lose(0.4, "some")
    rows, result = starts.run(asked, **{TASK_TIME: 0})
    assert rows == starts.plain_rows(asked)
    assert recovered_tasks(result) == left > 0


@pytest.mark.parametrize(
    ("values", "config", "least", "most"),
    [
        ({}, {}, 5, 99),
        ({}, {TASK_TIME: 0}, 1, 2),
        # What the user has set stays.
        ({MOST_OF_FILES: str(1 << 30)}, {}, 1, 2),
    ],
    ids=["short", "left to Spark", "set"],
)
def test_how_many_tasks_read_a_file(
    starts: Starts,
    one_file: str,
    settings: Any,
    values: dict[str, str],
    config: dict[str, Any],
    least: int,
    most: int,
) -> None:
    with settings(values):
        assert least <= starts.leave(partial(totals, path=one_file), **config) <= most


def test_rows_that_show_their_tasks_are_those_of_plain_spark(starts: Starts, one_file: str) -> None:
    def tasks(session: Any) -> Any:
        read = session.read.parquet(one_file).withColumn("p", F.spark_partition_id())
        return read.groupBy("p").agg(F.count("*"), F.max("id"))

    assert starts.run(tasks)[0] == starts.plain_rows(tasks)


def test_no_more_files_are_written_than_plain_spark_writes(
    spark: SparkSession, starts: Starts, one_file: str, tmp_path: Path
) -> None:
    found = []
    for name, session in (("ours", starts.start()), ("plain", spark)):
        few = session.read.parquet(one_file).where("k < 2").select("k").distinct()
        read = session.read.parquet(one_file).select("id", "k")
        read.join(F.broadcast(few), "k").write.parquet(str(tmp_path / name))
        rows = starts.plain_rows(lambda s, name=name: s.read.parquet(str(tmp_path / name)))
        found.append((len(list((tmp_path / name).glob("*.parquet"))), rows))
    assert found[0] == found[1]
