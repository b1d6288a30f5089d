"""A Spark standalone cluster on this machine, whose nodes have files of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from tests.harness.cluster_home import ClusterHome
from tests.harness.cluster_node import ClusterNode
from tests.harness.errors import ClusterProcessError
from tests.harness.master_page import RegisteredWorker, registered_workers
from tests.harness.namespaced_process import NamespacedProcess
from tests.harness.namespaces import unshare_command
from tests.harness.spark_daemons import (
    WorkerSize,
    driver_environment,
    find_java,
    master_command,
    process_environment,
    temporary_files_option,
    worker_command,
)
from tests.harness.waiting import wait_for

if TYPE_CHECKING:
    from typing_extensions import Self

_MASTER_HOST = "127.0.0.1"
_ALIVE = "ALIVE"

TaskExecutorCommand = Callable[[Path, str, int, Path], Sequence[str]]


def task_executor_command(
    directory: Path, host: str, port: int, token_file: Path
) -> tuple[str, ...]:
    """Runs `holdfast taskexecutor start` with this Python."""
    return (
        *(sys.executable, "-m", "holdfast.cli.main", "taskexecutor", "start"),
        *("--dir", str(directory), "--host", host, "--port", str(port)),
        *("--token-file", str(token_file)),
    )


class LocalCluster:
    """A master on 127.0.0.1, and workers on 127.0.0.2, 127.0.0.3 and so on.

    Each worker has a mount namespace of its own, in which `kept` and the directory of Spark's
    executors are others, as on another machine, and a task executor beside it that sees the same.
    It is used as a context manager, and everything ends with the block, or with this process if
    that is killed.

    ```python
    with LocalCluster(Path("cluster")) as cluster:
        spark = cluster.session()
        cluster.kill_worker(0)
    ```
    """

    def __init__(
        self,
        home: Path,
        *,
        workers: int = 2,
        memory: str = "1g",
        cores: int = 1,
        task_executors: bool = True,
        task_executor_command: TaskExecutorCommand = task_executor_command,
        seconds: float = 60,
    ) -> None:
        self.home = ClusterHome(home)
        self.master_url = ""
        self.web_url = ""
        self.workers: tuple[ClusterNode, ...] = ()
        self._number_of_workers = workers
        self._size = WorkerSize(cores, memory)
        self._with_task_executors = task_executors
        self._task_executor_command = task_executor_command
        self._seconds = seconds
        self._java = ""
        self._started = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undone:
            self._start(undone)
            self._started = undone.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._started.close()

    @property
    def kept(self) -> Path:
        """The path that is another directory on each node, and yet another one for the driver."""
        return self.home.kept

    @property
    def token_file(self) -> Path:
        """The secret that the task executors share with their callers."""
        return self.home.token

    @property
    def task_executor_addresses(self) -> tuple[str, ...]:
        """`host:port` of each task executor, in the order of the workers."""
        return tuple(node.task_executor_address for node in self.workers)

    def driver_environment(self) -> dict[str, str]:
        """The environment variables that a driver's JVM is to be started with."""
        return driver_environment(self.home, _MASTER_HOST)

    def driver_configuration(self) -> dict[str, str]:
        """The Spark configuration of a driver: one executor on each worker."""
        temporary_files = f'"{temporary_files_option(self.home)}"'
        return {
            "spark.master": self.master_url,
            "spark.app.name": "holdfast",
            "spark.cores.max": str(self._size.cores * self._number_of_workers),
            "spark.driver.bindAddress": _MASTER_HOST,
            "spark.driver.extraJavaOptions": temporary_files,
            "spark.driver.host": _MASTER_HOST,
            "spark.driver.memory": "1g",
            "spark.executor.cores": str(self._size.cores),
            "spark.executor.extraJavaOptions": temporary_files,
            "spark.executor.memory": self._size.memory,
            "spark.local.dir": str(self.home.tmp),
            "spark.pyspark.python": sys.executable,
            # The first job is to find all executors, not the first one that has registered.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.sql.warehouse.dir": str(self.home.root / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }

    def session(self, configuration: Mapping[str, str] | None = None) -> SparkSession:
        """A session on this cluster; its driver is this process."""
        before = {key: os.environ.get(key) for key in self.driver_environment()}
        # The JVM takes these from the environment that it is started in.
        os.environ.update(self.driver_environment())
        try:
            builder = SparkSession.builder
            settings = self.driver_configuration() | dict(configuration or {})
            return builder.config(map=dict(settings)).getOrCreate()
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value

    def alive_workers(self) -> frozenset[RegisteredWorker]:
        """The workers that the master believes to be alive."""
        return frozenset(w for w in registered_workers(self.web_url) if w.state == _ALIVE)

    def kill_worker(self, index: int) -> None:
        """Kills a worker and its executors with SIGKILL; they are gone when this returns."""
        self.workers[index].worker.kill()

    def restart_worker(self, index: int) -> None:
        """Kills a worker if it lives, starts it again, and waits until the master knows it."""
        node = self.workers[index]
        node.worker.kill()
        before = self.alive_workers()
        self._start_worker(node)
        self._await_worker(node, before)

    def kill_task_executor(self, index: int) -> None:
        """Kills a task executor with SIGKILL; it is gone when this returns."""
        self.workers[index].task_executor.kill()

    def restart_task_executor(self, index: int, *, empty: bool = False) -> None:
        """Kills a task executor if it lives, starts it on the same port, and waits for it.

        `empty`: it finds nothing of what it kept.
        """
        node = self.workers[index]
        node.task_executor.kill()
        if empty:
            self.home.empty_kept_of(node.number)
        self._start_task_executor(node)
        node.await_task_executor()

    def _start(self, undone: ExitStack) -> None:
        self._java = find_java()
        self.home.make(self._number_of_workers)
        unshare = unshare_command(self.home.node)
        master = undone.enter_context(
            NamespacedProcess(
                "master",
                master_command(self.home, self._java, _MASTER_HOST),
                log=self.home.log_of("master"),
                environment=process_environment(self.home, _MASTER_HOST),
                unshare=unshare,
            )
        )
        self.workers = tuple(
            ClusterNode(self.home, number, f"127.0.0.{number + 1}", unshare, self._seconds)
            for number in range(1, self._number_of_workers + 1)
        )
        for node in self.workers:
            undone.callback(node.close)
            if self._with_task_executors:
                self._start_task_executor(node)
        self.master_url = master.find_in_log(r"spark://[\d.]+:\d+", self._seconds)[0]
        web_port = master.find_in_log(r"'MasterUI' on port (\d+)", self._seconds)[1]
        self.web_url = f"http://{_MASTER_HOST}:{web_port}"
        for node in self.workers:
            self._start_worker(node)
        for node in self.workers:
            self._await_worker(node, frozenset())
            if self._with_task_executors:
                node.await_task_executor()

    def _start_worker(self, node: ClusterNode) -> None:
        node.start_worker(
            worker_command(
                self.home, self._java, node.host, node.number, self.master_url, self._size
            )
        )

    def _start_task_executor(self, node: ClusterNode) -> None:
        node.start_task_executor(
            lambda host, port: self._task_executor_command(
                self.home.kept, host, port, self.home.token
            )
        )

    def _await_worker(self, node: ClusterNode, before: frozenset[RegisteredWorker]) -> None:
        def registered_or_ended() -> bool | None:
            if any(worker.host == node.host for worker in self.alive_workers() - before):
                return True
            return None if node.worker.is_running else False

        seen = wait_for(registered_or_ended, self._seconds)
        if not seen:
            why = "has ended" if seen is False else f"does not register within {self._seconds:g} s"
            raise ClusterProcessError(node.worker.name, why, node.worker.log)
