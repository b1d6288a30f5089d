"""A job's partitions on one machine: what the next start finds, and what the last one can't do."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.api.storage import recovery_storage
from holdfast.config import Configuration
from holdfast.errors import ConfigurationError, StaleEpochError, StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.recovery.embedded_recovery_storage import (
    RECOVERABLE,
    embedded_recovery_storage,
)
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.partition_version import modified_ns
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.claim_files import CLAIMS
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim

JOB = JobID("ab" * 16)
OTHER_JOB = JobID("cd" * 16)
RETENTION = 3600.0


class Starts:
    """Starts of one job on one directory; `crash` leaves them as a killed process does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.storages: list[RecoveryStorage] = []

    def begin(
        self, epoch: int, *, job: JobID = JOB, retention: float = RETENTION
    ) -> RecoveryStorage:
        claim = RecoveryClaim(job, epoch)
        storage = embedded_recovery_storage(self.root, claim, retention_seconds=retention)
        self.storages.append(storage)
        return storage

    def looked_long_ago(self) -> None:
        """The last look for what has lapsed was long ago."""
        (self.root / RECOVERABLE / CLAIMS / ".looked-at").unlink()

    def files(self) -> list[str]:
        return sorted(path.name for path in self.root.rglob("part-*.parquet"))


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path / "kept")
    yield starts
    for storage in starts.storages:
        storage.leave()


def dataset(digit: str) -> IntermediateDataSetID:
    return IntermediateDataSetID(digit * 64)


def write(directory: Path, *tasks: int, first: int = 0, attempt: str = "x") -> None:
    """Leaves partitions as Spark's tasks do; the i-th has i + 1 rows from `first` on."""
    directory.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        rows = list(range(first, first + task + 1))
        file = directory / f"part-{task:05}-{attempt}-c000.zstd.parquet"
        pq.write_table(pa.table({"a": rows}), file)
        file.with_name(f".{file.name}.crc").write_bytes(b"crc")


def description(digit: str, *, ordered: bool = False) -> DataSetDescription:
    return DataSetDescription(
        dataset_id=digit * 64,
        computes="rows",
        columns=(),
        spark_version="4.3.0",
        ordered=ordered,
    )


def keep(storage: RecoveryStorage, digit: str, *tasks: int, number: int) -> KeptDataSet:
    staged = storage.stage(JOB, dataset(digit))
    write(staged.directory, *tasks)
    return storage.publish(staged, description(digit), number_of_partitions=number)


def rows(kept: KeptDataSet) -> list[int]:
    return [len(pq.read_table(location)) for location in kept.locations]


def test_the_next_start_finds_what_was_published(starts: Starts) -> None:
    first = starts.begin(1)
    kept = keep(first, "1", 0, 1, 3, number=6)
    assert first.recovered_outputs() == {}
    second = starts.begin(2)
    (found,) = second.recovered_outputs().values()
    assert found.output.name == kept.name
    assert (found.number_of_partitions, found.present) == (6, frozenset(range(6)))
    assert found.kept is not None
    assert found.kept.manifest == kept.manifest
    assert found.kept.directories != kept.directories
    assert rows(found.kept) == [1, 2, 4]
    assert second.damage(found.kept) is None
    tracked = {
        each.partition_id.index: each.metrics.rows
        for each in second.get_all_partition_with_metrics()
    }
    assert tracked == {0: 1, 1: 2, 2: 0, 3: 4, 4: 0, 5: 0}
    assert not Path(kept.directories[0]).exists()
    second.remove(found.kept)
    assert starts.files() == []


def test_what_tasks_had_committed_is_completed(starts: Starts) -> None:
    first = starts.begin(1)
    staged = first.stage(JOB, dataset("1"))
    write(staged.directory, 0, 2)
    write(staged.directory / "_temporary" / "0" / "attempt", 1)
    second = starts.begin(2)
    whole = OutputID.parse(staged.name)
    found = second.recovered_outputs()[whole]
    assert (found.kept, found.present, found.number_of_partitions) == (None, {0, 2}, None)
    missing = second.stage_missing(JOB, whole, [1, 3], 4)
    write(missing.directory, 0, 1, first=100, attempt="y")
    kept = second.publish(missing, description("1"))
    assert kept.name == whole.name
    assert [each.index for each in kept.manifest.partitions] == [0, 1, 2, 3]
    assert rows(kept) == [1, 1, 3, 2]
    assert second.damage(kept) is None
    third = starts.begin(3)
    again = third.recovered_outputs()[whole].kept
    assert again is not None
    assert third.rewritten(again) is None
    for place, partition in enumerate(again.manifest.partitions):
        os.utime(again.locations[place], ns=(1, 1))
        assert third.rewritten(again) == f"partition {place} was modified"
        assert third.damage(again) == f"partition {place} was modified"
        modified = modified_ns(partition.version)
        assert modified is not None
        os.utime(again.locations[place], ns=(modified, modified))
    assert rows(again) == [1, 1, 3, 2]
    assert again.manifest.partitions == kept.manifest.partitions
    assert third.damage(again) is None
    third.remove(again)
    assert starts.files() == []


def test_a_completion_that_is_interrupted_is_completed_itself(starts: Starts) -> None:
    staged = starts.begin(1).stage(JOB, dataset("1"))
    write(staged.directory, 4)
    whole = OutputID.parse(staged.name)
    second = starts.begin(2)
    missing = second.stage_missing(JOB, whole, [0, 1, 2, 3], 5)
    # Task 2 makes partition 2, task 3 makes partition 3.
    write(missing.directory, 2, 3, attempt="y")
    third = starts.begin(3)
    found = third.recovered_outputs()[whole]
    assert (found.present, found.number_of_partitions) == ({2, 3, 4}, 5)
    assert {each.partition_id.output for each in third.get_all_partition_with_metrics()} == {whole}
    missing = third.stage_missing(JOB, whole, [0, 1], 5)
    write(missing.directory, 0, 1, attempt="z")
    kept = third.publish(missing, description("1"))
    assert rows(kept) == [1, 2, 3, 4, 5]
    fourth = starts.begin(4)
    found = fourth.recovered_outputs()[whole]
    assert found.kept is not None
    assert rows(found.kept) == [1, 2, 3, 4, 5]


def test_an_output_of_which_everything_was_committed_is_only_published(starts: Starts) -> None:
    staged = starts.begin(1).stage(JOB, dataset("1"))
    write(staged.directory, 0, 1)
    whole = OutputID.parse(staged.name)
    kept = starts.begin(2).publish_salvaged(JOB, whole, description("1"), 3)
    assert rows(kept) == [1, 2]
    found = starts.begin(3).recovered_outputs()[whole]
    assert found.kept is not None
    assert (rows(found.kept), found.number_of_partitions) == ([1, 2], 3)


def test_tasks_that_write_other_partitions_than_were_missing_publish_nothing(
    starts: Starts,
) -> None:
    staged = starts.begin(1).stage(JOB, dataset("1"))
    write(staged.directory, 0)
    second = starts.begin(2)
    whole = OutputID.parse(staged.name)
    missing = second.stage_missing(JOB, whole, [1], 2)
    write(missing.directory, 0, 1)
    with pytest.raises(StorageError):
        second.publish(missing, description("1"))
    second.discard(missing)
    missing = second.stage_missing(JOB, whole, [1], 2)
    write(missing.directory, 0)
    written = [WrittenPartition(0, "anywhere", 1), WrittenPartition(1, "anywhere", 1)]
    with pytest.raises(StorageError, match="2 tasks wrote partitions, expected 1"):
        second.publish(missing, description("1"), written)
    with pytest.raises(StorageError, match="order"):
        second.publish(missing, description("1", ordered=True))
    assert rows(second.publish(missing, description("1"), written[:1])) == [1, 1]


def test_what_was_not_recovered_can_not_be_completed(starts: Starts) -> None:
    storage = starts.begin(1)
    unknown = OutputID(dataset("1"), "0badcafe")
    with pytest.raises(StorageError, match="expected a recovered output"):
        storage.stage_missing(JOB, unknown, [0], 1)
    with pytest.raises(StorageError, match="expected a recovered output"):
        storage.publish_salvaged(JOB, unknown, description("1"), 1)
    for bad in ([], [0, 0], [2]):
        with pytest.raises(ValueError, match="expected"):
            storage.stage_missing(JOB, unknown, bad, 2)


@pytest.mark.parametrize("harm", ["gone", "torn", "touched"])
def test_a_published_dataset_that_lost_a_partition_is_still_good_for_the_others(
    starts: Starts, harm: str
) -> None:
    kept = keep(starts.begin(1), "1", 0, 1, 2, number=3)
    file = Path(kept.locations[1])
    if harm == "gone":
        file.unlink()
    elif harm == "torn":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        os.utime(file, ns=(1, 1))
    second = starts.begin(2)
    (found,) = second.recovered_outputs().values()
    assert (found.kept, found.present, found.number_of_partitions) == (None, {0, 2}, 3)
    assert len(starts.files()) == 2


def test_half_written_files_and_what_tasks_made_by_themselves_are_not_found(
    starts: Starts,
) -> None:
    first = starts.begin(1)
    staged = first.stage(JOB, dataset("1"))
    (staged.directory / "part-00000-x-c000.zstd.parquet").write_bytes(b"PAR1")
    given_up = first.stage(JOB, dataset("2"))
    first.discard(given_up)
    # A task of the discarded output that still ran.
    write(given_up.directory, 0)
    second = starts.begin(2)
    assert second.recovered_outputs() == {}
    assert starts.files() == []


# -- what the environment keeps as well


@pytest.fixture
def environment(starts: Starts) -> Iterator[EmbeddedStorage]:
    """What an environment keeps on the same machine."""
    storage = EmbeddedStorage(starts.root)
    yield storage
    storage.close()


def test_what_a_job_has_kept_stays_with_the_environment_when_it_ends(
    starts: Starts, environment: EmbeddedStorage
) -> None:
    staged = starts.begin(1).stage(JOB, dataset("1"))
    write(staged.directory, 0, 2)
    second = starts.begin(2)
    missing = second.stage_missing(JOB, OutputID.parse(staged.name), [1], 3)
    write(missing.directory, 0, attempt="y")
    kept = second.publish(missing, description("1"))
    linked = second.link_into(kept, environment, OTHER_JOB)
    assert rows(linked) == rows(kept) == [1, 1, 3]
    environment.end_job(OTHER_JOB)
    second.release_all()
    assert environment.damage(linked) is None
    assert rows(linked) == [1, 1, 3]
    assert len(starts.files()) == 3
    environment.remove(linked)
    assert starts.files() == []


def test_environment_and_job_release_nothing_of_one_another(
    starts: Starts, environment: EmbeddedStorage
) -> None:
    first = starts.begin(1)
    kept = keep(first, "1", 0, 1, number=2)
    environment.remove(first.link_into(kept, environment, OTHER_JOB))
    EmbeddedStorage(starts.root).close()
    assert first.damage(kept) is None
    Path(kept.locations[1]).unlink()
    with pytest.raises(StorageError, match="linked"):
        first.link_into(kept, environment, OTHER_JOB)
    starts.begin(2)
    with pytest.raises(StaleEpochError):
        first.link_into(kept, environment, OTHER_JOB)
    assert len(starts.files()) == 1


# -- the start before


def test_a_start_that_was_taken_over_is_refused_everywhere(starts: Starts) -> None:
    first = starts.begin(1)
    kept = keep(first, "1", 0, 1, number=2)
    staged = first.stage(JOB, dataset("2"))
    write(staged.directory, 0)
    second = starts.begin(2)
    # Its tasks run on, under a path that counts no more.
    write(staged.directory, 1)
    acts: list[Callable[[], object]] = [
        lambda: first.stage(JOB, dataset("e")),
        lambda: first.publish(staged, description("2")),
        lambda: first.damage(kept),
    ]
    for act in acts:
        with pytest.raises(StaleEpochError):
            act()
    # What releases something is silent.
    first.discard(staged)
    first.end_job(JOB)
    first.remove(kept)
    first.release_all()
    with pytest.raises(StaleEpochError):
        starts.begin(1)
    found = second.recovered_outputs()
    assert {output.dataset_id: each.present for output, each in found.items()} == {
        dataset("1"): {0, 1},
        dataset("2"): {0},
    }
    whole = found[OutputID.parse(str(kept.name))].kept
    assert whole is not None
    assert second.damage(whole) is None
    assert len(starts.files()) == 4
    starts.looked_long_ago()
    third = starts.begin(3)
    assert len(starts.files()) == 3
    assert third.recovered_outputs().keys() == found.keys()


def test_a_job_that_has_ended_leaves_nothing_but_its_epoch(starts: Starts) -> None:
    first, second = starts.begin(1), starts.begin(2)
    keep(second, "1", 0, number=1)
    second.release_all()
    second.release_all()
    assert starts.files() == []
    for epoch in (1, 2):
        with pytest.raises(StaleEpochError):
            starts.begin(epoch)
    with pytest.raises(StaleEpochError):
        first.stage(JOB, dataset("1"))
    assert starts.begin(3).recovered_outputs() == {}


def test_an_abandoned_job_goes_when_its_retention_is_over(starts: Starts) -> None:
    first = starts.begin(1, retention=60.0)
    keep(first, "1", 0, number=1)
    long_ago = time.time() - 61
    (claim,) = (starts.root / RECOVERABLE / CLAIMS / JOB.hex).iterdir()
    starts.begin(1, job=JobID("cd" * 16))
    assert len(starts.files()) == 1
    os.utime(claim, (long_ago, long_ago))
    starts.begin(2, job=JobID("cd" * 16))
    assert len(starts.files()) == 1
    starts.looked_long_ago()
    starts.begin(1, job=JobID("ef" * 16))
    assert starts.files() == []
    assert not claim.exists()


# -- from an environment's configuration


def configured(starts: Starts, epoch: int, recorded_in: str) -> RecoveryStorage:
    root = starts.root.parent
    (root / recorded_in).mkdir(exist_ok=True)
    settings = {
        "execution.batch.job-recovery.enabled": "true",
        "high-availability.storageDir": str(root / recorded_in),
        "intermediate-result-storage.directory": str(root / "kept"),
    }
    starts.storages.append(recovery_storage(Configuration.merged({}, settings), JOB, epoch))
    return starts.storages[-1]


def test_jobs_that_are_recorded_in_different_places_do_not_meet(
    tmp_path: Path, starts: Starts
) -> None:
    keep(configured(starts, 7, "mine"), "1", 0, number=1)
    theirs = configured(starts, 3, "theirs")
    assert theirs.recovered_outputs() == {}
    theirs.release_all()
    with pytest.raises(StaleEpochError):
        configured(starts, 6, "mine")
    last = configured(starts, 8, "mine")
    assert len(last.recovered_outputs()) == 1
    last.release_all()
    # Records that begin from scratch are held up by nothing.
    shutil.rmtree(tmp_path / "mine")
    assert configured(starts, 1, "mine").recovered_outputs() == {}
    (tmp_path / "theirs" / "identity").write_text("no identity")
    with pytest.raises(StorageError, match="is corrupt"):
        configured(starts, 4, "theirs")


def test_a_configuration_that_can_not_be_used_is_named(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts.root.write_text("a file")
    with pytest.raises(StorageError, match="kept"):
        configured(starts, 1, "mine")
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    executors = Configuration.merged({}, {"taskexecutor.addresses": "127.0.0.1:1"})
    with pytest.raises(ConfigurationError, match="token"):
        recovery_storage(executors, JOB, 1)
