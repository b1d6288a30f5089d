"""Programs that are killed, or end with an exception of their own, and are started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import main
from tests.short_lived_jvm import environment_of_program

BEGIN = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from holdfast import Environment

here, how, *more = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.autoBroadcastJoinThreshold", "-1").getOrCreate()
)
config = {
    "execution.batch.job-recovery.enabled": True,
    "execution.batch.job-recovery.after-errors": "remembered" in more,
    "execution.batch.job-recovery.min-vertex-input": 0,
    "high-availability.storageDir": "file://" + here + "/ha",
    "intermediate-result-storage.directory": here + "/store",
}
if "sharing" in more:
    config["intermediate-result-storage.sharing"] = "group"
"""
WRITES = """
def weigh(s: int) -> int:
    if how == "the job" and not os.path.exists(here + "/mended"):
        raise ValueError("as asked")
    return s

def write(env: Environment) -> None:
    orders = env.read.parquet(here + "/orders")
    orders.where("k = 7").write.mode("append").parquet(here + "/first")
    if how in ("the program", "close", "caught") and not os.path.exists(here + "/mended"):
        raise ValueError("as asked")
    counts = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("w").alias("m"))
    joined = orders.join(counts, "k").groupBy("n").agg(F.sum("id").alias("s"))
    weighed = joined.select("n", F.udf(weigh, "long")("s").alias("s"))
    weighed.write.mode("append").parquet(here + "/second")
    print("recovered" in [each.outcome.value for each in env.last_job_result.vertices])

config["pipeline.name"] = "nightly"
if how == "close":
    with Environment(spark, config) as env:
        write(env)
else:
    try:
        write(Environment(spark, config))
    except ValueError:
        if how != "caught":
            raise
"""
CACHES = """
least = int(how)
env = Environment(spark, config)
orders = env.read.parquet(here + "/orders")
by_key = orders.where(f"id >= {least}").groupBy("k").count().cache()
largest = by_key.groupBy("count").count().cache()
said = []
for job, table in enumerate((by_key.where("k < 4"), largest, by_key.where("k > 3"))):
    rows = sorted(map(tuple, table.collect()))
    outcomes = [each.outcome.value for each in env.last_job_result.vertices][:-1]
    said.append(outcomes + ([rows] if job == 0 else []))
    if f"dies after {job}" in more:
        print(json.dumps(said), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps(said), flush=True)
if "raises" in more:
    raise ValueError("as asked")
if "closes" in more:
    env.close()
"""


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Path:
    rows = spark.range(0, 3000, 1, 3).selectExpr("id", "id % 50 AS k", "sha2(string(id), 256) AS w")
    rows.write.parquet(str(tmp_path / "orders"))
    (tmp_path / "writes.py").write_text(BEGIN + WRITES, encoding="utf-8")
    (tmp_path / "caches.py").write_text(BEGIN + CACHES, encoding="utf-8")
    return tmp_path


def run(here: Path, program: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(here / program), str(here), *args],
        capture_output=True,
        text=True,
        env={**os.environ, **environment_of_program(), "PYSPARK_PYTHON": sys.executable},
        timeout=300,
    )


# -- what is written -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("the job", "remembered"),
        ("the program", "remembered"),
        ("close", "remembered"),
        ("the job", "forgotten"),
    ],
)
@pytest.mark.timeout(600)
@pytest.mark.sampled(4)
def test_a_program_that_has_raised_is_continued(
    spark: SparkSession, here: Path, how: str, more: str
) -> None:
    raised = run(here, "writes.py", how, more)
    assert raised.returncode == 1
    assert "ValueError: as asked" in raised.stderr
    (here / "mended").touch()
    ended = run(here, "writes.py", how, more)
    assert ended.returncode == 0, ended.stderr
    remembered = more == "remembered"
    assert ended.stdout.split() == [str(remembered and how == "the job")]
    # What was written before the exception is written again only where that is not to be known.
    assert spark.read.parquet(str(here / "first")).count() == (60 if remembered else 120)
    second = spark.read.parquet(str(here / "second")).collect()
    assert [tuple(row) for row in second] == [(60, sum(range(3000)))]
    assert not list((here / "ha").glob("job-*"))
    assert not list((here / "store").rglob("recoverable-*"))


@pytest.mark.timeout(600)
@pytest.mark.soak
def test_a_program_that_catches_its_exceptions_has_ended(spark: SparkSession, here: Path) -> None:
    for _ in range(2):
        ended = run(here, "writes.py", "caught", "remembered")
        assert ended.returncode == 0, ended.stderr
    assert spark.read.parquet(str(here / "first")).count() == 120
    assert not list((here / "ha").glob("job-*"))


# -- what is cached --------------------------------------------------------------------------------

READ, PRODUCED = "read from cache", "produced"


def cached(here: Path, least: int, *more: str) -> list[list[str]]:
    """What each job did, without its last step, which answers."""
    ended = run(here, "caches.py", str(least), *more)
    dies = any(each.startswith("dies") for each in more)
    assert ended.returncode == (-signal.SIGKILL if dies else "raises" in more), ended.stderr
    said = json.loads(ended.stdout)
    rows = said[0].pop()
    assert rows == [[k, sum(i % 50 == k for i in range(least, 3000))] for k in range(4)]
    return [sorted(each) for each in said]


def results(here: Path) -> list[Path]:
    """The files of what is kept."""
    return list((here / "store").rglob("part-*.parquet"))


@pytest.mark.timeout(600)
def test_the_next_start_reads_what_a_killed_program_has_cached_and_removes_it(here: Path) -> None:
    assert cached(here, 0, "dies after 1") == [[PRODUCED], [PRODUCED, READ]]
    assert main(["gc", "--yes", "--directory", str(here / "store")]) == 0
    assert cached(here, 0, "raises") == [[READ], [READ], [READ]]
    assert results(here) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["closes", "sharing"])
@pytest.mark.soak
def test_a_program_that_has_changed_removes_what_it_does_not_read(here: Path, how: str) -> None:
    assert cached(here, 0, "dies after 1", how)[0] == [PRODUCED]
    assert cached(here, 1, "dies after 0", how) == [[PRODUCED]]
    assert cached(here, 0, how)[0] == [READ]
    assert cached(here, 1, how)[0] in ([READ], [PRODUCED])
    assert results(here) == []
