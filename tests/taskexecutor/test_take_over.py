"""Starts of one job at a task executor in this process: the newest one has what others had."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    StaleEpochError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.storage.partition_version import modified_ns
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.recovery.claim_files import CLAIMS
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

JOB = JobID("ab" * 16)
LEASE = 100.0
GRACE = 5.0
Leave = Callable[..., None]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def output_of(digit: str, attempt: str = "0badcafe") -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), attempt)


ONE, TWO, THREE = output_of("1"), output_of("2"), output_of("3")
REST_OF_ONE = output_of("1", "0badbeef")


def manifest(output: OutputID, partitions: tuple[KeptPartition, ...]) -> Manifest:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=partitions)


class Start:
    """A driver that runs the job under an epoch."""

    def __init__(self, executor: TaskExecutorGateway, epoch: int, lease: float = LEASE) -> None:
        self.executor = executor
        self.claim = RecoveryClaim(JOB, epoch)
        self.application = self.claim.application
        registration = executor.register_recovery(self.application, self.claim, lease, __version__)
        self.read_root = registration.read_root
        executor.register_job(self.application, JOB)

    def open(self, output: OutputID, part: OutputPart | None = None) -> Path:
        return Path(self.executor.open_output(self.application, JOB, output, part))

    def finish(
        self, output: OutputID, indices: list[int] | None = None, number: int | None = None
    ) -> tuple[KeptPartition, ...]:
        return self.executor.finish_output(self.application, JOB, output, indices, number)

    def promote(
        self, output: OutputID, kept: tuple[KeptPartition, ...], publication: Publication
    ) -> None:
        self.executor.promote(self.application, JOB, output, manifest(output, kept), publication)

    def found(self) -> dict[OutputID, RecoveredOutput]:
        return {each.output: each for each in self.executor.recovered(self.application)}

    def is_refused(self) -> bool:
        """Whether it can do nothing here any more."""
        calls: list[Callable[[], object]] = [
            lambda: self.executor.register_job(self.application, JobID.random()),
            lambda: self.open(output_of("e")),
            lambda: self.finish(TWO),
            lambda: self.promote(TWO, (), Publication.of(1, 1)),
            lambda: self.executor.promote_recovered(
                self.application, JOB, ONE, manifest(ONE, ()), Publication.of(1, 1)
            ),
            lambda: self.executor.link_output(
                self.application, JOB, TWO, self.application, [ResultPartitionID(TWO, 0)]
            ),
            lambda: self.executor.release_outputs(self.application, [ONE]),
            lambda: self.executor.fail_output(self.application, JOB, TWO),
            lambda: self.executor.end_job(self.application, JOB),
            lambda: self.executor.damage(self.application, ONE),
            lambda: self.executor.recovered(self.application),
            lambda: self.executor.open_shuffles(self.application),
            lambda: self.executor.report(self.application),
            lambda: self.executor.heartbeat(self.application, {}),
        ]
        for call in calls:
            with pytest.raises(UnknownApplicationError):
                call()
        self.executor.unregister_application(self.application)
        with pytest.raises(StaleEpochError):
            self.executor.register_recovery(self.application, self.claim, LEASE, __version__)
        return True


class World:
    """A directory, who serves it, and the time."""

    def __init__(self, root: Path, leave: Leave) -> None:
        self.root = root
        self.leave = leave
        self.clock, self.wall_clock = Clock(), Clock()
        self.wall_clock.now = 1.8e9
        self.executor = self.executor_on_it()

    def executor_on_it(self) -> TaskExecutor:
        return TaskExecutor(
            self.root, grace_seconds=GRACE, clock=self.clock, wall_clock=self.wall_clock
        )

    def restart(self) -> None:
        """As after a kill: nothing is let go of."""
        self.executor.leave()
        self.executor = self.executor_on_it()
        self.executor.adopt(GRACE)

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.wall_clock.now += seconds
        self.executor.tick()

    def begin(self, epoch: int) -> Start:
        return Start(self.executor, epoch)

    def keep(self, start: Start, output: OutputID, *indices: int, number: int) -> None:
        self.leave(start.open(output), *indices)
        publication = Publication.of(len(indices), number)
        start.promote(output, start.finish(output, list(indices), number), publication)

    def files(self) -> list[str]:
        return sorted(path.name[:10] for path in self.root.rglob("part-*.parquet"))


@pytest.fixture
def world(tmp_path: Path, leave: Leave) -> Iterator[World]:
    world = World(tmp_path / "kept", leave)
    yield world
    world.executor.leave()


# -- who may register


def test_only_the_start_s_own_application_registers_and_only_for_a_while(world: World) -> None:
    claim = RecoveryClaim(JOB, 3)
    for application, lease in (
        (ApplicationID.random(), LEASE),
        (RecoveryClaim(JOB, 4).application, LEASE),
        (claim.application, math.inf),
        (claim.application, math.nan),
        (claim.application, 0.0),
    ):
        with pytest.raises(MalformedRequestError):
            world.executor.register_recovery(application, claim, lease, __version__)
    with pytest.raises(VersionMismatchError):
        world.executor.register_recovery(claim.application, claim, LEASE, "0.0.0")
    assert not (world.root / CLAIMS).exists()


def test_a_start_registers_once_and_none_before_it(world: World) -> None:
    second = world.begin(2)
    with pytest.raises(DuplicateRegistrationError):
        world.begin(2)
    with pytest.raises(StaleEpochError, match="fenced by epoch 2"):
        world.begin(1)
    assert second.found() == {}
    assert second.read_root.startswith(f"file:{world.root}/recoverable-")


def test_an_ordinary_application_recovers_nothing(world: World, make_caller: Any) -> None:
    app = make_caller(world.executor).connect()
    with pytest.raises(UnknownApplicationError):
        world.executor.recovered(app.application)
    with pytest.raises(MalformedRequestError, match="recovers no job"):
        part = OutputPart.missing_of(ONE, [0], 1)
        world.executor.open_output(app.application, app.job_id, REST_OF_ONE, part)
    # Nothing is left half open by it.
    world.executor.open_output(app.application, app.job_id, REST_OF_ONE)


# -- taking over


def test_a_newer_start_has_what_was_published_and_the_older_one_can_do_nothing(
    world: World,
) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, 1, 3, number=4)
    open_directory = first.open(TWO)
    world.leave(open_directory, 0)
    second = world.begin(2)
    assert not open_directory.exists()
    assert first.is_refused()
    found = second.found()
    assert [each.index for each in found[ONE].partitions] == [0, 1, 3]
    assert found[ONE].manifest is not None
    assert found[ONE].number_of_partitions == 4
    assert (found[TWO].manifest, found[TWO].number_of_partitions) == (None, None)
    assert second.executor.damage(second.application, ONE) is None
    (report,) = world.executor.report(None)
    assert (report.application, report.output) == (second.application, ONE)
    # The job itself goes on under the same id, though its tasks before had a slot.
    world.leave(second.open(THREE), 0)
    assert len(second.finish(THREE)) == 1


def test_what_was_finished_and_not_published_is_partial_with_its_number(world: World) -> None:
    first = world.begin(1)
    world.leave(first.open(ONE), 0, 2, 5)
    first.finish(ONE, [0, 2], 9)
    found = world.begin(2).found()[ONE]
    assert [each.index for each in found.partitions] == [0, 2]
    assert (found.manifest, found.number_of_partitions) == (None, 9)


def test_what_map_tasks_have_left_is_the_next_start_s(world: World) -> None:
    first = world.begin(1)
    written = Path(world.executor.open_shuffles(first.application)) / "a"
    written.mkdir()
    (written / "0-1-10-100-0.index").write_text("whole")
    assert world.executor.open_shuffles(first.application) == str(written.parent)
    second = world.begin(2)
    assert first.is_refused()
    found = Path(world.executor.open_shuffles(second.application)) / "a"
    assert (found / "0-1-10-100-0.index").read_text() == "whole"
    # A task of the first start that still runs can't leave anything any more.
    assert not written.parent.parent.exists()
    world.executor.unregister_application(second.application)
    assert not found.exists()


def test_an_ordinary_application_has_no_shuffles(world: World) -> None:
    application = ApplicationID.random()
    world.executor.register_application(application, LEASE, __version__)
    with pytest.raises(UnknownApplicationError):
        world.executor.open_shuffles(application)


def test_several_starts_in_a_row_lose_nothing(world: World) -> None:
    for epoch, digit in enumerate("123", start=1):
        world.keep(world.begin(epoch * 10), output_of(digit), 0, number=1)
    assert world.begin(31).found().keys() == {ONE, TWO, THREE}
    assert sorted(path.name for path in world.root.iterdir() if path.is_dir()) == [
        CLAIMS,
        f"recoverable-{RecoveryClaim(JOB, 31).application.hex}",
    ]
    assert len(list((world.root / CLAIMS / JOB.hex).iterdir())) == 1


def test_files_that_are_not_whole_or_there_twice_are_not_recovered(
    world: World, leave: Leave
) -> None:
    directory = world.begin(1).open(ONE)
    leave(directory, 0, 1, 2)
    leave(directory, 1, name="another")
    torn = directory / "part-00002-x-c000.zstd.parquet"
    torn.write_bytes(torn.read_bytes()[:-1])
    leave(directory / "_temporary" / "0" / "task", 3)
    (directory / "part-00004-x-c000.zstd.parquet").symlink_to("/dev/null")
    (directory / "part-00005-x-c000.zstd.parquet").mkdir()
    (directory / "unknown").mkdir()
    second = world.begin(2)
    assert [each.index for each in second.found()[ONE].partitions] == [0]
    assert world.files() == ["part-00000"]


# -- publishing what was recovered


def test_what_was_recovered_is_published_with_what_was_missing(world: World) -> None:
    world.leave(world.begin(1).open(ONE), 0, 2)
    second = world.begin(2)
    part = OutputPart.missing_of(ONE, [3, 1], 4)
    world.leave(second.open(REST_OF_ONE, part), 0, 1)
    kept = second.finish(REST_OF_ONE, [1, 3], 4)
    assert [(each.index, each.file[:10]) for each in kept] == [(1, "part-00001"), (3, "part-00000")]
    publication = Publication.of(4, 4)
    salvaged = second.found()[ONE].partitions
    world.executor.promote_recovered(
        second.application, JOB, ONE, manifest(ONE, salvaged), publication
    )
    second.promote(REST_OF_ONE, kept, publication)
    for epoch in (2, 3):
        start = second if epoch == 2 else world.begin(epoch)
        found = start.found()
        assert {each.part_of for each in found.values()} == {ONE}
        assert {each.publication for each in found.values()} == {publication}
        assert found[ONE].partitions == salvaged
        assert found[REST_OF_ONE].partitions == kept
        assert {each.output for each in world.executor.report(start.application)} == set(found)


def test_a_part_that_was_interrupted_counts_by_the_places_in_the_whole(world: World) -> None:
    world.leave(world.begin(1).open(ONE), 0)
    part = OutputPart.missing_of(ONE, [7, 5, 3], 8)
    # The task in the fourth place was never to run.
    world.leave(world.begin(2).open(REST_OF_ONE, part), 0, 2, 3)
    found = world.begin(3).found()[REST_OF_ONE]
    assert [(each.index, each.file[:10]) for each in found.partitions] == [
        (3, "part-00002"),
        (7, "part-00000"),
    ]
    assert (found.part_of, found.number_of_partitions) == (ONE, 8)


def test_a_part_without_its_note_is_not_recovered(world: World) -> None:
    second = world.begin(2)
    directory = second.open(REST_OF_ONE, OutputPart.missing_of(ONE, [1], 2))
    world.leave(directory, 0)
    (directory / "_part.json").write_text("{}")
    other = second.open(TWO)
    world.leave(other, 0)
    (other / "_part.json").unlink()
    assert world.begin(3).found() == {}
    assert world.files() == []


def test_a_part_of_another_dataset_is_refused(world: World) -> None:
    start = world.begin(1)
    with pytest.raises(MalformedRequestError, match="another dataset"):
        start.open(TWO, OutputPart.missing_of(ONE, [0], 1))
    start.open(TWO)


def test_only_what_lies_there_as_it_was_found_is_published(world: World) -> None:
    first = world.begin(1)
    directory = first.open(ONE)
    world.leave(directory, 0, 1)
    second = world.begin(2)
    partitions = second.found()[ONE].partitions

    def promote(output: OutputID, described: Manifest, number: int = 2) -> None:
        publication = Publication.of(2, number)
        second.executor.promote_recovered(second.application, JOB, output, described, publication)

    with pytest.raises(UnknownPartitionError):
        promote(ONE, manifest(ONE, partitions[:1]))
    with pytest.raises(MalformedRequestError):
        promote(ONE, manifest(TWO, partitions))
    with pytest.raises(MalformedRequestError):
        promote(ONE, manifest(ONE, partitions), number=1)
    with pytest.raises(UnknownDataSetError):
        promote(TWO, manifest(TWO, partitions))
    (file,) = world.root.rglob(partitions[0].file)
    os.utime(file, ns=(1, 1))
    with pytest.raises(StorageError, match="was modified"):
        promote(ONE, manifest(ONE, partitions))
    modified = modified_ns(partitions[0].version)
    assert modified is not None
    os.utime(file, ns=(modified, modified))
    promote(ONE, manifest(ONE, partitions))
    promote(ONE, manifest(ONE, partitions))
    assert world.executor.damage(second.application, ONE) is None


def test_what_was_recovered_in_part_is_released_like_what_was_published(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, number=1)
    world.leave(first.open(TWO), 0)
    second = world.begin(2)
    world.executor.release_outputs(second.application, [ONE, TWO, THREE])
    assert (second.found(), world.files()) == ({}, [])


# -- executors that end


def test_an_executor_that_starts_again_has_everything(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, 1, number=2)
    world.leave(first.open(TWO), 1)
    world.restart()
    # The driver is still the same, and hears of a start that it knows nothing of.
    found = {each.output: each for each in world.executor.recovered(first.application)}
    assert found.keys() == {ONE, TWO}
    again = world.begin(1)
    assert again.found() == found
    world.restart()
    assert world.begin(2).found().keys() == {ONE, TWO}
    with pytest.raises(StaleEpochError):
        world.begin(1)


def test_an_executor_that_was_killed_while_one_took_over_goes_on_with_that(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, number=1)
    world.keep(first, TWO, 0, number=1)
    second = world.begin(2)
    own = Path(second.read_root.removeprefix("file:")).parent
    # As it lies there after the first rename, and in the midst of the others.
    taken = own / "taken" / f"recoverable-{first.application.hex}"
    (taken / "datasets").mkdir(parents=True)
    (own / "datasets" / ONE.name).rename(taken / "datasets" / ONE.name)
    deeper = taken / "taken" / "recoverable-0" / "datasets"
    deeper.mkdir(parents=True)
    (own / "datasets" / TWO.name).rename(deeper / TWO.name)
    world.restart()
    third = world.begin(3)
    assert third.found().keys() == {ONE, TWO}
    assert world.executor.damage(third.application, TWO) is None


def test_a_lapsed_lease_releases_everything_and_the_claim(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, number=1)
    world.leave(first.open(TWO), 0)
    world.begin(2)
    world.passes(LEASE - 1)
    assert len(world.files()) == 2
    world.passes(1)
    assert world.files() == []
    assert not (world.root / CLAIMS / JOB.hex).exists()
    assert list(world.root.glob("recoverable-*")) == []
    world.begin(1)


def test_a_heartbeat_renews_the_lease_for_those_who_adopt_as_well(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, number=1)
    for _ in range(3):
        world.passes(LEASE - 1)
        world.executor.heartbeat(first.application, {})
    world.passes(LEASE / 2)
    world.restart()
    world.passes(LEASE / 2 - 1)
    assert world.files() == ["part-00000"]
    world.passes(1)
    assert world.files() == []


def test_what_lapsed_while_nobody_served_it_is_not_adopted(world: World) -> None:
    world.keep(world.begin(1), ONE, 0, number=1)
    world.wall_clock.now += LEASE
    world.restart()
    world.passes(0)
    assert world.files() == []
    assert not (world.root / CLAIMS / JOB.hex).exists()


def test_a_job_that_has_ended_keeps_its_claim_for_a_while(world: World) -> None:
    first, second = world.begin(1), world.begin(2)
    world.keep(second, ONE, 0, number=1)
    # A task that never ends: an end waits for nobody.
    second.open(TWO)
    world.executor.unregister_application(second.application)
    assert list(world.root.glob("recoverable-*")) == []
    assert first.is_refused()
    world.restart()
    for epoch in (1, 2):
        with pytest.raises(StaleEpochError):
            world.begin(epoch)
    world.passes(LEASE)
    world.begin(1)


def test_what_tasks_of_a_stale_start_go_on_writing_is_removed(world: World, leave: Leave) -> None:
    directory = world.begin(1).open(ONE)
    second = world.begin(2)
    leave(directory, 0)
    leave(directory / "_temporary" / "0" / "task", 1)
    world.passes(0)
    assert world.files() == []
    assert world.begin(3).found() == {}
    assert second.is_refused()


def test_hardly_anything_is_left_of_a_directory_that_somebody_removed(world: World) -> None:
    first = world.begin(1)
    world.keep(first, ONE, 0, number=1)
    for path in world.root.iterdir():
        path.rename(world.root.parent / path.name)
    with pytest.raises(UnknownApplicationError):
        world.executor.heartbeat(first.application, {})
    assert world.begin(1).found() == {}
