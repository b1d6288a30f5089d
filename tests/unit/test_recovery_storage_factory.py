"""The storage of a job's start, from an environment's configuration."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.api.storage import recovery_storage
from holdfast.config import Configuration
from holdfast.errors import ConfigurationError, StaleEpochError, StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.storage.kept_dataset import DataSetDescription

JOB = JobID("ab" * 16)


class Machine:
    """Where programs keep what they recover from, and where they record their jobs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.storages: list[RecoveryStorage] = []

    def records(self, name: str) -> Path:
        directory = self.root / name
        directory.mkdir(exist_ok=True)
        return directory

    def begin(self, epoch: int, recorded_in: str) -> RecoveryStorage:
        configuration = Configuration.merged(
            {},
            {
                "execution.batch.job-recovery.enabled": "true",
                "high-availability.storageDir": str(self.records(recorded_in)),
                "intermediate-result-storage.directory": str(self.root / "kept"),
            },
        )
        self.storages.append(recovery_storage(configuration, JOB, epoch))
        return self.storages[-1]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    for storage in machine.storages:
        storage.leave()


def keep(storage: RecoveryStorage) -> None:
    staged = storage.stage(JOB, IntermediateDataSetID("1" * 64))
    pq.write_table(pa.table({"a": [1]}), staged.directory / "part-00000-x-c000.parquet")
    storage.publish(
        staged,
        DataSetDescription(dataset_id="1" * 64, computes="rows", columns=(), spark_version="4.3.0"),
    )


def test_without_executors_it_lies_on_this_machine(machine: Machine) -> None:
    storage = machine.begin(1, "records")
    assert not storage.spans_machines
    keep(storage)
    assert len(machine.begin(2, "records").recovered_outputs()) == 1
    with pytest.raises(StaleEpochError):
        machine.begin(1, "records")


def test_the_same_job_recorded_elsewhere_is_another_job(machine: Machine) -> None:
    keep(machine.begin(7, "mine"))
    theirs = machine.begin(3, "theirs")
    assert theirs.recovered_outputs() == {}
    theirs.release_all()
    assert len(machine.begin(8, "mine").recovered_outputs()) == 1


def test_records_that_begin_anew_are_held_up_by_nothing(machine: Machine) -> None:
    machine.begin(7, "records").release_all()
    shutil.rmtree(machine.records("records"))
    assert machine.begin(1, "records").recovered_outputs() == {}


def test_an_identity_that_is_none_is_told(machine: Machine) -> None:
    (machine.records("records") / "identity").write_text("mine")
    with pytest.raises(StorageError, match="is corrupt"):
        machine.begin(1, "records")


def test_executors_need_a_token(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    configuration = Configuration.merged({}, {"taskexecutor.addresses": "127.0.0.1:1"})
    with pytest.raises(ConfigurationError, match="token"):
        recovery_storage(configuration, JOB, 1)
