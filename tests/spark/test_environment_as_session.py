"""What an Environment has of a session, and what it says to what is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment, Table
from holdfast.errors import NotADataFrameError


def test_what_it_creates_are_tables(env: Environment) -> None:
    made = [
        env.range(3),
        env.range(1, 7, 2),
        env.createDataFrame([(1, "a"), (2, None)], "id int, name string"),
        env.createDataFrame(pd.DataFrame({"id": [1, 2], "x": [0.5, float("nan")]})),
        env.createDataFrame([], "id int"),
    ]
    for table in made:
        assert isinstance(table, Table)
        assert sorted(map(repr, table.cache().collect())) == sorted(
            map(repr, DataFrame.collect(env.plain(table)))
        )
    assert len(env.list_cached()) == len(made)


def test_the_active_session_stays_the_programs_own(spark: SparkSession, env: Environment) -> None:
    SparkSession._activeSession = spark
    numbers = env.createDataFrame([(1,)], "id int")
    numbers.sparkSession.createDataFrame([(2,)], "id int")
    with pytest.raises(TypeError):
        env.createDataFrame(1)
    assert SparkSession.getActiveSession() is spark
    assert not isinstance(SparkSession.active().range(1), Table)


def test_batches_of_streams_read_what_is_kept(env: Environment, tmp_path: Path) -> None:
    hot = env.range(5).withColumnRenamed("id", "k").cache()
    env.range(7).write.parquet(str(tmp_path / "in"))
    stream = env.readStream.schema("id long").parquet(str(tmp_path / "in"))
    seen: list[tuple[bool, int, list[str]]] = []

    def batch(rows: DataFrame, _: int) -> None:
        joined = rows.join(hot, rows.id == hot.k)
        count = joined.count()
        result = cast(Any, joined.sparkSession).holdfast.last_job_result
        seen.append((isinstance(joined, Table), count, [v.outcome.value for v in result.vertices]))

    hot.count()
    query = (
        stream.writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert seen == [(True, 5, ["read from cache", "run"])]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (pd.DataFrame({"id": [1]}), "pandas.*DataFrame"),
        ([1, 2], "builtins.list"),
        (None, "NoneType"),
        ("orders", "builtins.str"),
    ],
)
def test_what_is_no_dataframe_is_refused(env: Environment, given: Any, named: str) -> None:
    with pytest.raises(NotADataFrameError, match=named):
        env.from_dataframe(given)


def test_a_session_that_was_stopped_is_refused() -> None:
    program = """
import holdfast
from pyspark.sql import SparkSession
from holdfast.errors import SessionStoppedError
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.stop()
for start in (holdfast.Environment, holdfast.attach):
    try:
        start(spark)
    except SessionStoppedError as error:
        print(error)
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.count("the Spark session has been stopped") == 2
