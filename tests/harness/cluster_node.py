"""One node of a local cluster: a Spark worker, and a task executor beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.harness.cluster_home import ClusterHome
from tests.harness.namespaced_process import BindMount, NamespacedProcess
from tests.harness.spark_daemons import process_environment

_ADDRESS = r"(?<![\d.]){host}:(\d+)"


class ClusterNode:
    """A host with files of its own: a path of the cluster is another directory here."""

    def __init__(
        self, home: ClusterHome, number: int, host: str, unshare: Sequence[str], seconds: float
    ) -> None:
        self.number = number
        self.host = host
        self._home = home
        self._unshare = unshare
        self._seconds = seconds
        self._worker: NamespacedProcess | None = None
        self._task_executor: NamespacedProcess | None = None
        self._task_executor_port = 0

    @property
    def directory(self) -> Path:
        """What the node sees as the cluster's `kept`, as seen from outside."""
        return self._home.kept_of(self.number)

    @property
    def worker(self) -> NamespacedProcess:
        """The Spark worker with its executors."""
        assert self._worker is not None
        return self._worker

    @property
    def task_executor(self) -> NamespacedProcess:
        """The task executor."""
        assert self._task_executor is not None
        return self._task_executor

    @property
    def task_executor_address(self) -> str:
        """`host:port` of the task executor; it keeps its port when it is restarted."""
        return f"{self.host}:{self._task_executor_port}"

    def start_worker(self, command: Sequence[str]) -> None:
        """Starts the worker, and doesn't wait for it to register."""
        self._worker = self._started("worker", command)

    def start_task_executor(self, command: Callable[[str, int], Sequence[str]]) -> None:
        """Starts the task executor, and doesn't wait until it serves."""
        self._task_executor = self._started(
            "taskexecutor", command(self.host, self._task_executor_port)
        )

    def await_task_executor(self) -> None:
        """Waits until the task executor says where it serves."""
        address = _ADDRESS.format(host=self.host.replace(".", r"\."))
        found = self.task_executor.find_in_log(address, self._seconds)
        self._task_executor_port = int(found[1])

    def close(self) -> None:
        """Kills both, with everything that they have started."""
        for process in (self._task_executor, self._worker):
            if process is not None:
                process.kill()

    def _started(self, what: str, command: Sequence[str]) -> NamespacedProcess:
        name = f"{what}-{self.number}"
        return NamespacedProcess(
            name,
            command,
            log=self._home.log_of(name),
            environment=process_environment(self._home, self.host),
            unshare=self._unshare,
            mounts=[BindMount(self._home.node_of(self.number), self._home.node)],
        )
