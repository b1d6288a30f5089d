"""Tasks of a job that is recovered are short, and the same in each of its starts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.graph.plan_cuts import MIB
from holdfast.graph.task_sizes import PlanEffort
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.spark.recovery.task_dealing import TaskDealing, task_dealing
from holdfast.spark.session_settings import session_inputs

MOST_OF_FILES = "spark.sql.files.maxPartitionBytes"
COST_OF_FILE = "spark.sql.files.openCostInBytes"
SHUFFLED_TO = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
PARTITIONS = "spark.sql.shuffle.partitions"
MOST_SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
EFFORT = PlanEffort(100 * MIB, 400 * MIB, False)
QUARTER = timedelta(milliseconds=250)


def node(operator: str = "Aggregate", **changes: Any) -> CanonicalNode:
    return replace(CanonicalNode(operator, "", (), (), 0, (0,), False, 0, False), **changes)


def config(home: Path) -> dict[str, Any]:
    return {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": "8 mb",
        "execution.batch.job-recovery.task-time": "1 ms",
        "high-availability.storageDir": (home / "ha").as_uri(),
        "intermediate-result-storage.directory": str(home / "store"),
        "catalog.url": "none",
    }


def totals(spark: Any, path: str) -> DataFrame:
    # Work that takes its time.
    hashed = F.col("w")
    for _ in range(12):
        hashed = F.sha2(hashed, 512)
    read = spark.read.parquet(path).withColumn("h", hashed)
    totals: DataFrame = read.groupBy("k").agg(F.count("*").alias("n"), F.max("h").alias("m"))
    return totals


KILLED = """
import json, os, signal, sys, threading, time
from contextlib import suppress
from pathlib import Path
from pyspark.sql import SparkSession
from holdfast import Environment
from tests.spark.test_task_dealing import config, totals

spark = SparkSession.builder.master("local[2]").config(map=json.loads(sys.argv[1])).getOrCreate()
home = Path(sys.argv[2])

def ended():
    with suppress(OSError):
        return len(list((home / "store").rglob("shuffles/*/*.index")))
    return 0

def die():
    while ended() < 3:
        time.sleep(0.005)
    os.killpg(0, signal.SIGKILL)

threading.Thread(target=die, daemon=True).start()
totals(Environment(spark, config=config(home)), sys.argv[3]).collect()
"""


@pytest.fixture(scope="module")
def one_file(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file that Spark would read in one task for each core: 20 MB of many row groups."""
    path = str(tmp_path_factory.mktemp("data") / "orders")
    rows = spark.range(0, 100_000, 1, 1).select(
        "id", (F.col("id") % 10).alias("k"), F.expr("randstr(200, 1)").alias("w")
    )
    rows.write.option("parquet.block.size", str(2 << 20)).parquet(path)
    return path


@pytest.fixture
def settings_of(spark: SparkSession) -> dict[str, str]:
    """Those of the session that a job is known by, and its driver's."""
    keys = ("spark.sql.", "spark.driver.bindAddress", "spark.driver.host", "spark.ui.")
    return {
        key: value for key, value in spark.sparkContext.getConf().getAll() if key.startswith(keys)
    }


def test_what_a_killed_driver_s_short_tasks_have_left_is_read(
    spark: SparkSession, one_file: str, settings_of: dict[str, str], tmp_path: Path
) -> None:
    local = {"spark.local.dir": str(tmp_path / "local")}
    command = [sys.executable, "-c", KILLED, json.dumps(settings_of | local)]
    ended = subprocess.run(
        [*command, str(tmp_path), one_file],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    left = len(list((tmp_path / "store").rglob("shuffles/*/*.index")))
    assert left >= 3
    most = spark.conf.get(MOST_OF_FILES)
    expected = Counter(map(repr, totals(spark, one_file).collect()))
    # It goes by what the first start has recorded.
    otherwise = {"execution.batch.job-recovery.task-time": 0}
    with Environment(spark, config=config(tmp_path) | otherwise) as env:
        assert Counter(map(repr, totals(env, one_file).collect())) == expected
        result = env.last_job_result
    assert result is not None
    assert result.vertices[-1].recovered_tasks == left
    assert spark.conf.get(MOST_OF_FILES) == most


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    with Environment(spark, config=config(tmp_path)) as env:
        yield env


def test_rows_that_tell_their_tasks_are_those_of_plain_spark(
    spark: SparkSession, env: Environment, one_file: str
) -> None:
    def tasks(session: Any) -> list[str]:
        read = session.read.parquet(one_file).withColumn("p", F.spark_partition_id())
        return sorted(map(repr, read.groupBy("p").agg(F.count("*"), F.max("id")).collect()))

    assert tasks(env) == tasks(spark)


def test_no_more_files_are_written_than_plain_spark_writes(
    spark: SparkSession, env: Environment, one_file: str, tmp_path: Path
) -> None:
    for name, session in (("ours", env), ("plain", spark)):
        few = session.read.parquet(one_file).where("k < 2").select("k").distinct()
        read = session.read.parquet(one_file).select("id", "k")
        read.join(F.broadcast(few), "k").write.parquet(str(tmp_path / name))
    ours, plain = (list((tmp_path / name).glob("*.parquet")) for name in ("ours", "plain"))
    assert len(ours) == len(plain)
    assert Counter(map(repr, spark.read.parquet(*map(str, ours)).collect())) == Counter(
        map(repr, spark.read.parquet(*map(str, plain)).collect())
    )


def test_what_the_user_has_set_stays(spark: SparkSession) -> None:
    inputs = session_inputs(spark)
    unset = {key: value for key, value in inputs.settings.items() if key != PARTITIONS}
    inputs = replace(inputs, settings=unset)
    ours = task_dealing(spark, inputs, EFFORT, QUARTER)
    assert ours.settings[MOST_OF_FILES] == str(4 * MIB)
    assert ours.settings[MOST_SHUFFLED] == str(4 * MIB)
    assert int(ours.settings[SHUFFLED_TO]) > 200
    assert ours.settings[COST_OF_FILE] == str(MIB // 8)
    for key in (MOST_OF_FILES, MOST_SHUFFLED, SHUFFLED_TO):
        given = replace(inputs, settings={**inputs.settings, key: "100"})
        assert key not in task_dealing(spark, given, EFFORT, QUARTER).settings
    given = replace(inputs, settings={**inputs.settings, COST_OF_FILE: "7"})
    assert task_dealing(spark, given, EFFORT, QUARTER).settings[COST_OF_FILE] == "7"
    given = replace(inputs, settings={**inputs.settings, PARTITIONS: "4"})
    assert SHUFFLED_TO not in task_dealing(spark, given, EFFORT, QUARTER).settings
    assert not task_dealing(spark, inputs, EFFORT, timedelta(0)).settings
    # Spark's own are as short then.
    assert not task_dealing(spark, inputs, EFFORT, timedelta(seconds=60)).settings


def test_what_is_seen_of_the_tasks_stays() -> None:
    files = {MOST_OF_FILES: "1", SHUFFLED_TO: "3"}
    dealing = TaskDealing({**files, MOST_SHUFFLED: "2"}, shows=False)
    assert dealing.of_vertex(node()) == dealing.of_answer(node(), written=False)
    assert dealing.of_vertex(node()) == dealing.settings
    assert dealing.of_kept(node()) == dealing.of_answer(node(), written=True) == files
    assert replace(dealing, shows=True).of_answer(node(), written=True) == {}
    for told in (node(layout_sensitive=True), node(doubts=(Why.RANDOM.of("Uuid"),))):
        assert not dealing.of_vertex(told) and not dealing.of_kept(told)
        assert not dealing.of_answer(told, written=False)
