"""A cluster on one machine behaves as one on several, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.harness.cluster_node import ClusterNode
from tests.harness.errors import ClusterProcessError, JavaNotFoundError
from tests.harness.local_cluster import LocalCluster
from tests.harness.process_tree import descendants, is_alive
from tests.harness.waiting import wait_for
from tests.short_lived_jvm import environment_of_cluster

RunProgram = Callable[..., Any]
StartProgram = Callable[..., "subprocess.Popen[str]"]

SECONDS = 60
PARTITIONS = 8
ROWS = 1000

WRITE = f"""
directory = kept / "written"
spark.range(0, {ROWS}, 1, {PARTITIONS}).write.parquet(f"file:{{directory}}")
print(json.dumps([path.name for path in directory.rglob("*")]))
"""

# Says on which hosts it has executors whenever it is asked for that, and a number that takes
# Python workers on them.
HOSTS = """
def answer():
    total = spark.range(0, 100, 1, 4).rdd.map(lambda row: row.id).sum()
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    print(json.dumps([total, sorted({executor.host() for executor in executors})]), flush=True)

answer()
for line in sys.stdin:
    answer()
"""

# Starts a cluster, and a session on it if so told; tells when all of that runs.
OWNER = """
import signal, sys, time
from pathlib import Path
from tests.harness.local_cluster import LocalCluster

with LocalCluster(Path(sys.argv[1]), workers=1) as cluster:
    if sys.argv[2] == "session":
        spark = cluster.session()
        assert spark.range(0, 100, 1, 4).rdd.map(lambda row: row.id).sum() == 4950
    print("ready", flush=True)
    time.sleep(600)
"""


def seen_by(pid: int, path: Path) -> Path:
    """A path as a process sees it."""
    return Path(f"/proc/{pid}/root", *path.parts[1:])


def partitions_in(directory: Path) -> set[str]:
    return {path.name for path in directory.rglob("part-*.parquet")}


def answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{address}/", timeout=SECONDS).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def wait_until_gone(pids: Sequence[int]) -> None:
    assert wait_for(lambda: None if any(map(is_alive, pids)) else True, SECONDS), pids


def test_two_workers_are_alive_on_two_hosts(cluster: LocalCluster) -> None:
    assert {worker.host for worker in cluster.alive_workers()} == {"127.0.0.2", "127.0.0.3"}
    assert [node.host for node in cluster.workers] == ["127.0.0.2", "127.0.0.3"]
    assert cluster.master_url.startswith("spark://127.0.0.1:")


def test_the_same_path_is_another_directory_on_each_node(cluster: LocalCluster) -> None:
    one, other = cluster.workers
    (one.directory / "mine").write_text("of one")
    for of_one in (one.worker, one.task_executor):
        assert seen_by(of_one.pid, cluster.kept / "mine").read_text() == "of one"
    for of_other in (other.worker, other.task_executor):
        assert not seen_by(of_other.pid, cluster.kept / "mine").exists()
    assert not (cluster.kept / "mine").exists()
    assert str(cluster.home.root) not in Path("/proc/self/mountinfo").read_text()


def test_each_task_leaves_its_partition_on_the_node_where_it_ran(
    cluster: LocalCluster, run_program: RunProgram
) -> None:
    of_driver = run_program(
        cluster,
        WRITE,
        configuration={"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"},
    )
    one, other = (partitions_in(node.directory / "written") for node in cluster.workers)
    assert one
    assert other
    assert not one & other
    assert len(one | other) == PARTITIONS
    assert not [name for name in of_driver if name.endswith(".parquet")]
    written = [
        id_
        for node in cluster.workers
        for file in (node.directory / "written").glob("*.parquet")
        for id_ in pyarrow.parquet.read_table(file).column("id").to_pylist()
    ]
    assert sorted(written) == list(range(ROWS))


@pytest.mark.soak
def test_a_worker_is_killed_and_started_again(
    cluster: LocalCluster, start_program: StartProgram
) -> None:
    program = start_program(cluster, HOSTS)
    assert program.stdin is not None
    assert program.stdout is not None

    def ask() -> str:
        program.stdin.write("again\n")
        program.stdin.flush()
        return program.stdout.readline()

    both = '[4950, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]]\n'
    assert program.stdout.readline() == both
    before = cluster.workers[0].worker.pids()
    assert len(before) >= 2, "the worker and its executor"
    cluster.kill_worker(0)
    assert not any(map(is_alive, before))
    lone = '[4950, ["127.0.0.1", "127.0.0.3"]]\n'
    assert wait_for(lambda: True if ask() == lone else None, SECONDS)
    assert {worker.host for worker in cluster.alive_workers()} == {"127.0.0.3"}
    cluster.restart_worker(0)
    assert {worker.host for worker in cluster.alive_workers()} == {"127.0.0.2", "127.0.0.3"}
    assert wait_for(lambda: True if ask() == both else None, SECONDS)


def test_a_task_executor_is_killed_and_started_again_on_its_port(cluster: LocalCluster) -> None:
    node = cluster.workers[1]
    address = node.task_executor_address
    assert answers(address)
    (node.directory / "file").write_text("kept")
    before = node.task_executor.pid
    cluster.kill_task_executor(1)
    assert not is_alive(before)
    assert not answers(address)
    cluster.restart_task_executor(1)
    assert node.task_executor_address == address
    assert answers(address)
    assert node.task_executor.pid != before


def test_a_task_executor_is_started_again_empty(cluster: LocalCluster) -> None:
    one, other = cluster.workers
    for node in cluster.workers:
        (node.directory / "of-both").mkdir()
        (node.directory / "of-both" / "file").write_text("kept")
    cluster.restart_task_executor(0, empty=True)
    assert not (one.directory / "of-both").exists()
    assert (other.directory / "of-both" / "file").exists()
    (one.directory / "afterwards").write_text("seen")
    assert seen_by(one.worker.pid, cluster.kept / "afterwards").exists()
    assert seen_by(one.task_executor.pid, cluster.kept / "afterwards").exists()


def test_secrets_are_for_the_owner_alone(cluster: LocalCluster) -> None:
    for secret in (cluster.token_file, cluster.home.conf / "spark-defaults.conf"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    secrets = [cluster.token_file.read_text().strip()]
    secrets += (cluster.home.conf / "spark-defaults.conf").read_text().split()[-1:]
    for pid in descendants(os.getpid()):
        command_line = Path(f"/proc/{pid}/cmdline").read_text()
        assert not [secret for secret in secrets if secret in command_line], command_line


@pytest.mark.parametrize(
    ("number", "what", "programs"),
    [
        (signal.SIGKILL, "session", ("Master", "Worker", "taskexecutor", "ExecutorBackend")),
        (signal.SIGINT, "cluster", ("Master", "Worker", "taskexecutor")),
    ],
)
@pytest.mark.sampled(2)
def test_nothing_outlives_its_owner(
    tmp_path: Path, number: signal.Signals, what: str, programs: tuple[str, ...]
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), what],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment_of_cluster()},
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stderr is not None
        assert owner.stdout.readline() == "ready\n", owner.stderr.read()
        everything = descendants(owner.pid)
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in everything]
        for program in programs:
            assert [command for command in commands if program in command], program
        owner.send_signal(number)
        owner.communicate(timeout=SECONDS)
    wait_until_gone(everything)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_process_that_does_not_come_up_shows_its_log(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    with pytest.raises(ClusterProcessError, match="worker-1 has ended.*\n(.|\n)*memory") as raised:
        LocalCluster(tmp_path, workers=1, memory="none", task_executors=False).__enter__()
    assert raised.value.log == tmp_path / "logs" / "worker-1.log"
    # Not what the suite's own JVM and cluster start meanwhile.
    of_others = {pid for other in before for pid in (other, *descendants(other))}
    assert set(descendants(os.getpid())) <= of_others


def test_a_java_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFoundError, match="JAVA_HOME"):
        LocalCluster(tmp_path).__enter__()


def test_a_node_that_is_emptied_keeps_its_directory(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path)
    cluster.home.make(1)
    node = ClusterNode(cluster.home, 1, "127.0.0.2", (), SECONDS)
    inode = node.directory.stat().st_ino
    (node.directory / "directory").mkdir()
    (node.directory / "link").symlink_to(tmp_path / "token")
    cluster.home.empty_kept_of(1)
    assert node.directory.stat().st_ino == inode
    assert list(node.directory.iterdir()) == []
    assert cluster.token_file.exists()
