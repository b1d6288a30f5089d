"""Where drivers run: on this machine alone, or on a cluster of two workers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.cli.local_cluster.local_cluster import LocalCluster

_PREVIOUS_WORKER_TIMEOUT = "5 s"
_COMES_BACK_EMPTY = 0.3


class Place(Protocol):
    """Where drivers run, and task executors keep partitions."""

    def spark(self) -> dict[str, str]:
        """The Spark configuration of a driver."""

    def environment(self) -> Mapping[str, str]:
        """The environment variables of a driver."""

    def holdfast(self, home: Path) -> dict[str, Any]:
        """Holdfast's configuration without recovery."""

    def kept(self, home: Path) -> Sequence[Path]:
        """The directories that partitions are kept in."""

    def after_a_blow(self, chance: random.Random) -> None:
        """What else happens when a driver was killed."""


_COMMON = {
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
    """The driver's process does all, and keeps partitions in a directory.

    Attributes:
        home: Spark's own files.
    """

    home: Path

    def spark(self) -> dict[str, str]:
        return _COMMON | {
            "spark.master": "local[2]",
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

    def after_a_blow(self, chance: random.Random) -> None:
        return


@dataclass
class TwoWorkers:
    """A cluster, whose task executors are killed in turn with the drivers.

    Attributes:
        cluster: runs already.
        killed: how many task executors have been killed.
    """

    cluster: LocalCluster
    killed: int = field(default=0, init=False)

    def spark(self) -> dict[str, str]:
        return _COMMON | self.cluster.driver_configuration()

    def environment(self) -> Mapping[str, str]:
        return self.cluster.driver_environment()

    def holdfast(self, home: Path) -> dict[str, Any]:
        return {
            "taskexecutor.addresses": ",".join(self.cluster.task_executor_addresses),
            "taskexecutor.token-file": str(self.cluster.token_file),
            "execution.batch.job-recovery.previous-worker.recovery.timeout": (
                _PREVIOUS_WORKER_TIMEOUT
            ),
        }

    def kept(self, home: Path) -> Sequence[Path]:
        return tuple(node.directory for node in self.cluster.workers)

    def after_a_blow(self, chance: random.Random) -> None:
        """The task executors are killed in turn; some come back empty."""
        index = self.killed % len(self.cluster.workers)
        self.cluster.restart_task_executor(index, empty=chance.random() < _COMES_BACK_EMPTY)
        self.killed += 1
