"""A job's partitions on one machine: what the next start finds, and what the last one can't do."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.api.storage import recovery_storage
from holdfast.config import Configuration
from holdfast.errors import StaleEpochError, StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.recovery.embedded_recovery_storage import (
    RECOVERABLE,
    embedded_recovery_storage,
)
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.claim_files import CLAIMS
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from tests.taskexecutor.callers import description

JOB = JobID("ab" * 16)
OTHER_JOB = JobID("cd" * 16)
RETENTION = 3600.0


class Starts:
    """Starts of one job on one directory, each of which is killed by the next."""

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

    @classmethod
    @contextmanager
    def on(cls, root: Path) -> Iterator[Starts]:
        starts = cls(root)
        yield starts
        for storage in starts.storages:
            storage.leave()


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    with Starts.on(tmp_path / "kept") as starts:
        yield starts


def dataset(digit: str) -> IntermediateDataSetID:
    return IntermediateDataSetID(digit * 64)


def write(directory: Path, *tasks: int, size: int | None = None, attempt: str = "x") -> None:
    """Leaves partitions as Spark's tasks do; the i-th has `size` or else i + 1 rows."""
    directory.mkdir(parents=True, exist_ok=True)
    for task in tasks:
        file = directory / f"part-{task:05}-{attempt}-c000.zstd.parquet"
        pq.write_table(pa.table({"a": range(task + 1 if size is None else size)}), file)
        file.with_name(f".{file.name}.crc").write_bytes(b"crc")


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
    assert found.kept is not None and found.kept.manifest == kept.manifest
    assert rows(found.kept) == [1, 2, 4]
    assert second.damage(found.kept) is None
    tracked = second.get_all_partition_with_metrics()
    assert [each.metrics.rows for each in tracked] == [1, 2, 0, 4, 0, 0]
    assert not Path(kept.directories[0]).exists()
    second.remove(found.kept)
    assert starts.files() == []


@settings(max_examples=settings().max_examples // 3)
@given(st.data())
def test_whatever_tasks_had_committed_is_completed_to_each_partition_once(
    data: st.DataObject,
) -> None:
    def some_of(tasks: Iterable[int]) -> set[int]:
        return data.draw(st.sets(st.sampled_from([*tasks])))

    with TemporaryDirectory() as home, Starts.on(Path(home, "kept")) as starts:
        number = data.draw(st.integers(1, 4))
        staged = starts.begin(1).stage(JOB, dataset("1"))
        there = some_of(range(number))
        write(staged.directory, *there)
        write(staged.directory / "_temporary" / "0" / "attempt", *some_of(range(number)))
        if not there:
            return
        whole, epoch = OutputID.parse(staged.name), 1
        while True:
            epoch += 1
            storage = starts.begin(epoch)
            found = storage.recovered_outputs()[whole]
            assert found.kept is None and set(found.present) == there
            left = sorted(set(range(number)) - there)
            if not left:
                kept = storage.publish_salvaged(JOB, whole, description("1"), number)
                break
            missing = storage.stage_missing(JOB, whole, left, number)
            made = some_of(left)
            for task in made:
                # Its number in this job is another one than its place in the whole.
                write(missing.directory, left.index(task), size=task + 1, attempt=f"y{epoch}")
            there |= made
            if made == set(left):
                kept = storage.publish(missing, description("1"))
                break
        expected = [task + 1 for task in range(number)]
        assert (kept.name, rows(kept)) == (whole.name, expected)
        last = starts.begin(epoch + 1)
        again = last.recovered_outputs()[whole].kept
        assert again is not None and again.manifest.partitions == kept.manifest.partitions
        assert rows(again) == expected and last.damage(again) is None
        place = data.draw(st.integers(0, number - 1))
        os.utime(again.locations[place], ns=(1, 1))
        assert last.rewritten(again) == last.damage(again) == f"partition {place} was modified"
        last.remove(again)
        assert starts.files() == []


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
    ordered = description("1").model_copy(update={"ordered": True})
    with pytest.raises(StorageError, match="order"):
        second.publish(missing, ordered)
    assert rows(second.publish(missing, description("1"), written[:1])) == [1, 1]


def test_what_is_not_whole_or_was_given_up_is_not_found(starts: Starts) -> None:
    first = starts.begin(1)
    kept = keep(first, "1", 0, 1, 2, number=3)
    half_written, given_up = first.stage(JOB, dataset("2")), first.stage(JOB, dataset("3"))
    (half_written.directory / "part-00000-x-c000.zstd.parquet").write_bytes(b"PAR1")
    first.discard(given_up)
    # A task of the discarded output that still ran.
    write(given_up.directory, 0)
    os.utime(kept.locations[1], ns=(1, 1))
    (found,) = starts.begin(2).recovered_outputs().values()
    assert found.kept is None
    assert (set(found.present), found.number_of_partitions) == ({0, 2}, 3)
    assert len(starts.files()) == 2


def test_environment_and_job_release_nothing_of_one_another(starts: Starts) -> None:
    environment = EmbeddedStorage(starts.root)
    first = starts.begin(1)
    kept = keep(first, "1", 0, 1, number=2)
    environment.remove(first.link_into(kept, environment, OTHER_JOB))
    EmbeddedStorage(starts.root).close()
    assert first.damage(kept) is None
    linked = first.link_into(kept, environment, OTHER_JOB)
    environment.end_job(OTHER_JOB)
    Path(kept.locations[1]).unlink()
    with pytest.raises(StorageError, match="linked"):
        first.link_into(kept, environment, OTHER_JOB)
    second = starts.begin(2)
    with pytest.raises(StaleEpochError):
        first.link_into(kept, environment, OTHER_JOB)
    second.release_all()
    assert environment.damage(linked) is None and rows(linked) == [1, 2]
    environment.close()
    assert starts.files() == []


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
        lambda: starts.begin(1),
    ]
    for act in acts:
        with pytest.raises(StaleEpochError):
            act()
    # What releases something is silent.
    first.discard(staged)
    first.end_job(JOB)
    first.remove(kept)
    first.release_all()
    found = {output.dataset_id: each for output, each in second.recovered_outputs().items()}
    present = {dataset_id: each.present for dataset_id, each in found.items()}
    assert present == {dataset("1"): {0, 1}, dataset("2"): {0}}
    whole = found[dataset("1")].kept
    assert whole is not None and second.damage(whole) is None
    assert len(starts.files()) == 4
    starts.looked_long_ago()
    third = starts.begin(3)
    assert len(starts.files()) == 3
    assert third.recovered_outputs().keys() == second.recovered_outputs().keys()
    # A job that has ended leaves nothing but its epoch.
    for _ in range(2):
        third.release_all()
        assert starts.files() == []
    for epoch in (1, 3):
        with pytest.raises(StaleEpochError):
            starts.begin(epoch)
    assert starts.begin(4).recovered_outputs() == {}


def test_an_abandoned_job_goes_when_its_retention_is_over(starts: Starts) -> None:
    keep(starts.begin(1, retention=60.0), "1", 0, number=1)
    long_ago = time.time() - 61
    (claim,) = (starts.root / RECOVERABLE / CLAIMS / JOB.hex).iterdir()
    for epoch in (1, 2):
        starts.begin(epoch, job=OTHER_JOB)
        assert len(starts.files()) == 1
        os.utime(claim, (long_ago, long_ago))
    starts.looked_long_ago()
    starts.begin(3, job=OTHER_JOB)
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
