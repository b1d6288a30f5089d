"""A Spark that differs from those that Holdfast is written for costs what needs what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.short_lived_jvm import environment_of_program

# Computes, keeps, verifies, recovers, hands out and writes: as much as may need something.
PROGRAM = """
import json, os, sys
from pyspark.sql import SparkSession
from holdfast import Environment

spark = (
    SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.range(20).selectExpr("id", "id % 3 AS k").write.parquet("source")
with Environment(spark, {
    "intermediate-result-storage.directory": f"{os.getcwd()}/kept",
    "intermediate-result-storage.verify-fraction": 1.0,
    "execution.batch.job-recovery.enabled": True,
    "high-availability.storageDir": f"{os.getcwd()}/jobs",
}) as env:
    asked = env.sql("SELECT k, count(*) AS n FROM parquet.`source` GROUP BY k")
    try:
        asked = asked.cache()
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
    rows = [asked.collect(), asked.collect(), asked.to_dataframe().collect()]
    asked.write.parquet("out")
    rows.append(spark.read.parquet("out").collect())
print(json.dumps([sorted(each) for each in rows]))
"""
JAVA = Path("spark", "java")
CLASSES = sorted(each.stem for each in (Path(holdfast.__file__).parent / JAVA).iterdir())
BROKEN = {
    "two": ("RetainedShuffles", "UncachedQueries"),
    "all": ("PlanReader",),
    **{name: (name,) for name in CLASSES},
}


@pytest.mark.slow
@pytest.mark.parametrize("which", BROKEN)
@pytest.mark.sampled(len(BROKEN))
def test_jobs_answer_without_what_this_spark_lacks_and_say_once_what_that_is(
    tmp_path: Path, which: str
) -> None:
    package = tmp_path / "package" / "holdfast"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(holdfast.__file__).parent, package, ignore=ignored)
    for name in BROKEN[which]:
        source = package / JAVA / f"{name}.java"
        text = source.read_text().replace("package holdfast;", "package holdfast; import no.Such;")
        source.write_text(text)
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path / "home",
        env=os.environ
        | environment_of_program()
        | {"PYTHONPATH": str(package.parent), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[[0, 7], [1, 7], [2, 6]]] * 4
    assert done.stderr.count("not available: ") == 1, done.stderr
    if which == "two":
        assert "not available: verifying results; recovering shuffles\n" in done.stderr
    if which == "all":
        assert "jobs run as if there were no Holdfast" in done.stderr
