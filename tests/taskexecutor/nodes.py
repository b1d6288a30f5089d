"""Machines with a task executor each, and the storages of drivers over them; no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__
from tests.harness.forked import Command
from tests.taskexecutor.callers import description, write

ROWS = 3
SECONDS = 30.0
# Each process resolves it itself: one path, and another directory for each node.
SAME_PATH = "/proc/self/cwd/kept"
Storage = TaskExecutorStorage | RecoveryStorage


def comes(condition: Callable[[], object]) -> bool:
    """Whether something becomes true before long."""
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def dataset(digit: str) -> IntermediateDataSetID:
    return IntermediateDataSetID(digit * 64)


class Node:
    """A machine with a task executor, which can be killed and started again."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory, self.port, self.host = directory, port, directory.name
        directory.mkdir()
        self.start()

    def start(self) -> None:
        self.process = Command(
            *("taskexecutor", "start", "--dir", SAME_PATH, "--grace", "0.5"),
            *("--port", self.port, "--public-host", self.host),
            cwd=self.directory,
        )
        assert self.process.stdout.readline()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def gateway(self) -> RemoteTaskExecutor:
        token = (self.directory / "kept" / "token").read_text().strip()
        timeouts = Timeouts(connect_seconds=1, sign_of_life_seconds=1)
        return RemoteTaskExecutor(self.address, token, timeouts)

    def seen_from_it(self, path: Path) -> Path:
        return self.directory / path.relative_to("/proc/self/cwd")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Drivers:
    """The drivers of one job on nodes, and what they keep there."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.job = JobID.random()
        self.applications: list[ApplicationID] = []
        self._storages: list[Storage] = []

    def begin(
        self,
        epoch: int,
        *,
        timeout: float = SECONDS,
        wait_for: list[str] | None = None,
        claimed: JobID | None = None,
    ) -> RecoveryStorage:
        """A start of the job."""
        claim = RecoveryClaim(claimed or self.job, epoch)
        addresses = [node.address for node in self.nodes]
        storage = RecoveryStorage(
            {node.address: node.gateway() for node in self.nodes},
            claim,
            retention_seconds=600,
            heartbeat_seconds=0.1,
            version=__version__,
            wait_for=addresses if wait_for is None else wait_for,
            timeout_seconds=timeout,
        )
        self.applications.append(claim.application)
        self._storages.append(storage)
        return storage

    def begin_on_this_machine(self, epoch: int, directory: Path) -> RecoveryStorage:
        """A start of the job without task executors."""
        claim = RecoveryClaim(self.job, epoch)
        self._storages.append(embedded_recovery_storage(directory, claim, retention_seconds=600))
        return self._storages[-1]  # type: ignore[return-value]

    def environment(self, application: ApplicationID | None = None) -> TaskExecutorStorage:
        """What an environment keeps with the executors."""
        storage = TaskExecutorStorage(
            {node.address: node.gateway() for node in self.nodes},
            application or ApplicationID.random(),
            lease_seconds=60,
            heartbeat_seconds=0.1,
            version=__version__,
        )
        self.applications.append(storage.application)
        self._storages.append(storage)
        return storage

    def write(self, staged: StagedDataSet, *places: tuple[int, int]) -> list[WrittenPartition]:
        """Each task writes on the node that is given for it."""
        written = []
        for task, place in places:
            node = self.nodes[place]
            write(node.seen_from_it(staged.directory), task, rows=ROWS)
            written.append(WrittenPartition(task, node.host, ROWS))
        return written

    def write_no_rows(
        self, staged: StagedDataSet, place: int, *tasks: int
    ) -> list[WrittenPartition]:
        """Tasks without rows leave no file but Spark's first one."""
        node = self.nodes[place]
        if 0 in tasks:
            write(node.seen_from_it(staged.directory), 0, rows=0)
        return [WrittenPartition(task, node.host, 0) for task in tasks]

    def stage(self, storage: Storage, digit: str = "1") -> StagedDataSet:
        return storage.stage(self.job, dataset(digit))

    def publish(
        self, storage: Storage, staged: StagedDataSet, written: Sequence[WrittenPartition]
    ) -> KeptDataSet:
        return storage.publish(staged, description(staged.dataset_id.hex[0]), written)

    def keep(self, storage: Storage, digit: str, *places: tuple[int, int]) -> KeptDataSet:
        staged = self.stage(storage, digit)
        return self.publish(storage, staged, self.write(staged, *places))

    def files(self) -> list[int]:
        """How many partitions of these drivers are on each node."""
        return [
            sum(
                len(list(directory.rglob("part-*.parquet")))
                for application in self.applications
                for directory in node.directory.glob(f"kept/*-{application.hex}")
            )
            for node in self.nodes
        ]

    def can_stage(self, storage: Storage) -> bool:
        """Whether a storage has found its executors again, before long."""

        def staged() -> bool:
            try:
                storage.discard(self.stage(storage, "f"))
            except StorageError:
                return False
            return True

        return comes(staged)

    def close(self) -> None:
        for storage in self._storages:
            if isinstance(storage, RecoveryStorage):
                storage.leave()
            else:
                storage.close()
