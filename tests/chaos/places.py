"""Where drivers run: on this machine alone, or on a cluster of two workers."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tests.chaos.driver_process import DRIVER_BLOWS, Blow
from tests.harness.local_cluster import LocalCluster
from tests.short_lived_jvm import JARS_FIRST, NO_CODEGEN, OPTIONS, options

_PREVIOUS_WORKER_TIMEOUT = "5 s"
_COMES_BACK_EMPTY = 0.3
_COMES_BACK_WITHIN = 15.0
"""At most how many seconds after it was killed a task executor is started again."""


class Place(Protocol):
    """Where drivers run, and task executors keep partitions."""

    blows: ClassVar[tuple[Blow, ...]]
    retention_seconds: ClassVar[float]

    def spark(self) -> dict[str, str]:
        """The Spark configuration of a driver."""

    def environment(self) -> Mapping[str, str]:
        """The environment variables of a driver."""

    def holdfast(self, home: Path) -> dict[str, Any]:
        """Holdfast's configuration without recovery."""

    def kept(self, home: Path) -> Sequence[Path]:
        """The directories that partitions are kept in."""

    def strike(self, chance: random.Random) -> None:
        """Kills a task executor with SIGKILL; it comes back a while later."""

    def mend(self) -> None:
        """Waits until what `strike` has killed is there again."""


_COMMON = NO_CODEGEN | {
    "spark.sql.shuffle.partitions": "4",
    # One file is one task.
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "1g",
    # Small data is to be planned as large data is.
    "spark.sql.autoBroadcastJoinThreshold": "1k",
    "spark.holdfast.execution.batch.job-recovery.min-vertex-input": "1 kb",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}


@dataclass(frozen=True)
class OneMachine:
    """The driver's process does all, and keeps partitions in a directory."""

    blows: ClassVar[tuple[Blow, ...]] = DRIVER_BLOWS
    # Nobody is there to remove them.
    retention_seconds: ClassVar[float] = 0

    home: Path

    def spark(self) -> dict[str, str]:
        return _COMMON | {
            "spark.master": "local[2]",
            "spark.driver.extraJavaOptions": OPTIONS,
            "spark.driver.memory": "1g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(self.home / "local"),
            "spark.sql.warehouse.dir": str(self.home / "warehouse"),
        }

    def environment(self) -> Mapping[str, str]:
        return {}

    def holdfast(self, home: Path) -> dict[str, Any]:
        return {"intermediate-result-storage.directory": str(home / "kept")}

    def kept(self, home: Path) -> Sequence[Path]:
        return (home / "kept",)

    def strike(self, chance: random.Random) -> None:
        raise AssertionError("there is no task executor but the driver itself")

    def mend(self) -> None:
        return


class TwoWorkers:
    """A cluster, whose task executors are killed as well, each in its turn."""

    blows: ClassVar[tuple[Blow, ...]] = (*DRIVER_BLOWS, Blow.TASK_EXECUTOR, Blow.TASK_EXECUTOR)
    retention_seconds: ClassVar[float] = 90

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._turns = itertools.cycle(range(len(cluster.workers)))
        self._returning = ThreadPoolExecutor(1, thread_name_prefix="returning-task-executor")
        self._return: Future[None] | None = None

    def spark(self) -> dict[str, str]:
        settings = _COMMON | self._cluster.driver_configuration() | JARS_FIRST
        settings["spark.driver.extraJavaOptions"] += f" {OPTIONS}"
        settings["spark.executor.extraJavaOptions"] += f" {options()}"
        return settings

    def environment(self) -> Mapping[str, str]:
        return self._cluster.driver_environment()

    def holdfast(self, home: Path) -> dict[str, Any]:
        return {
            "taskexecutor.addresses": ",".join(self._cluster.task_executor_addresses),
            "taskexecutor.token-file": str(self._cluster.token_file),
            "execution.batch.job-recovery.previous-worker.recovery.timeout": (
                _PREVIOUS_WORKER_TIMEOUT
            ),
            "execution.batch.job-recovery.retention": f"{self.retention_seconds:g} s",
        }

    def kept(self, home: Path) -> Sequence[Path]:
        return tuple(node.directory for node in self._cluster.workers)

    def strike(self, chance: random.Random) -> None:
        """The next one in turn is killed when the last one is back; some come back empty."""
        self.mend()
        index = next(self._turns)
        empty = chance.random() < _COMES_BACK_EMPTY
        seconds = chance.uniform(0, _COMES_BACK_WITHIN)
        self._cluster.kill_task_executor(index)
        self._return = self._returning.submit(self._bring_back, index, empty, seconds)

    def mend(self) -> None:
        returning, self._return = self._return, None
        if returning is not None:
            returning.result()

    def _bring_back(self, index: int, empty: bool, seconds: float) -> None:
        time.sleep(seconds)
        self._cluster.restart_task_executor(index, empty=empty)
