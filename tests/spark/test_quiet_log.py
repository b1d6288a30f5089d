"""A program that is run with Holdfast prints, logs and raises what it does on plain Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.short_lived_jvm import environment_of_program

PROGRAM = """
import json, logging, sys, time
shown = "%(levelname)s %(name)s %(message)s"
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=shown)
from pyspark.sql import SparkSession, functions as F
from pyspark.ml.feature import VectorAssembler
import helping

def odd(n: int) -> bool:
    return n % 2 == 1

session = spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
again = SparkSession.builder.getOrCreate()
answers = [sys.argv[1:2], __name__, __file__, helping.NAME, again is spark]
spark.sparkContext.setLogLevel("WARN")
if len(sys.argv) > 2:
    from holdfast import Environment
    spark = Environment(session, config=json.loads(sys.argv[2]))
spark.sql(
    "SELECT id, id % 7 AS day, named_struct('city', concat('c', id % 3), 'day', id % 5) AS at "
    "FROM range(60000)"
).write.parquet("visits")
spark.sql("SELECT id AS day, id % 2 = 0 AS open FROM range(7)").write.parquet("days")
for name in ("visits", "days"):
    spark.read.parquet(name).createOrReplaceTempView(name)
joined = spark.table("visits").join(spark.table("days"), "day").cache()
answers += [sorted(joined.groupBy("open").count().collect()), joined.where("id < 10").count()]
joined.unpersist()
numbers = spark.table("days").where(F.udf(odd, "boolean")("day")).cache()
answers += [numbers.count(), spark.sql("SELECT sum(day) AS s FROM {n}", n=numbers).collect()]
if hasattr(spark, "holdfast"):
    did = [repr(spark.holdfast.last_job_result)]
join = "visits JOIN days USING (day)"
for least in range(2):
    for keys in ("at.city", "open, at.day"):
        rows = spark.sql(f"SELECT {keys}, max(id) FROM {join} WHERE id > {least} GROUP BY {keys}")
        answers.append(sorted(map(tuple, rows.collect())))
for _ in range(2):
    days = spark.read.parquet("visits").groupBy("day").count().collect()
    answers.append(sorted(map(tuple, days)))
if hasattr(spark, "holdfast"):
    did.append(f"reused {spark.holdfast.last_job_result.reused_exchanges}")
    open("did", "w").write(" ".join(did))
# What recurs in queries that don't ask for all rows is produced while the program is idle, until
# the next query stops that.
for pause in (0.6, 0.7, 0.8):
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
raise ValueError("as asked")
"""
_OF_CANCELLED_JOBS = (
    "N/N/N N:N:N WARN AccumulatorContext: Attempted to access garbage collected accumulator N"
)
"""Spark's own, where a task ends after its job and a garbage collection came between, but Spark's
cleaner has not. Seen once; which accumulator it was isn't known."""
_OPTIONS = ("--implicit", "-c", "implicit-cache.results.min-saved-time=0 s")


class Ran(NamedTuple):
    """What a program leaves."""

    printed: set[str]
    logged: set[str]
    """Lines on the other channel, and of its error, without the numbers in them."""
    answers: str
    did: str


def run(home: Path, *command: str, arguments: tuple[str, ...] = ()) -> Ran:
    """Runs the program in a directory, beside which it is."""
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(parents=True)
    (home / "helping.py").write_text("NAME = 'beside the program'\n", encoding="utf-8")
    (home / "program.py").write_text(PROGRAM, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, *command, str(home / "program.py"), "--flag", *arguments],
        capture_output=True,
        text=True,
        cwd=elsewhere,
        env=os.environ | environment_of_program() | {"PYSPARK_PYTHON": sys.executable},
        timeout=300,
    )
    assert ended.returncode == 1 and ended.stderr.endswith("\nValueError: as asked\n"), ended.stderr
    # Connections are closed after the report.
    out, err = (each.replace(str(home), "").splitlines() for each in (ended.stdout, ended.stderr))
    (answers,) = [each for each in out if each.startswith("[[")]
    printed, logged = (
        {re.sub("[0-9a-f]*[0-9][0-9a-f]*", "N", each) for each in channel} - {_OF_CANCELLED_JOBS}
        for channel in (set(out) - {answers}, err)
    )
    did = elsewhere / "did"
    return Ran(printed, logged, answers, did.read_text() if did.exists() else "")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(tmp_path_factory.mktemp("alone") / "plain")


def assert_as_plain(found: Ran, plain: Ran) -> None:
    assert found.answers == plain.answers
    assert found.printed <= plain.printed
    assert found.logged <= plain.logged


@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [_OPTIONS, ("-c", "intermediate-result-storage.lifetime=1 d")])
@pytest.mark.sampled(2)
def test_a_program_behaves_as_without_holdfast(
    tmp_path: Path, plain: Ran, options: tuple[str, ...]
) -> None:
    where = f"intermediate-result-storage.directory={tmp_path / 'kept'}"
    attached = run(tmp_path / "attached", "-m", "holdfast", "run", "-c", where, *options)
    assert "read from cache" in attached.did and plain.did == ""
    assert ("reused 1" in attached.did) is ("--implicit" in options)
    assert_as_plain(attached, plain)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_so_does_a_program_with_an_environment(tmp_path: Path, plain: Ran) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
    }
    found = run(tmp_path / "environment", arguments=(json.dumps(config),))
    assert_as_plain(found, plain)
