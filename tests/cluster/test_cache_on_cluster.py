"""Kept partitions lie where tasks ran, on two nodes; what is lost there costs no rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for

Driver = Any
KeptFiles = Callable[[LocalCluster], set[Path]]

SECONDS = 60


def locks(cluster: LocalCluster) -> set[Path]:
    """What marks applications as living ones."""
    return {path for node in cluster.workers for path in node.directory.glob("application-*/lock")}


def parts_on(cluster: LocalCluster, node: int) -> list[Path]:
    found = cluster.workers[node].directory.glob("application-*/datasets/*/part-*.parquet")
    return sorted(found)


@pytest.fixture(scope="module")
def lasting_driver(
    cluster: LocalCluster, start_lasting_driver: Callable[..., Driver], kept_files: KeptFiles
) -> Iterator[Driver]:
    """The driver of this file's tests."""
    driver = start_lasting_driver(cluster)
    yield driver
    driver.end()
    # Not even what only marks an application as a living one.
    assert not kept_files(cluster)


@pytest.fixture
def driver(
    cluster: LocalCluster, lasting_driver: Driver, kept_files: KeptFiles
) -> Iterator[Driver]:
    """A driver with an environment on the cluster that keeps nothing yet."""
    yield lasting_driver
    lasting_driver("env.invalidate_all()")
    assert wait_for(lambda: None if kept_files(cluster) - locks(cluster) else True, SECONDS)


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
    # Spark reads small files together, where most of them lie: each has its own task here.
    one_each = "spark.sql.files.openCostInBytes"
    driver(f"env.spark.conf.set('{one_each}', 2**30)")
    found = driver("localities(lambda: hot.agg(F.max('w')).collect())")
    driver(f"env.spark.conf.unset('{one_each}')")
    assert driver("outcomes()[0]") == "read from cache"
    assert found.keys() == {"NODE_LOCAL"}
    assert len(found["NODE_LOCAL"]) == 8
    assert sorted(set(found["NODE_LOCAL"])) == ["127.0.0.2", "127.0.0.3"]
    # An order that the computation fixes comes back, though its partitions lie here and there.
    assert driver("remember('ordered', numbers().orderBy(F.desc('w')))")
    assert driver("[r.w for r in ordered.collect()] == sorted([r.w for r in hot.collect()])[::-1]")
    # No token of the executors' can be had from what Spark shows.
    assert cluster.token_file.read_text().strip() not in plan


def test_rows_flow_on_from_both_nodes_while_they_are_kept(
    cluster: LocalCluster, driver: Driver
) -> None:
    alone = driver("jobs(lambda: summed(numbers()).collect())")
    assert driver("lazily('hot', numbers())")
    assert driver("jobs(lambda: summed(hot).collect())") == alone
    assert driver("outcomes()") == ["produced", "run"]
    assert driver("hosts()") == ["127.0.0.2", "127.0.0.3"]
    assert len(parts_on(cluster, 0)) + len(parts_on(cluster, 1)) == 8
    assert driver("rows(summed(hot)) == rows(summed(numbers()))")
    assert driver("outcomes()[0]") == "read from cache"
    assert driver("rows(hot) == rows(numbers())")


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


@pytest.mark.soak
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


def test_a_task_executor_that_is_killed_while_a_job_reads_from_it(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers(parts=6))")
    driver.tell("rows(slowly(hot, 1)) == rows(numbers())")
    # Two of the six partitions are being read.
    time.sleep(1)
    cluster.kill_task_executor(0)
    try:
        assert driver.answer()
    finally:
        cluster.restart_task_executor(0)
    assert driver("rows(hot) == rows(numbers())")


@pytest.mark.soak
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


@pytest.mark.soak
def test_a_task_executor_started_again_empty_has_its_datasets_made_again(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', numbers())")
    cluster.restart_task_executor(0, empty=True)
    assert driver("rows(hot) == rows(numbers())")
    both = ["127.0.0.2", "127.0.0.3"]
    driver.comes_to("(hot.count(), outcomes()[0], hosts())", [4000, "read from cache", both])
    assert driver("rows(hot) == rows(numbers())")


@pytest.mark.soak
def test_of_a_shuffle_only_the_partitions_of_the_lost_task_executor_are_made_again(
    cluster: LocalCluster, driver: Driver
) -> None:
    assert driver("remember('hot', grouped())")
    lost, left = len(parts_on(cluster, 0)), len(parts_on(cluster, 1))
    assert lost and left
    cluster.restart_task_executor(0, empty=True)
    # By the next heartbeats the driver has found it.
    time.sleep(2)
    assert driver("rows(hot) == rows(grouped())")
    assert driver("outcomes()[0]") == "produced"
    assert driver("env.last_job_result.vertices[0].taken_over") == left
    assert driver("rows(hot) == rows(grouped())")
    assert driver("outcomes()[0]") == "read from cache"
    assert driver("hosts()") == ["127.0.0.2", "127.0.0.3"]


@pytest.mark.soak
def test_a_task_executor_that_hangs_is_done_without(cluster: LocalCluster, driver: Driver) -> None:
    assert driver("remember('hot', numbers())")
    cluster.workers[1].task_executor.pause()
    try:
        assert driver("rows(hot) == rows(numbers())")
        assert driver("bool(env.last_job_result.losses)")
    finally:
        cluster.workers[1].task_executor.resume()
    driver.comes_to("(hot.count(), outcomes()[0])", [4000, "produced"])
    assert driver("rows(hot) == rows(numbers())")


@pytest.mark.soak
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


def test_a_worker_that_is_killed_while_it_writes_leaves_no_orphans(
    cluster: LocalCluster, driver: Driver
) -> None:
    driver.comes_to("executors()", 2)
    driver.tell("remember('hot', slowly(numbers(parts=2), 2))")
    directory = cluster.workers[0].directory
    assert wait_for(
        lambda: True if list(directory.glob("application-*/staging/*/_temporary")) else None,
        SECONDS,
    )
    cluster.kill_worker(0)
    try:
        assert driver.answer()
        assert driver("outcomes()[0]") in ("produced", "not kept")
        # The fixture's end sees to it that no file is left of what the killed task wrote.
    finally:
        cluster.restart_worker(0)


@pytest.mark.soak
def test_a_stream_is_kept_on_both_nodes_and_made_again_when_one_is_lost(
    cluster: LocalCluster, driver: Driver
) -> None:
    driver.comes_to("executors()", 2)
    assert driver("remember_stream('pairs')")
    assert driver("outcomes()") == ["produced", "run"]
    assert driver("hosts()") == ["127.0.0.2", "127.0.0.3"]
    assert driver("sums(pairs)")
    assert driver("outcomes()[0]") == "read from cache"
    cluster.kill_task_executor(1)
    try:
        assert driver("sums(pairs)")
        assert driver("bool(env.last_job_result.losses)")
    finally:
        cluster.restart_task_executor(1)
    driver.comes_to("(sums(pairs), outcomes()[0])", [True, "read from cache"])
