"""Programs that end with an exception of their own, and are started again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

PROGRAM = """
import os
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from holdfast import Environment

here, after_errors, how = sys.argv[1:]

def weigh(s: int) -> int:
    if how == "the job" and not os.path.exists(here + "/mended"):
        raise ValueError("as asked")
    return s

def write(env: Environment) -> None:
    orders = env.read.parquet(here + "/orders")
    orders.where("k = 7").write.mode("append").parquet(here + "/first")
    if how in ("the program", "close") and not os.path.exists(here + "/mended"):
        raise ValueError("as asked")
    counts = orders.groupBy("k").agg(F.count("*").alias("n"), F.max("w").alias("m"))
    joined = orders.join(counts, "k").groupBy("n").agg(F.sum("id").alias("s"))
    weighed = joined.select("n", F.udf(weigh, "long")("s").alias("s"))
    weighed.write.mode("append").parquet(here + "/second")
    outcomes = [each.outcome.value for each in env.last_job_result.vertices]
    print("recovered" in outcomes)

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.autoBroadcastJoinThreshold", "-1").getOrCreate()
)
config = {
    "execution.batch.job-recovery.enabled": True,
    "execution.batch.job-recovery.after-errors": after_errors,
    "execution.batch.job-recovery.min-vertex-input": 0,
    "high-availability.storageDir": "file://" + here + "/ha",
    "intermediate-result-storage.directory": here + "/store",
    "pipeline.name": "nightly",
}
if how == "close":
    with Environment(spark, config) as env:
        write(env)
elif how == "caught":
    env = Environment(spark, config)
    try:
        write(env)
        raise ValueError("as asked")
    except ValueError:
        print("caught")
else:
    write(Environment(spark, config))
"""


def run(here: Path, after_errors: bool, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(here / "nightly.py"), str(here), str(after_errors).lower(), how]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path) -> Path:
    rows = spark.range(0, 3000, 1, 3).select(
        "id", (F.col("id") % 50).alias("k"), F.sha2(F.col("id").cast("string"), 256).alias("w")
    )
    rows.write.parquet(str(tmp_path / "orders"))
    (tmp_path / "nightly.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("after_errors", "how"),
    [(True, "the job"), (True, "the program"), (True, "close"), (False, "the job")],
)
@pytest.mark.timeout(600)
@pytest.mark.sampled(3)
def test_a_program_that_has_raised_goes_on(
    spark: SparkSession, here: Path, after_errors: bool, how: str
) -> None:
    raised = run(here, after_errors, how)
    assert raised.returncode == 1
    assert "ValueError: as asked" in raised.stderr
    (here / "mended").touch()
    ended = run(here, after_errors, how)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == [str(after_errors and how == "the job")]
    # What was written before the exception is written again only where it is not to be known.
    assert spark.read.parquet(str(here / "first")).count() == (60 if after_errors else 120)
    second = spark.read.parquet(str(here / "second")).collect()
    assert [(row.n, row.s) for row in second] == [(60, sum(range(3000)))]
    assert not list((here / "ha").glob("job-*"))
    assert not list((here / "store").rglob("recoverable-*"))


@pytest.mark.timeout(600)
def test_a_program_that_catches_its_exceptions_has_ended(spark: SparkSession, here: Path) -> None:
    for _ in range(2):
        ended = run(here, True, "caught")
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.split() == ["False", "caught"]
    assert spark.read.parquet(str(here / "first")).count() == 120
    assert not list((here / "ha").glob("job-*"))
