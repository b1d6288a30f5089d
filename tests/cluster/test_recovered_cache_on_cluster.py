"""A job that is recovered keeps a table beyond itself: both sides of it outlive a killed driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for

SECONDS = 120
GROUPS = 7
ROWS = 20_000
pytestmark = pytest.mark.timeout(600)


def published(cluster: LocalCluster, kind: str) -> set[Path]:
    """The files of published partitions on the nodes, of applications or of recoverable jobs."""
    return {
        file
        for node in cluster.workers
        for file in node.directory.glob(f"{kind}-*/datasets/*/part-*.parquet")
    }


def test_a_cached_table_is_found_again_by_the_job_and_then_by_the_next_one(
    cluster: LocalCluster, start_driver: Callable[..., Any], tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    settings = {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": "1 kb",
        "high-availability.storageDir": (tmp_path / "jobs").as_uri(),
    }
    first = start_driver(cluster, settings)
    assert first(f"numbers({ROWS}).write.parquet({data!r})") is None
    job = f"slowly_joined('hot', {data!r}, 4)"
    first.tell(job)
    # For the job, and for the environment.
    for kind in ("recoverable", "application"):
        assert wait_for(lambda kind=kind: published(cluster, kind) or None, SECONDS), kind
    first.program.kill_all()
    assert wait_for(lambda: None if published(cluster, "application") else True, SECONDS)
    assert published(cluster, "recoverable")

    second = start_driver(cluster, settings)
    found = second(job)
    expected = [
        [k, sum(range(k, ROWS, GROUPS)), len(range(k, ROWS, GROUPS))] for k in range(GROUPS)
    ]
    assert found == expected
    # After what else the job was cut into, which was or wasn't done by then.
    assert second("outcomes()")[-2:] == ["recovered", "run"]
    assert published(cluster, "recoverable") == set()
    assert second("rows(hot)") == [row[:2] for row in expected]
    assert second("outcomes()") == ["read from cache", "run"]
    second.end()
    assert published(cluster, "application") == set()
