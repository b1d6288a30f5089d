"""What a driver that is killed has kept on two nodes: for whom it is there, and what goes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.ids import CATALOG_APPLICATION
from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for
from tests.taskexecutor.sharing_programs import held_files

SECONDS = 120
FILES, ROWS, GROUPS = 8, 4_000, 7
EXPECTED = [[k, sum(range(k, ROWS, GROUPS)), len(range(k, ROWS, GROUPS))] for k in range(GROUPS)]
NODES = ["127.0.0.2", "127.0.0.3"]
# No attempt of a task has such a number.
ADOPTED = "**/shuffle_*_1125899906842???_0.index"
pytestmark = pytest.mark.timeout(600)

Settings = dict[str, object]
Start = Callable[..., Any]


def becomes(condition: Callable[[], object]) -> bool:
    return wait_for(lambda: True if condition() else None, SECONDS) is True


def published(cluster: LocalCluster, kind: str) -> set[Path]:
    """The files of published partitions on the nodes, of applications or of recoverable jobs."""
    return {
        file
        for node in cluster.workers
        for file in node.directory.glob(f"{kind}-*/datasets/*/part-*.parquet")
        if CATALOG_APPLICATION.hex not in str(file)
    }


def held(cluster: LocalCluster) -> list[int]:
    """How many partitions each node has that outlive their driver."""
    return [len(held_files(node.directory, CATALOG_APPLICATION.hex)) for node in cluster.workers]


def left(cluster: LocalCluster) -> list[set[str]]:
    """For each node the map tasks whose output it keeps, with their shuffle."""
    return [
        {
            f"{file.parent.name}/{file.name.partition('-')[0]}"
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


def recovered(driver: Any) -> int:
    found: int = driver("env.last_job_result.vertices[-1].recovered_tasks")
    return found


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
def first(cluster: LocalCluster, start_driver: Start, settings: Settings, data: str) -> Any:
    """A driver that has written the rows that jobs read."""
    driver = start_driver(cluster, settings)
    assert driver(f"numbers({ROWS}, {FILES}).write.parquet({data!r})") is None
    return driver


@pytest.fixture
def killed(cluster: LocalCluster, first: Any, data: str) -> str:
    """What a driver was computing when it was killed, half of its map tasks being done."""
    job = f"summed_slowly({data!r}, 1)"
    first.tell(job)
    assert becomes(lambda: all(left(cluster)))
    first.program.kill_all()
    assert len(set.union(*left(cluster))) < FILES
    return job


def test_what_it_has_done_of_a_job_and_kept_for_others_is_found_by_the_next_one(
    cluster: LocalCluster,
    start_driver: Start,
    settings: Settings,
    catalog_file: Path,
    tmp_path: Path,
    data: str,
) -> None:
    source, share = str(tmp_path / "source"), f"share('sqlite:///{catalog_file}')"
    kept = f"other.from_dataframe(source({source!r}))"
    first = start_driver(cluster, settings)
    assert first(f"numbers({ROWS}, {FILES}).write.parquet({data!r})") is first(share) is None
    assert first(f"is_right({kept}.cache(lifetime='1 h'), {source!r})")
    shared = held(cluster)
    assert shared == [1, 1]
    others = published(cluster, "application")
    job = f"slowly_joined('hot', {data!r}, 1)"
    first.tell(job)
    # Of a table that is cached, for the job and for the environment; and of map tasks.
    assert becomes(lambda: published(cluster, "recoverable"))
    assert becomes(lambda: published(cluster, "application") - others)
    of_table = set.union(*left(cluster))
    assert becomes(lambda: all(each - of_table for each in left(cluster)))
    first.program.kill_all()
    done = set.union(*left(cluster)) - of_table
    assert len(done) < FILES
    # What it kept for its environments goes with its lease.
    assert becomes(lambda: not published(cluster, "application"))
    cluster.kill_task_executor(0)
    cluster.restart_task_executor(0)

    second = start_driver(cluster, settings)
    assert second(job) == EXPECTED
    # After what else the job was cut into, which was or wasn't done by then.
    assert second("outcomes()")[-2:] == ["recovered", "run"]
    assert recovered(second) == len(done)
    assert published(cluster, "recoverable") == set() and left(cluster) == [set(), set()]
    assert second("rows(hot)") == [row[:2] for row in EXPECTED]
    assert second("outcomes()") == ["read from cache", "run"]
    # And what outlives its driver is read by others, beside its data.
    assert held(cluster) == shared and second(share) is None
    assert second(f"is_right({kept}, {source!r})")
    assert second("outcomes(other)") == ["read from cache", "run"]
    found = second(f"localities(lambda: {kept}.collect())")
    assert sorted(set(found["NODE_LOCAL"])) == NODES
    assert second(f"{kept}.cache().invalidate_cache()") is second("other.close()") is None
    assert becomes(lambda: not any(held(cluster)))
    second.end()
    assert published(cluster, "application") == set()


@pytest.mark.soak
def test_what_it_has_kept_goes_with_its_lease(
    cluster: LocalCluster, start_driver: Start, kept_files: Callable[[LocalCluster], set[Path]]
) -> None:
    driver = start_driver(cluster)
    assert driver("remember('hot', numbers())")
    # And one that is only half written.
    driver.tell("env.from_dataframe(slowly(numbers())).cache().count()")
    directory = cluster.workers[0].directory
    assert becomes(lambda: list(directory.glob("application-*/staging/*/_temporary")))
    assert kept_files(cluster)
    driver.program.kill_all()
    assert becomes(lambda: not kept_files(cluster))


@pytest.mark.soak
def test_what_is_lost_with_an_executor_after_it_was_adopted_runs_again(
    cluster: LocalCluster, start_driver: Start, settings: Settings, killed: str
) -> None:
    spark_s = cluster.workers[0].directory.parent / "spark"
    second = start_driver(cluster, settings)
    second.tell(killed)
    assert becomes(lambda: list(spark_s.glob(ADOPTED)))
    cluster.kill_worker(0)
    try:
        assert second.answer() == EXPECTED
    finally:
        cluster.restart_worker(0)
    second.end()


@pytest.mark.soak
def test_what_was_collected_for_a_broadcast_is_not_collected_again(
    cluster: LocalCluster, start_driver: Start, settings: Settings, first: Any, data: str
) -> None:
    job = f"broadcast_slowly({data!r}, 1)"
    first.tell(job)
    assert becomes(lambda: all(collected(cluster)))
    first.program.kill_all()
    of_first = collected(cluster)
    assert sum(map(len, of_first)) < FILES
    second = start_driver(cluster, settings)
    second.tell(job)
    assert becomes(lambda: all(left(cluster)))
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
    assert becomes(lambda: first("executors()") == 2)
    few = f"spark.read.parquet({data!r}).where('id < 40')"
    query = f"{few}.groupBy('w').count().groupBy('count').agg(F.count('*'))"
    assert first(f"rows(env.from_dataframe({query}))") == first(f"rows({query})")
    assert first("len(env.last_job_result.vertices)") == 1
    # Whether files can be kept on a node is tried out once.
    ours = first(f"jobs(lambda: env.from_dataframe({query}).collect())")
    assert ours == first(f"jobs(lambda: ({query}).collect())")
    first.end()


@pytest.mark.soak
def test_what_one_node_has_lost_runs_again(
    cluster: LocalCluster, start_driver: Start, settings: Settings, killed: str
) -> None:
    for directory in cluster.workers[0].directory.glob("recoverable-*/shuffles"):
        shutil.rmtree(directory)
    there = left(cluster)[1]
    second = start_driver(cluster, settings)
    assert second(killed) == EXPECTED
    assert recovered(second) == len(there)
    second.end()
