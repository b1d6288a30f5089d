"""What a killed program has cached is read by its next start, and goes when the program ends."""

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

PROGRAM = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from holdfast import Environment

here, dies_after, *more = sys.argv[1:]
least = int(more[0]) if more else 0
spark = SparkSession.builder.master("local[1]").getOrCreate()
config = {
    "execution.batch.job-recovery.enabled": "unrecovered" not in more,
    "high-availability.storageDir": here + "/ha",
    "intermediate-result-storage.directory": here + "/store",
}
if "sharing" in more:
    config["intermediate-result-storage.sharing"] = "group"
env = Environment(spark, config)
orders = env.read.parquet(here + "/orders")
by_key = orders.where(f"id >= {least}").groupBy("k").count().cache()
largest = by_key.groupBy("count").count().cache()
said = []
for job, table in enumerate((by_key.where("k > 3"), largest, by_key.where("k < 3"))):
    rows = sorted(map(tuple, table.collect()))
    said.append([each.outcome.value for each in env.last_job_result.vertices] + [rows])
    if job == int(dies_after):
        print(json.dumps(said), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps(said), flush=True)
if "raises" in more:
    raise ValueError("as asked")
if "closes" in more:
    env.close()
"""

READ, PRODUCED = "read from cache", "produced"


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Path:
    orders = spark.range(0, 1_000, 1, 2).selectExpr("id", "id % 7 AS k")
    orders.write.parquet(str(tmp_path / "orders"))
    (tmp_path / "nightly.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def run(here: Path, dies_after: int | None, *more: str) -> list[list[str]]:
    """What each job did, without its last step, which answers; its rows are always the same."""
    at = -1 if dies_after is None else dies_after
    ended = subprocess.run(
        [sys.executable, str(here / "nightly.py"), str(here), str(at), *more],
        capture_output=True,
        text=True,
        env={**os.environ, **environment_of_program(), "PYSPARK_PYTHON": sys.executable},
        timeout=300,
    )
    ends_with = 1 if "raises" in more else 0
    expected = ends_with if dies_after is None else -signal.SIGKILL
    assert ended.returncode == expected, ended.stderr
    said = json.loads(ended.stdout)
    least = int(more[0]) if more else 0
    counts = [(k, sum(i % 7 == k for i in range(least, 1_000))) for k in range(7)]
    assert said[0][-1] == [[k, n] for k, n in counts if k > 3]
    return [sorted(each[:-2]) for each in said]


def results(here: Path) -> list[Path]:
    """The manifests of what is kept."""
    return list((here / "store").rglob("_manifest.json"))


@pytest.mark.timeout(600)
def test_the_next_start_reads_what_a_killed_program_has_cached(here: Path) -> None:
    assert run(here, 1) == [[PRODUCED], [PRODUCED, READ]]
    assert run(here, 0) == [[READ]]
    # One that is not recovered, which knows files by more than that, and one that has changed.
    assert run(here, None, "0", "unrecovered")[0] == [PRODUCED]
    assert run(here, 0, "1") == [[PRODUCED]]
    gc = [sys.executable, "-m", "holdfast", "gc", "--yes", "--directory", str(here / "store")]
    subprocess.run(gc, check=True, capture_output=True)
    assert run(here, None) == [[READ], [READ], [READ]]
    assert run(here, None, "1", "closes")[0] == [READ]
    assert results(here) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["closes", "raises", "sharing"])
def test_what_a_program_has_cached_goes_when_it_ends(here: Path, how: str) -> None:
    assert run(here, 1, "0", how)[0] == [PRODUCED]
    assert run(here, None, "0", how) == [[READ], [READ], [READ]]
    assert results(here) == []
