"""Programs that are killed, or end with an exception of their own, and are started again.

In the suite, `test_changed_inputs` kills one, and jobs of `test_recoverable_jobs` fail.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.short_lived_jvm import environment_of_program

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]

BEGIN = """
import json, os, signal, sys
from pyspark.sql import SparkSession
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
config["pipeline.name"] = "nightly"
env = Environment(spark, config)
try:
    orders = env.read.parquet(here + "/orders")
    orders.where("k = 7").write.mode("append").parquet(here + "/first")
    if not os.path.exists(here + "/mended"):
        raise ValueError("as asked")
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


@pytest.mark.parametrize(("how", "once"), [("uncaught", True), ("caught", False)])
def test_a_program_that_has_raised_is_continued_unless_it_catches_that(
    spark: SparkSession, here: Path, how: str, once: bool
) -> None:
    raised = run(here, "writes.py", how, "remembered")
    assert ("ValueError: as asked" in raised.stderr) is once
    (here / "mended").touch()
    ended = run(here, "writes.py", how, "remembered")
    assert ended.returncode == 0, ended.stderr
    assert spark.read.parquet(str(here / "first")).count() == (60 if once else 120)
    assert not list((here / "ha").glob("job-*"))


# -- what is cached --------------------------------------------------------------------------------

READ, PRODUCED = "read from cache", "produced"


def cached(here: Path, least: int, *more: str) -> list[list[str]]:
    """What each job did, without its last step, which answers."""
    ended = run(here, "caches.py", str(least), *more)
    dies = any(each.startswith("dies") for each in more)
    assert ended.returncode == (-signal.SIGKILL if dies else 0), ended.stderr
    said = json.loads(ended.stdout)
    rows = said[0].pop()
    assert rows == [[k, sum(i % 50 == k for i in range(least, 3000))] for k in range(4)]
    return [sorted(each) for each in said]


@pytest.mark.parametrize("how", ["closes", "sharing"])
def test_a_program_that_has_changed_removes_what_it_does_not_read(here: Path, how: str) -> None:
    assert cached(here, 0, "dies after 1", how)[0] == [PRODUCED]
    assert cached(here, 1, "dies after 0", how) == [[PRODUCED]]
    assert cached(here, 0, how)[0] == [READ]
    assert cached(here, 1, how)[0] in ([READ], [PRODUCED])
    assert not list((here / "store").rglob("part-*.parquet"))
