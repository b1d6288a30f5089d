"""`python -m tests.chaos.driver ORDERS`: runs a program's jobs, with Holdfast or without."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from holdfast import Environment
from tests.chaos import streams
from tests.chaos.orders import Diary, Orders
from tests.chaos.programs import COLLECTED, Job, query_of, tables_of

_SECONDS_AFTER_JOBS = 0.3
"""A driver that dies after its last job dies in this time."""
_SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
    """Does what the orders say; notes each step in the diary."""
    logging.basicConfig(level=logging.WARNING)
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    orders = Orders.load(Path(sys.argv[1]))
    spark = SparkSession.builder.config(map=dict(orders.spark)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    perform(orders, spark)
    spark.stop()


def perform(orders: Orders, spark: SparkSession) -> None:
    """Runs the jobs in a session."""
    diary = Diary(orders.diary)
    diary.tell("session")
    # Streams have no plain form: theirs is an environment without recovery.
    with Environment(spark, orders.holdfast or {}) as env:
        reader = spark.read if orders.holdfast is None else env.read
        for table in tables_of(orders.jobs):
            path = orders.data / f"{table}.parquet"
            # A job of Spark's for each table would find the same out.
            df = reader.schema(schema_of(path)).parquet(str(path))
            if table == "lineitem" and orders.slowness:
                df = slowed(df, orders.slowness)
            df.createOrReplaceTempView(table)
        diary.tell("environment")
        for number, job in enumerate(orders.jobs):
            diary.tell("begin", job=number)
            run(env, orders, job, is_plain=orders.holdfast is None)
            diary.tell("end", job=number, vertices=vertices(env))
        time.sleep(_SECONDS_AFTER_JOBS)
        diary.tell("closing")
    diary.tell("closed")


def schema_of(table: Path) -> StructType:
    """What a table's files say of its columns."""
    return from_arrow_schema(pyarrow.parquet.read_schema(min(table.glob("*.parquet"))))


def end_with(watcher: int) -> None:
    """Ends this process and its JVM when the process that has started it is gone."""
    while os.getppid() == watcher:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.killpg(0, signal.SIGKILL)


def slowed(df: DataFrame, seconds: float) -> DataFrame:
    """The same rows, each task of which waits first."""
    wait = time.sleep

    def waiting(batches: Any) -> Any:
        wait(seconds)
        yield from batches

    return df.mapInArrow(waiting, df.schema)


def run(env: Environment, orders: Orders, job: Job, *, is_plain: bool) -> None:
    """Runs one job to its end."""
    path = job.path(orders.output)
    if job.is_stream:
        if job.format != COLLECTED:
            streams.write(env, orders.data, job, path)
        else:
            save_collected(path, streams.collect(env, orders.data, job))
        return
    query = query_of(job.name)
    table = env.spark.sql(query) if is_plain else env.sql(query)
    if job.format == COLLECTED:
        save_collected(path, [tuple(row) for row in table.collect()])
        return
    writer = table.write.format(job.format).mode(job.mode)
    if job.partition_by:
        writer = writer.partitionBy(*job.partition_by)
    writer.save(str(path))


def save_collected(path: Path, rows: list[Any]) -> None:
    """Leaves the rows where the watcher finds them: the last start's replace an earlier one's."""
    path.mkdir(parents=True, exist_ok=True)
    temporary = path / "_rows"
    temporary.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    os.replace(temporary, path / "rows")


def vertices(env: Environment) -> list[tuple[str, str]]:
    """What became of the last job's vertices."""
    result = env.last_job_result
    return [] if result is None else [(v.name, v.outcome.value) for v in result.vertices]


if __name__ == "__main__":
    main()
