"""A nightly program is killed on one day, and started again on the next, with other inputs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import main
from tests.short_lived_jvm import environment_of_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_PROGRAM = """
import logging, os, signal, sys
from pyspark.sql import SparkSession
from holdfast import Environment

def die(where):
    if where == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)

def hook(event, args):
    if event == "os.rename" and str(args[0]).endswith(".sealed") and ".gone" in str(args[1]):
        # It has been published, and nothing is recorded of that.
        die("published " + os.path.basename(args[0]).split(".")[1])

home, dies_at = sys.argv[1:]
sys.addaudithook(hook)
logging.basicConfig(level=logging.WARNING)
spark = (
    SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
config = {
    "execution.batch.job-recovery.enabled": True,
    "high-availability.storageDir": f"file://{home}/ha",
    "intermediate-result-storage.directory": f"{home}/kept",
}
with Environment(spark, config=config) as env:
    env.read.parquet(f"{home}/shops").groupBy("k").count().cache().collect()
    print(env.last_job_result.vertices[0].outcome.value, flush=True)
    for name in ("append", "error", "ignore", "overwrite", "last"):
        days = env.read.parquet(f"{home}/in")
        mode = "append" if name == "last" else name
        days.selectExpr("day", f"'{name}' AS k").write.mode(mode).parquet(f"{home}/{name}")
        die(f"done {name}")
    chained = env.read.parquet(f"{home}/append").selectExpr("day")
    chained.write.mode("overwrite").parquet(f"{home}/chained")
    die("done chained")
"""
OUTPUTS = ("append", "error", "ignore", "overwrite", "last", "chained")


class Nights:
    """Runs of the program over days of input."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self.home = home
        self.cached: list[str] = []
        """What became of what the program has cached, in each run."""
        for name in ("append", "overwrite", "shops"):
            self._write(name, "before")

    def day(self, name: str) -> None:
        self._write("in", name)

    def run(self, dies_at: str = "") -> str:
        status, said = self.ended(dies_at)
        assert status == (-signal.SIGKILL if dies_at else 0), said[-3000:]
        return said

    def ended(self, dies_at: str = "") -> tuple[int, str]:
        """The program's exit status, and what it has said of errors."""
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(self.home), dies_at],
            capture_output=True,
            text=True,
            env={**os.environ, **environment_of_program(), "PYSPARK_PYTHON": sys.executable},
        )
        self.cached.append(ended.stdout.strip())
        return ended.returncode, ended.stderr

    def rows(self, name: str) -> list[str]:
        path = self.home / name
        if not path.exists():
            return []
        assert not list(path.glob(".holdfast-*")) or name not in OUTPUTS
        return sorted(row[0] for row in self._spark.read.parquet(str(path)).select("day").collect())

    def check(self, days: Sequence[str]) -> None:
        """Each output holds these days once, beside what was there before where it keeps that."""
        expected = {name: sorted(days) for name in OUTPUTS}
        for name in ("append", "chained"):
            expected[name] = sorted(["before", *days])
        assert {name: self.rows(name) for name in OUTPUTS} == expected

    def _write(self, directory: str, day: str) -> None:
        frame = self._spark.createDataFrame([(day, "x")], "day string, k string").coalesce(1)
        frame.write.mode("append").parquet(str(self.home / directory))


@pytest.fixture
def nights(spark: SparkSession, tmp_path: Path) -> Nights:
    return Nights(spark, tmp_path)


@pytest.mark.parametrize(
    "dies_at",
    [
        pytest.param("done error", marks=pytest.mark.soak),
        "published overwrite",
        # What has read what the run itself has written is done again, too.
        pytest.param("done chained", marks=pytest.mark.soak),
    ],
)
def test_a_day_that_has_come_is_in_all_outputs(nights: Nights, dies_at: str) -> None:
    nights.day("day 2")
    nights.run(dies_at)
    nights.day("day 3")
    assert main(["gc", "--yes", "--directory", str(nights.home / "kept")]) == 0
    said = nights.run()
    nights.check(["day 2", "day 3"])
    assert nights.cached == ["produced", "read from cache"]
    assert not list((nights.home / "kept").rglob("part-*.parquet"))
    assert said.count("replaces its earlier output: 1 files were added since") >= 2
    assert not list((nights.home / "ha").glob("job-*"))


@pytest.mark.soak
def test_what_is_done_again_may_be_killed_as_well(nights: Nights) -> None:
    nights.day("day 2")
    nights.run("done ignore")
    nights.day("day 3")
    nights.run("published error")
    nights.run("done error")
    nights.day("day 4")
    nights.run("done append")
    nights.run()
    nights.check(["day 2", "day 3", "day 4"])


@pytest.mark.soak
def test_an_input_that_was_replaced_is_in_no_output(nights: Nights) -> None:
    nights.day("day 2")
    nights.run("done ignore")
    shutil.rmtree(nights.home / "in")
    nights.day("day 3")
    nights.run()
    nights.check(["day 3"])


@pytest.mark.soak
def test_rows_that_can_t_be_told_from_others_keep_the_run_at_its_inputs(
    nights: Nights, spark: SparkSession
) -> None:
    nights.day("day 2")
    nights.run("done error")
    nights.day("day 3")
    # Somebody has compacted what was appended.
    rows = spark.read.parquet(str(nights.home / "append")).coalesce(1)
    rows.write.parquet(str(nights.home / "compacted"))
    shutil.rmtree(nights.home / "append")
    (nights.home / "compacted").rename(nights.home / "append")
    # Now what was read isn't there, either.
    first = min((nights.home / "in").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    first.rename(nights.home / "aside")
    before = {name: nights.rows(name) for name in OUTPUTS}
    status, said = nights.ended()
    assert status == 1
    assert "MixedInputsError: write.parquet needs the files that this program read" in said
    assert f"{first.name} was removed" in said
    assert {name: nights.rows(name) for name in OUTPUTS} == before
    (nights.home / "aside").rename(first)
    said = nights.run()
    nights.check(["day 2"])
    assert "Run the program once more to process the others" in said


@pytest.mark.soak
def test_inputs_that_stay_are_not_read_again(nights: Nights) -> None:
    nights.day("day 2")
    nights.run("done ignore")
    said = nights.run()
    nights.check(["day 2"])
    assert said.count("not rerunning it") == 3
    assert "rerun from scratch" not in said
