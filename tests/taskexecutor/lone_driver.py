"""A driver in its own process, which does what it is sent, and says how it went."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from holdfast.ids import JobID
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__
from tests.taskexecutor.callers import description, write
from tests.taskexecutor.nodes import ROWS, dataset


class LoneDriver:
    """What it has staged and published, by a digit each."""

    def __init__(self, job: str, where: str, token: str = "", node: str = "") -> None:
        self.job, self.node = JobID(job), node
        claim = RecoveryClaim(self.job, 1)
        if token:
            gateway = RemoteTaskExecutor(where, token, Timeouts(sign_of_life_seconds=5))
            self.storage = RecoveryStorage(
                {where: gateway},
                claim,
                retention_seconds=600,
                heartbeat_seconds=0.2,
                version=__version__,
                wait_for=[where],
            )
        else:
            self.storage = embedded_recovery_storage(Path(where), claim, retention_seconds=600)
        self.staged: dict[str, StagedDataSet] = {}
        self.kept: dict[str, KeptDataSet] = {}

    def stage(self, digit: str) -> None:
        self.staged[digit] = self.storage.stage(self.job, dataset(digit))

    def write(self, digit: str) -> None:
        directory = self.staged[digit].directory
        if self.node:
            # The path that nodes have in common is another directory on each.
            directory = Path(self.node, directory.relative_to("/proc/self/cwd"))
        write(directory, 0, 1, rows=ROWS)

    def publish(self, digit: str) -> None:
        host = Path(self.node).name or "127.0.0.1"
        written = [WrittenPartition(index, host, ROWS) for index in range(2)]
        self.kept[digit] = self.storage.publish(self.staged[digit], description(digit), written)

    def damage(self, digit: str) -> None:
        found = self.storage.damage(self.kept[digit])
        if found is not None:
            raise LookupError(found)

    def remove(self, digit: str) -> None:
        self.storage.remove(self.kept[digit])

    def discard(self, digit: str) -> None:
        self.storage.discard(self.staged[digit])

    def end(self, digit: str) -> None:
        self.storage.release_all()


def main(pipe: Connection, *arguments: str) -> None:
    """Given a job and a directory, it keeps partitions here; or given an executor and its node."""
    driver = LoneDriver(*arguments)
    pipe.send("ready")
    while True:
        name, digit = pipe.recv()
        step: Callable[[str], None] = getattr(driver, name)
        try:
            step(digit)
        except Exception as error:
            pipe.send(type(error).__name__)
        else:
            pipe.send("done")
