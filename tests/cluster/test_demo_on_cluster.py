"""`holdfast demo --cluster`, played as a person would start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.cli.local_cluster.errors import NamespacesUnavailableError
from holdfast.cli.local_cluster.namespaces import unshare_command
from tests.short_lived_jvm import environment_of_cluster


def write_shops(folder: Path) -> None:
    """Sales, and what is known of the shops: few columns, and few questions."""
    folder.mkdir()
    count = 5_000
    sales = {
        "shop": [number % 50 for number in range(count)],
        "day": [number % 28 for number in range(count)],
        "price": [number * 7919 % 10_007 for number in range(count)],
    }
    shops = {"shop": list(range(50)), "city": [f"city {number % 9}" for number in range(50)]}
    for name, columns in (("sales", sales), ("shops", shops)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


# The killed driver, which TPC-H's session ends with, is on no cluster.
@pytest.mark.soak
@pytest.mark.parametrize("data", ["a folder", "TPC-H"])
@pytest.mark.timeout(900)
def test_the_session_is_played_on_a_cluster_that_loses_a_task_executor(
    tmp_path: Path, data: str
) -> None:
    try:
        unshare_command(tmp_path)
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    if data == "a folder":
        write_shops(tmp_path / "shops")
        asked, lost = ("--data", str(tmp_path / "shops")), "the loss"
    else:
        asked, lost = ("--scale", "0.01"), "the loss and the kill"
    arguments = ("--cluster", *asked, "--output", str(tmp_path))
    played = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "demo", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
        # It starts a cluster of its own, whose JVMs are not to take longer than the suite's.
        env={**os.environ, **environment_of_cluster()},
    )
    assert played.returncode == 0, played.stdout + played.stderr
    out = played.stdout
    assert f"Every answer agreed, also after {lost}." in out
    # The kept table lies on both nodes, and who reads it runs where it lies.
    hosts = re.findall(r"^ (127\.0\.0\.[23]) +127\.0\.0\.[23]:\d+ +[1-9]\d* ", out, re.MULTILINE)
    assert set(hosts) == {"127.0.0.2", "127.0.0.3"}
    readers = re.search(r"Of (\d+) tasks that read kept partitions, (\d+) ran NODE_LOCAL", out)
    assert readers is not None
    assert readers[1] == readers[2] != "0"
    assert "Killed with -9: the task executor at 127.0.0." in out
    assert re.search(r"Asked with both there: the same answer .* kept data: produced", out)
    assert re.search(r"Asked once more: the same answer .* kept data: read from cache", out)
    # Nothing of the cluster is left: no process, no directory.
    assert not list(tmp_path.glob("cluster-*"))
    assert subprocess.run(["pgrep", "-f", str(tmp_path)], check=False).returncode == 1
