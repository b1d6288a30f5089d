"""`holdfast demo --cluster`, played as a person would start it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.local_cluster.errors import NamespacesUnavailableError
from holdfast.cli.local_cluster.namespaces import unshare_command
from tests.short_lived_jvm import environment_of_cluster


@pytest.mark.timeout(900)
def test_the_session_is_played_on_a_cluster_that_loses_a_task_executor(tmp_path: Path) -> None:
    try:
        unshare_command(tmp_path)
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))
    arguments = ("--cluster", "--scale", "0.01", "--output", str(tmp_path))
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
    assert "Every answer agreed, also after the loss and the kill." in out
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
