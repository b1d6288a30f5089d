"""The cluster of these tests behaves as one on several machines, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

from tests.harness.local_cluster import LocalCluster


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
