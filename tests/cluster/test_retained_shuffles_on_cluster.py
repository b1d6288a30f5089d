"""What map tasks on a cluster have written outlives a driver that is killed in a shuffle."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for

SECONDS = 120
FILES = 8
ROWS = 4_000
EXPECTED = [[k, sum(range(k, ROWS, 7)), len(range(k, ROWS, 7))] for k in range(7)]
# No attempt of a task has such a number.
ADOPTED = "**/shuffle_*_1125899906842???_0.index"
pytestmark = pytest.mark.timeout(600)

Settings = dict[str, object]


def left(cluster: LocalCluster) -> list[set[str]]:
    """For each node the map tasks whose output it keeps."""
    return [
        {
            file.name.partition("-")[0]
            for file in node.directory.glob("recoverable-*/shuffles/*/*.index")
        }
        for node in cluster.workers
    ]


def collected(cluster: LocalCluster) -> list[dict[str, int]]:
    """For each node the tasks whose rows it keeps for a broadcast, and when it was given them."""
    return [
        {
            file.stem: file.stat().st_mtime_ns
            for file in node.directory.glob("recoverable-*/shuffles/*/*.rows")
        }
        for node in cluster.workers
    ]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": "1 kb",
        "high-availability.storageDir": (tmp_path / "jobs").as_uri(),
    }


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def first(
    cluster: LocalCluster, start_driver: Callable[..., Any], settings: Settings, data: str
) -> Any:
    """A driver that has written the rows that jobs read."""
    driver = start_driver(cluster, settings)
    assert driver(f"numbers({ROWS}, {FILES}).write.parquet({data!r})") is None
    return driver


@pytest.fixture
def killed(cluster: LocalCluster, first: Any, data: str) -> str:
    """What a driver was computing when it was killed, half of its map tasks being done."""
    job = f"summed_slowly({data!r}, 1)"
    first.tell(job)
    assert wait_for(lambda: True if all(left(cluster)) else None, SECONDS)
    first.program.kill_all()
    assert len(set.union(*left(cluster))) < FILES
    return job


def recovered(driver: Any) -> int:
    found: int = driver("env.last_job_result.vertices[-1].recovered_tasks")
    return found


def test_only_the_other_map_tasks_run_in_the_next_start(
    cluster: LocalCluster, start_driver: Callable[..., Any], settings: Settings, killed: str
) -> None:
    done = set.union(*left(cluster))
    second = start_driver(cluster, settings)
    assert second(killed) == EXPECTED
    assert recovered(second) == len(done)
    # The job has ended: nothing of it is to be found again.
    assert left(cluster) == [set(), set()]
    second.end()


@pytest.mark.soak
def test_what_is_lost_with_an_executor_after_it_was_adopted_runs_again(
    cluster: LocalCluster, start_driver: Callable[..., Any], settings: Settings, killed: str
) -> None:
    spark_s = cluster.workers[0].directory.parent / "spark"
    second = start_driver(cluster, settings)
    second.tell(killed)
    assert wait_for(lambda: True if list(spark_s.glob(ADOPTED)) else None, SECONDS)
    cluster.kill_worker(0)
    try:
        assert second.answer() == EXPECTED
    finally:
        cluster.restart_worker(0)
    second.end()


@pytest.mark.soak
def test_what_was_collected_for_a_broadcast_is_not_collected_again(
    cluster: LocalCluster,
    start_driver: Callable[..., Any],
    settings: Settings,
    first: Any,
    data: str,
) -> None:
    job = f"broadcast_slowly({data!r}, 1)"
    first.tell(job)
    assert wait_for(lambda: True if all(collected(cluster)) else None, SECONDS)
    first.program.kill_all()
    of_first = collected(cluster)
    assert sum(map(len, of_first)) < FILES
    second = start_driver(cluster, settings)
    second.tell(job)
    assert wait_for(lambda: True if all(left(cluster)) else None, SECONDS)
    second.program.kill_all()
    of_both = collected(cluster)
    assert sum(map(len, of_both)) == FILES
    assert all(kept.items() <= now.items() for kept, now in zip(of_first, of_both, strict=True))
    done = set.union(*left(cluster))
    third = start_driver(cluster, settings)
    assert third(job) == EXPECTED
    assert recovered(third) == FILES + len(done)
    assert left(cluster) == [set(), set()] and not any(collected(cluster))
    third.end()


@pytest.mark.soak
def test_what_shuffle_files_hold_is_not_kept_beside_them(first: Any, data: str) -> None:
    # Another node would be tried out when it comes up.
    executors = "spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1"
    assert wait_for(lambda: True if first(executors) == 2 else None, SECONDS)
    few = f"spark.read.parquet({data!r}).where('id < 40')"
    query = f"{few}.groupBy('w').count().groupBy('count').agg(F.count('*'))"
    assert first(f"rows(env.from_dataframe({query}))") == first(f"rows({query})")
    assert first("len(env.last_job_result.vertices)") == 1
    # Whether files can be kept on a node is tried out once.
    jobs = "len(spark.sparkContext.statusTracker().getJobIdsForGroup())"
    before = first(jobs)
    first(f"rows(env.from_dataframe({query}))")
    after = first(jobs)
    assert first(f"rows({query})") and after - before == first(jobs) - after
    first.end()


@pytest.mark.soak
def test_what_one_node_has_lost_runs_again(
    cluster: LocalCluster, start_driver: Callable[..., Any], settings: Settings, killed: str
) -> None:
    for directory in cluster.workers[0].directory.glob("recoverable-*/shuffles"):
        shutil.rmtree(directory)
    there = left(cluster)[1]
    second = start_driver(cluster, settings)
    assert second(killed) == EXPECTED
    assert recovered(second) == len(there)
    second.end()
