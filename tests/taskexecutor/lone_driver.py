"""A driver as a process of its own, which does what it is told line by line, and says how it went.

python lone_driver.py EPOCH DIRECTORY            keeps partitions on this machine
python lone_driver.py EPOCH ADDRESS TOKEN        keeps them with a task executor
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__

JOB = JobID("ab" * 16)
ROWS = 3
HOST = "127.0.0.1"


def storage_of(epoch: int, where: str, token: str | None) -> RecoveryStorage:
    claim = RecoveryClaim(JOB, epoch)
    if token is None:
        return embedded_recovery_storage(Path(where), claim, retention_seconds=600)
    gateway = RemoteTaskExecutor(where, token, Timeouts(sign_of_life_seconds=5))
    return RecoveryStorage(
        {where: gateway},
        claim,
        retention_seconds=600,
        heartbeat_seconds=0.2,
        version=__version__,
        wait_for=[where],
    )


def description(digit: str) -> DataSetDescription:
    return DataSetDescription(
        dataset_id=digit * 64, computes="rows", columns=(), spark_version="4.3.0"
    )


class LoneDriver:
    """What it has staged and published, by a digit each."""

    def __init__(self, storage: RecoveryStorage) -> None:
        self.storage = storage
        self.staged: dict[str, StagedDataSet] = {}
        self.kept: dict[str, KeptDataSet] = {}

    def stage(self, digit: str) -> None:
        self.staged[digit] = self.storage.stage(JOB, IntermediateDataSetID(digit * 64))

    def write(self, digit: str) -> None:
        directory = self.staged[digit].directory
        directory.mkdir(parents=True, exist_ok=True)
        for index in range(2):
            name = f"part-{index:05}-x-c000.zstd.parquet"
            pq.write_table(pa.table({"a": list(range(ROWS))}), directory / name)

    def publish(self, digit: str) -> None:
        written = [WrittenPartition(index, HOST, ROWS) for index in range(2)]
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


def main() -> None:
    epoch, where, *token = sys.argv[1:]
    driver = LoneDriver(storage_of(int(epoch), where, token[0] if token else None))
    print("ready", flush=True)
    for line in sys.stdin:
        name, digit = line.split()
        step: Callable[[str], None] = getattr(driver, name)
        try:
            step(digit)
        except Exception as error:
            print(type(error).__name__, flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main()
