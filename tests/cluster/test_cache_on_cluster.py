"""Kept partitions lie where tasks ran, on two nodes; whatever is lost there, the rows are right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.local_cluster.local_cluster import LocalCluster
from holdfast.cli.local_cluster.waiting import wait_for

StartProgram = Callable[..., Any]

SECONDS = 60
LEASE = 5

# A driver that does what it is told, a line of Python at a time, and answers in JSON.
PROGRAM = f"""
import logging, sys, time
from pyspark.sql import functions as F
from holdfast import Environment

logging.basicConfig(level=logging.WARNING)
env = Environment(spark, {{
    "taskexecutor.addresses": ",".join(task_executors),
    "taskexecutor.token-file": str(token_file),
    "heartbeat.interval": "500 ms",
    "heartbeat.timeout": "{LEASE} s",
}})

def numbers(rows=4000, parts=8):
    return spark.range(0, rows, 1, parts).select(
        "id", (F.col("id") % 7).alias("k"), F.sha2(F.col("id").cast("string"), 256).alias("w")
    )

def rows(df):
    return sorted(tuple(row) for row in df.collect())

def outcomes():
    return [vertex.outcome.value for vertex in env.last_job_result.vertices]

def hosts():
    kept = env.last_job_result.persistent_result_partitions.descriptors
    locations = [each.location for partitions in kept.values() for each in partitions]
    return sorted({{location.split("/")[2].split(":")[0] for location in locations}})

def incomplete():
    return len(env.last_job_result.persistent_result_partitions.incomplete)

def localities(act):
    context = spark.sparkContext
    context.addJobTag("measured")
    act()
    context.removeJobTag("measured")
    scala = context._jsc.sc()
    scala.listenerBus().waitUntilEmpty()
    store = scala.statusStore()
    found = {{}}
    jobs = store.jobsList(None)
    for number in range(jobs.size()):
        job = jobs.apply(number)
        if job.jobTags().contains("measured"):
            for stage in [job.stageIds().apply(i) for i in range(job.stageIds().size())]:
                tasks = store.taskList(stage, 0, 1000)
                for index in range(tasks.size()):
                    task = tasks.apply(index)
                    if task.taskMetrics().get().inputMetrics().recordsRead() > 0:
                        found.setdefault(task.taskLocality(), []).append(task.host())
    return found

def slowly(df):
    return df.mapInPandas(lambda it: (time.sleep(20) or each for each in it), df.schema)

def remember(name, df):
    globals()[name] = env.from_dataframe(df).cache()
    return rows(globals()[name]) == rows(df)

print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
env.close()
spark.stop()
"""


class Driver:
    """A running program, told what to evaluate."""

    def __init__(self, program: Any) -> None:
        self.program = program
        assert self._answer() == "ready"

    def __call__(self, expression: str) -> Any:
        self.program.stdin.write(expression + "\n")
        self.program.stdin.flush()
        return self._answer()

    def comes_to(self, expression: str, expected: Any) -> None:
        """Evaluates an expression until it is what is expected."""
        found = []

        def is_there() -> bool | None:
            found[:] = [self(expression)]
            return True if found[0] == expected else None

        if not wait_for(is_there, SECONDS):
            pytest.fail(f"{expression} stays {found[0]}:\n{self.program.complaints()}")

    def end(self) -> None:
        self.program.communicate(timeout=SECONDS)
        assert self.program.returncode == 0, self.program.complaints()

    def _answer(self) -> Any:
        line = self.program.stdout.readline()
        if not line:
            self.program.wait()
            pytest.fail(f"the driver has ended:\n{self.program.complaints()}")
        return json.loads(line)


def kept_files(cluster: LocalCluster) -> list[Path]:
    """Everything of applications that lies on the nodes and on the driver's side."""
    places = [*(node.directory for node in cluster.workers), cluster.kept]
    return [path for place in places for path in place.glob("application-*/**/*") if path.is_file()]


def locks(cluster: LocalCluster) -> set[Path]:
    """What marks applications as living ones."""
    return {path for node in cluster.workers for path in node.directory.glob("application-*/lock")}


def parts_on(cluster: LocalCluster, node: int) -> list[Path]:
    found = cluster.workers[node].directory.glob("application-*/datasets/*/part-*.parquet")
    return sorted(found)


def nothing_is_left(cluster: LocalCluster) -> bool:
    # The driver's own side holds empty directories at most, for a moment.
    return bool(wait_for(lambda: None if kept_files(cluster) else True, SECONDS))


@pytest.fixture(scope="module")
def lasting_driver(cluster: LocalCluster, start_lasting_program: StartProgram) -> Iterator[Driver]:
    """The driver of this file's tests."""
    driver = Driver(start_lasting_program(cluster, PROGRAM))
    yield driver
    driver.end()
    # Not even what only marks an application as a living one.
    assert not [path for path in kept_files(cluster) if path.is_file()]


@pytest.fixture
def driver(cluster: LocalCluster, lasting_driver: Driver) -> Iterator[Driver]:
    """A driver with an environment on the cluster that keeps nothing yet."""
    yield lasting_driver
    lasting_driver("env.invalidate_all()")
    assert wait_for(lambda: None if set(kept_files(cluster)) - locks(cluster) else True, SECONDS)


def test_partitions_lie_on_both_nodes_and_are_read_beside_their_data(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    assert driver("outcomes()") == ["produced", "run"]
    assert driver("hosts()") == ["127.0.0.2", "127.0.0.3"]
    assert len(parts_on(cluster, 0)) + len(parts_on(cluster, 1)) == 8
    assert parts_on(cluster, 0)
    assert parts_on(cluster, 1)
    # What is read again, and how it is read: filters and columns are pushed into the files.
    plain = "numbers().where('k = 3').groupBy('k').agg(F.count('*'), F.max('w'))"
    assert driver(f"rows({plain.replace('numbers()', 'hot')}) == rows({plain})")
    assert driver("outcomes()[0]") == "read from cache"
    plan = driver("hot.where('k = 3').select('id').to_dataframe()._jdf.queryExecution().toString()")
    assert "webhdfs://" in plan
    assert "EqualTo(k,3)" in plan
    assert "Batched: true" in plan
    found = driver("localities(lambda: hot.agg(F.max('w')).collect())")
    assert found.keys() == {"NODE_LOCAL"}
    assert sorted(set(found["NODE_LOCAL"])) == ["127.0.0.2", "127.0.0.3"]
    # An order that the computation fixes comes back, though its partitions lie here and there.
    assert driver("remember('ordered', numbers().orderBy(F.desc('w')))")
    assert driver("[r.w for r in ordered.collect()] == sorted([r.w for r in hot.collect()])[::-1]")
    # No token of the executors' can be had from what Spark shows.
    assert cluster.token_file.read_text().strip() not in plan


def test_invalidating_reaches_every_node_and_leaves_other_datasets_alone(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('one', numbers(2000))")
    assert driver("remember('other', numbers(3000))")
    assert len(parts_on(cluster, 0)) + len(parts_on(cluster, 1)) == 16
    assert driver("one.invalidate_cache()") is None
    assert len(parts_on(cluster, 0)) + len(parts_on(cluster, 1)) == 8
    assert driver("other.count()") == 3000
    assert driver("outcomes()[0]") == "read from cache"
    assert driver("one.count()") == 2000
    assert driver("outcomes()[0]") == "produced"


def test_a_task_executor_that_is_killed_costs_time_and_no_rows(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    cluster.kill_task_executor(0)
    try:
        assert driver("rows(hot) == rows(numbers())")
        assert driver("outcomes()[0]") in ("not kept", "produced")
        assert driver("bool(env.last_job_result.losses)")
    finally:
        cluster.restart_task_executor(0)
    driver.comes_to("(hot.count(), outcomes()[0])", [4000, "produced"])
    assert driver("rows(hot) == rows(numbers())")
    assert driver("outcomes()[0]") == "read from cache"


def test_a_task_executor_started_again_still_has_what_it_kept(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    before = parts_on(cluster, 0)
    cluster.kill_task_executor(0)
    cluster.restart_task_executor(0)
    assert parts_on(cluster, 0) == before
    driver.comes_to("(hot.count(), outcomes()[0])", [4000, "read from cache"])
    assert driver("rows(hot) == rows(numbers())")


def test_a_task_executor_started_again_empty_has_its_datasets_made_again(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    cluster.restart_task_executor(0, empty=True)
    assert driver("rows(hot) == rows(numbers())")
    both = ["127.0.0.2", "127.0.0.3"]
    driver.comes_to("(hot.count(), outcomes()[0], hosts())", [4000, "read from cache", both])
    assert driver("rows(hot) == rows(numbers())")


def test_a_task_executor_that_hangs_is_done_without(cluster: LocalCluster, driver: Driver) -> None:
    assert driver("remember('hot', numbers())")
    cluster.pause_task_executor(1)
    try:
        assert driver("rows(hot) == rows(numbers())")
        assert driver("bool(env.last_job_result.losses)")
    finally:
        cluster.resume_task_executor(1)
    driver.comes_to("(hot.count(), outcomes()[0])", [4000, "produced"])
    assert driver("rows(hot) == rows(numbers())")


def test_a_worker_that_is_killed_leaves_its_partitions_readable(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    cluster.kill_worker(0)
    try:
        assert driver("rows(hot) == rows(numbers())")
        assert driver("outcomes()[0]") == "read from cache"
        assert driver("remember('more', numbers(5000))")
        assert driver("outcomes()[0]") == "produced"
    finally:
        cluster.restart_worker(0)


def test_what_a_killed_driver_has_kept_goes_with_its_lease(
    cluster: LocalCluster, start_program: StartProgram
) -> None:
    driver = Driver(start_program(cluster, PROGRAM))
    assert driver("remember('hot', numbers())")
    # And one that is only half written.
    driver.program.stdin.write("env.from_dataframe(slowly(numbers())).cache().count()\n")
    driver.program.stdin.flush()
    assert wait_for(
        lambda: (
            True
            if list(cluster.workers[0].directory.glob("application-*/staging/*/_temporary"))
            else None
        ),
        SECONDS,
    )
    assert kept_files(cluster)
    driver.program.kill_all()
    assert nothing_is_left(cluster)
