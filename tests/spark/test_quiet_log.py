"""A program's log has nothing of Holdfast unless something went wrong: as much as plain Spark's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, logging, sys, time
shown = "%(levelname)s %(name)s %(message)s"
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=shown)
from pyspark.sql import SparkSession
from pyspark.ml.feature import VectorAssembler

session = spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
spark.sparkContext.setLogLevel("WARN")
if len(sys.argv) > 1:
    from holdfast import Environment
    spark = Environment(session, config=json.loads(sys.argv[1]))
spark.sql(
    "SELECT id, id % 7 AS day, named_struct('city', concat('c', id % 3), 'day', id % 5) AS at "
    "FROM range(100000)"
).write.parquet("visits")
spark.sql("SELECT id AS day, id % 2 = 0 AS open FROM range(7)").write.parquet("days")
for name in ("visits", "days"):
    spark.read.parquet(name).createOrReplaceTempView(name)
joined = spark.table("visits").join(spark.table("days"), "day").cache()
answers = [joined.groupBy("open").count().collect(), joined.where("id < 10").count()]
joined.unpersist()
join = "visits JOIN days USING (day)"
for least in range(3):
    for keys in ("at.city", "open, at.day"):
        rows = spark.sql(f"SELECT {keys}, max(id) FROM {join} WHERE id > {least} GROUP BY {keys}")
        answers.append(sorted(map(tuple, rows.collect())))
# What recurs in queries that don't ask for all rows is produced while the program is idle, until
# the next query stops that.
for pause in (0.6, 0.7, 0.8, 0.9):
    spark.sql(f"SELECT *, sha2(CAST(id AS STRING), 512) AS s FROM {join} ORDER BY s").take(1)
    time.sleep(pause)
    spark.range(10).count()
VectorAssembler(inputCols=["id", "day"], outputCol="v").transform(spark.table("visits")).take(1)
answers += [spark.table("visits").rdd.count(), len(spark.table("days").toPandas())]
answers.append(spark.sql("EXPLAIN SELECT * FROM days").count())

def each(rows, number):
    rows.count()

stream = spark.readStream.schema("id long, day long").parquet("visits").writeStream
stream = stream.option("checkpointLocation", "checkpoint").foreachBatch(each)
stream.trigger(availableNow=True).start().awaitTermination()
print(json.dumps(answers))
if spark is not session:
    spark.close()
session.stop()
"""
_OF_CANCELLED_JOBS = (
    "N/N/N N:N:N WARN AccumulatorContext: Attempted to access garbage collected accumulator N"
)
"""Spark's own, where a task ends after its job and a garbage collection came between, but Spark's
cleaner has not. Seen once; which accumulator it was isn't known."""
_OPTIONS = ("--implicit", "-c", "implicit-cache.results.min-saved-time=0 s")


def lines(
    home: Path, *command: str, arguments: tuple[str, ...] = ()
) -> tuple[set[str], set[str], str]:
    """What a program says on either channel, whatever the numbers in it, and its report."""
    home.mkdir()
    (home / "program.py").write_text(PROGRAM, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, *command, "program.py", *arguments],
        capture_output=True,
        text=True,
        cwd=home,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    # Connections are closed after the report.
    (report,) = [each for each in ended.stdout.splitlines() if each.startswith("[[")]
    said = [each for each in ended.stdout.splitlines() if each != report]
    without_numbers = [
        {re.sub("[0-9a-f]*[0-9][0-9a-f]*", "N", each) for each in channel} - {_OF_CANCELLED_JOBS}
        for channel in (said, ended.stderr.splitlines())
    ]
    return without_numbers[0], without_numbers[1], report


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str], str]:
    return lines(tmp_path_factory.mktemp("alone") / "plain")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [_OPTIONS, ("-c", "intermediate-result-storage.lifetime=1 d")])
@pytest.mark.sampled(2)
def test_an_attached_program_logs_nothing_that_a_plain_one_does_not(
    tmp_path: Path, plain: tuple[set[str], set[str], str], options: tuple[str, ...]
) -> None:
    where = f"intermediate-result-storage.directory={tmp_path / 'kept'}"
    attached = lines(tmp_path / "attached", "-m", "holdfast", "run", "-c", where, *options)
    assert attached[2] == plain[2]
    assert attached[0] <= plain[0]
    assert attached[1] <= plain[1]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nor_does_a_program_with_an_environment(
    tmp_path: Path, plain: tuple[set[str], set[str], str]
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
    }
    in_environment = lines(tmp_path / "environment", arguments=(json.dumps(config),))
    assert in_environment[2] == plain[2]
    assert in_environment[0] <= plain[0]
    assert in_environment[1] <= plain[1]
