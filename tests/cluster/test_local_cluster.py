"""The cluster of these tests behaves as one on several machines, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.harness.errors import ClusterProcessError, JavaNotFoundError
from tests.harness.local_cluster import LocalCluster
from tests.harness.namespaced_process import BindMount, NamespacedProcess
from tests.harness.namespaces import unshare_command
from tests.harness.process_tree import descendants, is_alive
from tests.harness.waiting import wait_for
from tests.short_lived_jvm import environment_of_cluster

SECONDS = 60

# Starts a child that leaves the session and the process group, as Spark's Python workers do.
FAMILY = "setsid sleep 600 & echo ready; sleep 600"

# Starts a cluster and a session on it; says when all of that runs.
OWNER = """
import sys, time
from pathlib import Path
from tests.harness.local_cluster import LocalCluster

with LocalCluster(Path(sys.argv[1]), workers=1) as cluster:
    assert cluster.session().range(0, 100, 1, 4).rdd.map(lambda row: row.id).sum() == 4950
    print("ready", flush=True)
    time.sleep(600)
"""

Start = Callable[..., NamespacedProcess]


def wait_until_gone(pids: Sequence[int]) -> None:
    assert wait_for(lambda: None if any(map(is_alive, pids)) else True, SECONDS), pids


def seen_by(pid: int, path: Path) -> Path:
    """A path as a process sees it."""
    return Path(f"/proc/{pid}/root", *path.parts[1:])


def test_the_same_path_is_another_directory_on_each_of_two_nodes(cluster: LocalCluster) -> None:
    assert {worker.host for worker in cluster.alive_workers()} == {"127.0.0.2", "127.0.0.3"}
    one, other = cluster.workers
    (one.directory / "mine").write_text("of one")
    for of_one in (one.worker, one.task_executor):
        assert seen_by(of_one.pid, cluster.kept / "mine").read_text() == "of one"
    for of_other in (other.worker, other.task_executor):
        assert not seen_by(of_other.pid, cluster.kept / "mine").exists()
    assert not (cluster.kept / "mine").exists()


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment_of_cluster()},
    )
    with owner:
        assert owner.stdout is not None and owner.stderr is not None
        assert owner.stdout.readline() == "ready\n", owner.stderr.read()
        everything = descendants(owner.pid)
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in everything]
        for program in ("Master", "Worker", "taskexecutor", "ExecutorBackend"):
            assert [command for command in commands if program in command], program
        owner.send_signal(number)
        owner.communicate(timeout=SECONDS)
    wait_until_gone(everything)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.soak
def test_what_does_not_come_up_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterProcessError, match="worker-1 has ended.*\n(.|\n)*memory"):
        LocalCluster(tmp_path, workers=1, memory="none", task_executors=False).__enter__()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="JAVA_HOME"):
        LocalCluster(tmp_path / "other").__enter__()


# -- a process of it


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Start:
    def started(script: str, *mounts: BindMount) -> NamespacedProcess:
        process = NamespacedProcess(
            "the process",
            ["sh", "-c", script],
            log=tmp_path / "log",
            environment=dict(os.environ),
            unshare=unshare_command(tmp_path),
            mounts=mounts,
        )
        request.addfinalizer(process.kill)
        return process

    return started


def test_what_detached_itself_dies_with_the_process(start: Start, tmp_path: Path) -> None:
    outside, own = tmp_path / "a path", tmp_path / "own"
    outside.mkdir()
    own.mkdir()
    process = start(f"echo mine > '{outside}/file'; {FAMILY}", BindMount(own, outside))
    process.find_in_log("ready", SECONDS)
    assert (own / "file").read_text() == "mine\n" and list(outside.iterdir()) == []
    pids = process.pids()
    assert process.pid in pids and len(pids) == 3
    process.kill()
    assert not any(map(is_alive, pids)) and not process.is_running


@pytest.mark.parametrize("killed", ["the command", "unshare"])
def test_when_either_ends_everything_of_it_ends(start: Start, killed: str) -> None:
    process = start(FAMILY)
    process.find_in_log("ready", SECONDS)
    everything = descendants(os.getpid())
    family = [pid for pid in everything if pid in process.pids()]
    unshare = next(pid for pid in everything if process.pid in descendants(pid))
    os.kill(process.pid if killed == "the command" else unshare, signal.SIGKILL)
    wait_until_gone(family)
    assert wait_for(lambda: None if process.is_running else True, SECONDS)


def test_a_command_that_ends_or_is_slow_shows_the_end_of_its_log(start: Start) -> None:
    process = start("sleep 0.2; echo this went wrong; exit 3")
    with pytest.raises(ClusterProcessError, match=r"the process has ended.*\n  this went wrong"):
        process.find_in_log("never written", SECONDS)
    process = start("echo still trying; sleep 600")
    process.find_in_log("trying", SECONDS)
    with pytest.raises(ClusterProcessError, match=r"does not answer within 0.1 s(.|\n)*trying"):
        process.find_in_log("never written", 0.1)
