"""One application's partitions taken into another's output: each side has a life of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from holdfast.errors import (
    MalformedRequestError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

LEASE = 100.0
JOB_ROWS = 3


def output_of(digit: str, attempt: str = "0badcafe") -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), attempt)


def manifest(output: OutputID, partitions: tuple[KeptPartition, ...]) -> Manifest:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=partitions)


ONE, REST_OF_ONE, KEPT = output_of("1"), output_of("1", "0badbeef"), output_of("1", "cafecafe")


def ids(output: OutputID, *indices: int) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


class Start:
    """A start of a job that keeps what it is recovered from."""

    def __init__(
        self, gateway: TaskExecutorGateway, leave: Callable[..., None], job: JobID, epoch: int
    ) -> None:
        self.gateway = gateway
        self.leave = leave
        self.job_id = job
        claim = RecoveryClaim(job, epoch)
        self.application = claim.application
        registration = gateway.register_recovery(self.application, claim, LEASE, __version__)
        self.datasets = Path(registration.read_root.removeprefix("file:"))
        gateway.register_job(self.application, job)

    def finish(self, output: OutputID, *indices: int) -> tuple[KeptPartition, ...]:
        directory = self.gateway.open_output(self.application, self.job_id, output)
        self.leave(Path(directory), *indices, rows=JOB_ROWS, name=output.attempt)
        return self.gateway.finish_output(self.application, self.job_id, output, None, 9)

    def keep(self, output: OutputID, *indices: int) -> tuple[KeptPartition, ...]:
        kept = self.finish(output, *indices)
        described = manifest(output, kept)
        publication = Publication.of(len(kept), 9)
        self.gateway.promote(self.application, self.job_id, output, described, publication)
        return kept


class World:
    """A task executor, an application that runs a job, and the starts of that job."""

    def __init__(self, gateway: TaskExecutorGateway, leave: Callable[..., None], app: Any) -> None:
        self.gateway = gateway
        self.leave = leave
        self.app = app.connect()
        self.job_id = JobID.random()

    def begin(self, epoch: int) -> Start:
        return Start(self.gateway, self.leave, self.job_id, epoch)

    def link(
        self,
        source: ApplicationID,
        partitions: list[ResultPartitionID],
        output: OutputID = KEPT,
        numbers: list[int] | None = None,
    ) -> None:
        app = self.app
        self.gateway.link_output(app.application, app.job_id, output, source, partitions, numbers)

    def promote(self, *indices: int) -> tuple[KeptPartition, ...]:
        kept = self.app.finish(KEPT, list(indices), 9)
        self.app.promote(KEPT, kept)
        return tuple(kept)

    def damage(self) -> str | None:
        return self.gateway.damage(self.app.application, KEPT)


@pytest.fixture(params=["here", "process"])
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    make_caller: Any,
    leave: Callable[..., None],
    served: Any,
) -> Iterator[World]:
    """With the executor in this process, and in one of its own."""
    if request.param == "process":
        gateway = served.gateway()
        yield World(gateway, leave, make_caller(gateway))
        gateway.close()
        return
    executor = TaskExecutor(tmp_path / "kept")
    yield World(executor, leave, make_caller(executor))
    executor.close()


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def test_what_is_linked_outlives_what_it_was_linked_from(world: World) -> None:
    start = world.begin(1)
    start.keep(ONE, 0, 3)
    start.keep(REST_OF_ONE, 1, 4)
    staged = world.app.open(KEPT)
    world.link(start.application, [*ids(ONE, 0, 3), *ids(REST_OF_ONE, 4)])
    # Each with its checksums.
    assert [name[:11] for name in names(staged)] == [
        *(".part-00000", ".part-00003", ".part-00004"),
        *("part-00000-", "part-00003-", "part-00004-"),
    ]
    assert {pq.read_metadata(staged / name).num_rows for name in names(staged)[3:]} == {JOB_ROWS}
    kept = world.promote(0, 3, 4)
    assert [(each.index, each.rows) for each in kept] == [(0, 3), (3, 3), (4, 3)]
    world.gateway.unregister_application(start.application)
    assert world.damage() is None
    assert world.app.outputs() == [KEPT]


def test_what_is_linked_may_have_other_numbers(world: World) -> None:
    start = world.begin(1)
    start.keep(ONE, 0, 3)
    start.keep(REST_OF_ONE, 0)
    staged = world.app.open(KEPT)
    world.leave(staged, 0, rows=1, name=KEPT.attempt)
    taken = [*ids(ONE, 0, 3), *ids(REST_OF_ONE, 0)]
    world.link(start.application, taken, numbers=[7, 2, 5])
    kept = world.promote(0, 2, 5, 7)
    assert [(each.index, each.rows) for each in kept] == [(0, 1), (2, 3), (5, 3), (7, 3)]
    world.gateway.unregister_application(start.application)
    assert world.damage() is None


def test_what_it_was_linked_from_outlives_it(world: World) -> None:
    start = world.begin(1)
    start.keep(ONE, 0, 1)
    world.app.open(KEPT)
    world.link(start.application, ids(ONE, 0, 1))
    world.promote(0, 1)
    world.gateway.release_outputs(world.app.application, [KEPT])
    assert world.app.outputs() == []
    assert world.gateway.damage(start.application, ONE) is None


def test_only_published_partitions_of_a_registered_application_are_linked(world: World) -> None:
    start = world.begin(1)
    finished, kept = start.finish(REST_OF_ONE, 0), start.keep(ONE, 0, 1)
    staged = world.app.open(KEPT)
    for source, partitions, refused in (
        (start.application, ids(REST_OF_ONE, 0), UnknownDataSetError),
        (start.application, ids(output_of("1", "00000000"), 0), UnknownDataSetError),
        # It is not said of the application that asks.
        (ApplicationID.random(), ids(ONE, 0), UnknownDataSetError),
        (world.app.application, ids(KEPT, 0), UnknownDataSetError),
        (start.application, ids(ONE, 0, 2), UnknownPartitionError),
        (start.application, [*ids(ONE, 0), *ids(REST_OF_ONE, 1)], UnknownDataSetError),
    ):
        with pytest.raises(refused):
            world.link(source, partitions)
    world.gateway.release_outputs(start.application, [ONE])
    with pytest.raises(UnknownDataSetError):
        world.link(start.application, ids(ONE, 0))
    assert (len(finished), len(kept), names(staged)) == (1, 2, [])


def test_they_are_linked_into_open_outputs_of_active_jobs_alone(world: World) -> None:
    start = world.begin(1)
    start.keep(ONE, 0)
    app, gateway = world.app, world.gateway
    with pytest.raises(UnknownDataSetError, match="opened"):
        world.link(start.application, ids(ONE, 0))
    app.open(KEPT)
    with pytest.raises(UnknownApplicationError):
        gateway.link_output(
            ApplicationID.random(), app.job_id, KEPT, start.application, ids(ONE, 0)
        )
    with pytest.raises(UnknownJobError):
        gateway.link_output(app.application, JobID.random(), KEPT, start.application, ids(ONE, 0))
    other = JobID.random()
    gateway.register_job(app.application, other)
    with pytest.raises(UnknownDataSetError, match="opened"):
        gateway.link_output(app.application, other, KEPT, start.application, ids(ONE, 0))
    world.link(start.application, ids(ONE, 0))
    world.promote(0)
    with pytest.raises(UnknownDataSetError, match="opened"):
        world.link(start.application, ids(ONE, 0))
    gateway.end_job(app.application, app.job_id)
    with pytest.raises(UnknownJobError):
        world.link(start.application, ids(ONE, 0))


def test_what_can_not_be_one_output_is_refused(world: World) -> None:
    start = world.begin(1)
    start.keep(ONE, 0, 1)
    start.keep(REST_OF_ONE, 1)
    staged = world.app.open(KEPT)
    elsewhere = output_of("2")
    world.app.open(elsewhere)
    refused: list[tuple[OutputID, list[ResultPartitionID], list[int] | None]] = [
        (KEPT, [], None),
        (KEPT, ids(ONE, 0, 0), None),
        (KEPT, [*ids(ONE, 1), *ids(REST_OF_ONE, 1)], None),
        (elsewhere, ids(ONE, 0), None),
        (KEPT, ids(ONE, 0, 1), [4]),
        (KEPT, ids(ONE, 0, 1), [4, 4]),
        # Its rows would come twice.
        (KEPT, ids(ONE, 0, 0), [4, 5]),
    ]
    for output, partitions, numbers in refused:
        with pytest.raises(MalformedRequestError):
            world.link(start.application, partitions, output, numbers)
    # Its partitions count by the tasks that make them.
    part = OutputPart.missing_of(ONE, [2], 3)
    gateway, missing = world.gateway, output_of("1", "11111111")
    gateway.open_output(start.application, start.job_id, missing, part)
    with pytest.raises(MalformedRequestError, match="part of"):
        gateway.link_output(
            start.application, start.job_id, missing, start.application, ids(ONE, 0)
        )
    assert names(staged) == []


def _removed(file: Path) -> None:
    file.unlink()


def _written_to(file: Path) -> None:
    os.utime(file, ns=(1, 1))


def _a_link_to_elsewhere(file: Path) -> None:
    moved = file.with_name("moved")
    file.rename(moved)
    file.symlink_to(moved)


@pytest.mark.parametrize("spoil", [_removed, _written_to, _a_link_to_elsewhere])
def test_what_is_not_as_it_was_published_is_linked_not_at_all(
    tmp_path: Path, make_caller: Any, leave: Callable[..., None], spoil: Callable[[Path], None]
) -> None:
    executor = TaskExecutor(tmp_path / "kept")
    world = World(executor, leave, make_caller(executor))
    start = world.begin(1)
    kept = start.keep(ONE, 0, 1, 2)
    staged = world.app.open(KEPT)
    spoil(start.datasets / ONE.name / kept[1].file)
    with pytest.raises(StorageError):
        world.link(start.application, ids(ONE, 0, 1, 2))
    assert names(staged) == []
    executor.close()


def test_a_start_that_was_taken_over_gives_nothing_away(world: World) -> None:
    first = world.begin(1)
    first.keep(ONE, 0)
    staged = world.app.open(KEPT)
    second = world.begin(2)
    with pytest.raises(UnknownDataSetError):
        world.link(first.application, ids(ONE, 0))
    assert names(staged) == []
    world.link(second.application, ids(ONE, 0))
    world.promote(0)
    third = world.begin(3)
    assert world.damage() is None
    assert third.gateway.damage(third.application, ONE) is None
