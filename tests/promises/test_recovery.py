"""A program whose driver is killed resumes, and writes each row once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes
from tests.short_lived_jvm import environment_of_program

NIGHTLY = """
import os, signal, sys
from pyspark.sql import functions as F
from holdfast import Environment

home = sys.argv[1]
recovery = "execution.batch.job-recovery"
env = Environment(config={
    "intermediate-result-storage.directory": home + "/kept",
    "high-availability.storageDir": "file://" + home + "/ha",
    recovery + ".enabled": True,
    recovery + ".min-vertex-input": 0,
})
orders = env.read.parquet(home + "/orders")
orders.where("k = 3").write.mode("append").parquet(home + "/threes")
if not os.path.exists(home + "/restarted"):
    os.kill(os.getpid(), signal.SIGKILL)
orders.groupBy("k").agg(F.sum("id").alias("s")).write.mode("append").parquet(home + "/sums")
env.close()
"""


@pytest.fixture
def orders(plain: SparkSession, tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    plain.range(0, 300, 1, 3).selectExpr("id", "id % 7 AS k").write.parquet(str(path))
    return path


def test_a_killed_program_resumes_and_writes_once(
    plain: SparkSession, orders: Path, tmp_path: Path
) -> None:
    (tmp_path / "nightly.py").write_text(NIGHTLY)
    for expected in (-signal.SIGKILL, 0):
        command = [sys.executable, str(tmp_path / "nightly.py"), str(tmp_path)]
        settings = {"PYSPARK_PYTHON": sys.executable, "MASTER": "local[1]"}
        ended = subprocess.run(
            command, env=os.environ | environment_of_program() | settings, capture_output=True
        )
        assert ended.returncode == expected, ended.stderr
        (tmp_path / "restarted").touch()
        assert plain.read.parquet(str(tmp_path / "threes")).count() == 43
    assert plain.read.parquet(str(tmp_path / "sums")).agg(F.sum("s")).first() == (44850,)
    assert not [*(tmp_path / "ha").glob("job-*")]


def test_what_it_has_kept_is_there_at_the_next_start(
    spark: SparkSession, orders: Path, tmp_path: Path
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "high-availability.storageDir": f"file://{tmp_path}/ha",
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.after-errors": True,
        "pipeline.name": "nightly",
    }
    with pytest.raises(KeyError), Environment(spark.newSession(), config=config) as env:
        env.read.parquet(str(orders)).groupBy("k").count().cache().collect()
        raise KeyError("as asked")
    with Environment(spark.newSession(), config=config) as env:
        assert env.read.parquet(str(orders)).groupBy("k").count().cache().count() == 7
        assert VertexOutcome.READ in outcomes(env)
