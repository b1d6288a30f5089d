"""Starts of one job at a task executor in this process: the newest one has what others had."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

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
from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import Manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.claim_files import CLAIMS
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__
from tests.taskexecutor.callers import JOB, Caller, Clock, ids, manifest_of, output_of, parts, write

LEASE = 100.0
GRACE = 5.0
ONE, TWO, THREE = map(output_of, "123")
REST_OF_ONE = output_of("1", "0badbeef")


class World:
    """A directory, who serves it, and the time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock, self.wall_clock = Clock(), Clock(1.8e9)
        self.executor = self.executor_on_it()

    def executor_on_it(self) -> TaskExecutor:
        clocks = {"clock": self.clock, "wall_clock": self.wall_clock}
        return TaskExecutor(self.root, grace_seconds=GRACE, **clocks)  # type: ignore[arg-type]

    def restart(self) -> None:
        """As after a kill: nothing is released."""
        self.executor.leave()
        self.executor = self.executor_on_it()
        self.executor.adopt(GRACE)

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.wall_clock.now += seconds
        self.executor.tick()

    def begin(self, epoch: int) -> Caller:
        return Caller.start_of(self.executor, epoch, lease_seconds=LEASE)

    def files(self) -> list[str]:
        return parts(self.root)

    def has_claim(self) -> bool:
        return (self.root / CLAIMS / JOB.hex).exists()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "kept")
    yield world
    world.executor.leave()


def is_refused(start: Caller) -> bool:
    """Whether a start can do nothing any more."""
    app, gateway = start.application, start.gateway
    calls: list[Callable[[], object]] = [
        lambda: gateway.register_job(app, JobID.random()),
        lambda: start.open(output_of("e")),
        lambda: start.keep(TWO),
        lambda: start.link(TWO, app, ids(TWO, 0)),
        lambda: gateway.release_outputs(app, [ONE]),
        lambda: gateway.fail_output(app, JOB, TWO),
        lambda: gateway.promote_recovered(
            app, JOB, ONE, manifest_of(ONE, ()), Publication.of(1, 1)
        ),
        lambda: gateway.heartbeat(app, {}),
        lambda: gateway.end_job(app, JOB),
        lambda: start.damage(ONE),
        lambda: gateway.open_shuffles(app),
        start.outputs,
    ]
    for call in calls:
        with pytest.raises(UnknownApplicationError):
            call()
    gateway.unregister_application(app)
    with pytest.raises(StaleEpochError):
        start.connect()
    return True


# -- who may register


def test_only_the_start_s_own_application_registers_and_only_for_a_while(world: World) -> None:
    claim = RecoveryClaim(JOB, 3)
    for application, lease in (
        (ApplicationID.random(), LEASE),
        (RecoveryClaim(JOB, 4).application, LEASE),
        *((claim.application, lease) for lease in (math.inf, math.nan, 0.0)),
    ):
        with pytest.raises(MalformedRequestError):
            world.executor.register_recovery(application, claim, lease, __version__)
    with pytest.raises(VersionMismatchError):
        world.executor.register_recovery(claim.application, claim, LEASE, "0.0.0")
    assert not (world.root / CLAIMS).exists()
    world.begin(2)
    with pytest.raises(DuplicateRegistrationError):
        world.begin(2)
    with pytest.raises(StaleEpochError, match="fenced by epoch 2"):
        world.begin(1)
    # An ordinary application recovers nothing, and leaves nothing half open by trying.
    app = Caller(world.executor).connect()
    with pytest.raises(UnknownApplicationError):
        app.found()
    with pytest.raises(MalformedRequestError, match="recovers no job"):
        app.open(REST_OF_ONE, OutputPart.missing_of(ONE, [0], 1))
    app.open(REST_OF_ONE)


# -- taking over


def test_a_newer_start_has_what_was_published_and_the_older_one_can_do_nothing(
    world: World,
) -> None:
    first = world.begin(1)
    first.keep(ONE, 0, 1, 3)
    open_directory = first.open(TWO)
    write(open_directory, 0)
    write(first.open(THREE), 0, 2, 5)
    first.finish(THREE, [0, 2], 9)
    second = world.begin(2)
    assert not open_directory.exists()
    assert is_refused(first)
    found = second.found()
    assert {
        output: ([part.index for part in each.partitions], each.number_of_partitions)
        for output, each in found.items()
    } == {ONE: ([0, 1, 3], 4), TWO: ([0], None), THREE: ([0, 2], 9)}
    assert [output for output, each in found.items() if each.manifest is not None] == [ONE]
    assert second.damage(ONE) is None and second.outputs() == [ONE]
    # The job itself continues under the same id, though its tasks before had a slot.
    write(second.open(output_of("4")), 0)
    assert len(second.finish(output_of("4"))) == 1
    # What tasks of the first one still write is removed.
    write(open_directory, 0)
    write(open_directory / "_temporary" / "0" / "task", 1)
    before = world.files()
    world.passes(0)
    assert len(world.files()) == len(before) - 2 and not open_directory.exists()
    # Released are also those that were recovered in part.
    second.gateway.release_outputs(second.application, [ONE, TWO, THREE, output_of("5")])
    assert second.found() == {}


def test_what_map_tasks_have_left_is_the_next_start_s(world: World) -> None:
    first = world.begin(1)
    written = Path(world.executor.open_shuffles(first.application)) / "a"
    written.mkdir()
    (written / "0-1-10-100-0.index").write_text("whole")
    second = world.begin(2)
    assert is_refused(first)
    found = Path(world.executor.open_shuffles(second.application)) / "a"
    assert (found / "0-1-10-100-0.index").read_text() == "whole"
    # A task of the first start that still runs can't leave anything any more.
    assert not written.parent.parent.exists()
    world.executor.unregister_application(second.application)
    assert not found.exists()


# -- publishing what was recovered


def test_a_part_counts_by_the_places_in_the_whole(world: World) -> None:
    directory = world.begin(1).open(ONE)
    write(directory, 0, 1)
    # Neither whole nor there once.
    torn = directory / "part-00001-x-c000.zstd.parquet"
    torn.write_bytes(torn.read_bytes()[:-1])
    write(directory, 5)
    write(directory, 5, name="another")
    write(directory / "_temporary" / "0" / "task", 3)
    second = world.begin(2)
    assert [each.index for each in second.found()[ONE].partitions] == [0]
    with pytest.raises(MalformedRequestError, match="another dataset"):
        second.open(THREE, OutputPart.missing_of(ONE, [0], 1))
    # The task in the fourth place was never to run.
    write(second.open(REST_OF_ONE, OutputPart.missing_of(ONE, [7, 5, 3], 8)), 0, 2, 3)
    rest = world.begin(3).found()[REST_OF_ONE]
    assert [(each.index, each.file[:10]) for each in rest.partitions] == [
        *((3, "part-00002"), (7, "part-00000"))
    ]
    assert (rest.part_of, rest.number_of_partitions) == (ONE, 8)


def test_only_what_is_there_as_it_was_found_is_published(world: World) -> None:
    write(world.begin(1).open(ONE), 0, 1)
    second = world.begin(2)
    partitions = second.found()[ONE].partitions

    def promote(manifest: Manifest, output: OutputID = ONE, number: int = 2) -> None:
        publication = Publication.of(2, number)
        second.gateway.promote_recovered(second.application, JOB, output, manifest, publication)

    whole = manifest_of(ONE, partitions)
    wrong: list[tuple[type[Exception], Callable[[], None]]] = [
        (UnknownPartitionError, lambda: promote(manifest_of(ONE, partitions[:1]))),
        (MalformedRequestError, lambda: promote(manifest_of(TWO, partitions))),
        (MalformedRequestError, lambda: promote(whole, number=1)),
        (UnknownDataSetError, lambda: promote(manifest_of(TWO, partitions), TWO)),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    promote(whole)
    promote(whole)
    assert [each.manifest for each in world.begin(3).found().values()] == [whole]


def test_what_was_modified_since_it_was_found_is_not_published(world: World) -> None:
    write(world.begin(1).open(ONE), 0)
    second = world.begin(2)
    partitions = second.found()[ONE].partitions
    os.utime(next(world.root.rglob(partitions[0].file)), ns=(1, 1))
    with pytest.raises(StorageError, match="was modified"):
        second.gateway.promote_recovered(
            second.application, JOB, ONE, manifest_of(ONE, partitions), Publication.of(1, 1)
        )


# -- executors that end


def test_a_lapsed_lease_releases_everything_and_the_claim(world: World) -> None:
    first = world.begin(1)
    first.keep(ONE, 0)
    write(first.open(TWO), 0)
    world.begin(2)
    world.passes(LEASE - 1)
    assert len(world.files()) == 2 and world.has_claim()
    world.passes(1)
    assert world.files() == [] and not world.has_claim()
    assert list(world.root.glob("recoverable-*")) == []
    world.begin(1)


def test_a_heartbeat_renews_the_lease_for_those_who_adopt_as_well(world: World) -> None:
    first = world.begin(1)
    first.keep(ONE, 0)
    for _ in range(3):
        world.passes(LEASE - 1)
        world.executor.heartbeat(first.application, {})
    world.passes(LEASE / 2)
    world.restart()
    world.passes(LEASE / 2 - 1)
    assert world.files() == ["part-00000"]
    world.passes(1)
    assert world.files() == []


def test_a_job_that_has_ended_keeps_its_claim_for_a_while(world: World) -> None:
    first, second = world.begin(1), world.begin(2)
    second.keep(ONE, 0)
    # A task that never ends: an end doesn't wait for it.
    second.open(TWO)
    world.executor.unregister_application(second.application)
    assert list(world.root.glob("recoverable-*")) == []
    assert is_refused(first)
    world.restart()
    for epoch in (1, 2):
        with pytest.raises(StaleEpochError):
            world.begin(epoch)
    world.passes(LEASE)
    world.begin(1)
