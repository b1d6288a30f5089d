"""What a driver that was killed has kept, or had half written, is gone when its lease is over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.local_cluster import LocalCluster
from tests.harness.waiting import wait_for

SECONDS = 120


@pytest.mark.soak
def test_what_a_killed_driver_has_kept_goes_with_its_lease(
    cluster: LocalCluster,
    start_driver: Callable[..., Any],
    kept_files: Callable[[LocalCluster], set[Path]],
) -> None:
    driver = start_driver(cluster)
    assert driver("remember('hot', numbers())")
    # And one that is only half written.
    driver.tell("env.from_dataframe(slowly(numbers())).cache().count()")
    directory = cluster.workers[0].directory
    assert wait_for(
        lambda: True if list(directory.glob("application-*/staging/*/_temporary")) else None,
        SECONDS,
    )
    assert kept_files(cluster)
    driver.program.kill_all()
    assert wait_for(lambda: None if kept_files(cluster) else True, SECONDS)
