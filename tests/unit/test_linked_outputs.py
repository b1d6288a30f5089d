"""One application's partitions taken into another's output: neither side needs the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import (
    HoldfastError,
    MalformedRequestError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
)
from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, ids, output_of, write

ONE, REST_OF_ONE, KEPT = (output_of("1", each) for each in ("0badcafe", "0badbeef", "cafecafe"))
ELSEWHERE, MISSING, UNKNOWN = output_of("2"), output_of("1", "1" * 8), output_of("1", "0" * 8)


class World:
    """A task executor, an application that runs a job, and the starts of that job.

    Attributes:
        staged: where the output is made that partitions are linked into.
    """

    def __init__(self, root: Path) -> None:
        self.executor = TaskExecutor(root)
        self.app = Caller(self.executor).connect()
        self.staged = self.app.open(KEPT)

    def begin(self, epoch: int) -> Caller:
        return Caller.start_of(self.executor, epoch)

    def linked(self) -> list[str]:
        return sorted(path.name[:10] for path in self.staged.glob("part-*"))

    def promote(self, *indices: int) -> list[tuple[int, int]]:
        kept = self.app.finish(KEPT, list(indices), 9)
        self.app.promote(KEPT, kept)
        return [(each.index, each.rows) for each in kept]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "kept")
    yield world
    world.executor.close()


def test_each_side_outlives_the_other(world: World) -> None:
    first = world.begin(1)
    first.keep(ONE, 0, 3)
    first.keep(REST_OF_ONE, 1, 4)
    write(world.staged, 0, rows=1, name=KEPT.attempt)
    # They may have other numbers there.
    taken = [*ids(ONE, 0, 3), *ids(REST_OF_ONE, 4)]
    world.app.link(KEPT, first.application, taken, [7, 3, 5])
    assert world.linked() == ["part-00000", "part-00003", "part-00005", "part-00007"]
    # Each with its checksums.
    assert len(list(world.staged.glob(".part-*.crc"))) >= 3
    assert world.promote(0, 3, 5, 7) == [(0, 1), (3, 3), (5, 3), (7, 3)]
    other = output_of("1", "0badf00d")
    world.app.open(other)
    world.app.link(other, first.application, ids(ONE, 0))
    world.app.promote(other, world.app.finish(other, [0], 9))
    world.executor.release_outputs(world.app.application, [other])
    assert first.damage(ONE) is None
    world.executor.unregister_application(first.application)
    assert world.app.damage(KEPT) is None and world.app.outputs() == [KEPT]


def test_only_published_partitions_of_a_start_are_linked_once_into_open_outputs(
    world: World,
) -> None:
    start, app, gateway = world.begin(1), world.app, world.executor
    write(start.open(REST_OF_ONE), 0)
    start.finish(REST_OF_ONE)
    start.keep(ONE, 0, 1)
    app.open(ELSEWHERE)
    start.open(MISSING, OutputPart.missing_of(ONE, [2], 3))
    other_app, other_job = ApplicationID.random(), JobID.random()
    gateway.register_job(app.application, other_job)

    def link(
        *taken: ResultPartitionID,
        into: OutputID = KEPT,
        of: ApplicationID = start.application,
        by: tuple[ApplicationID, JobID] = (app.application, app.job_id),
        places: list[int] | None = None,
    ) -> None:
        gateway.link_output(*by, into, of, taken or ids(ONE, 0), places)

    refused: dict[type[HoldfastError], list[Callable[[], object]]] = {
        UnknownDataSetError: [
            lambda: link(*ids(REST_OF_ONE, 0)),
            lambda: link(*ids(ONE, 0), *ids(REST_OF_ONE, 1)),
            lambda: link(*ids(UNKNOWN, 0)),
            lambda: link(into=UNKNOWN),
            # It is not said of the application that asks.
            lambda: link(of=other_app),
            lambda: link(*ids(KEPT, 0), of=app.application),
            lambda: link(by=(app.application, other_job)),
        ],
        UnknownPartitionError: [lambda: link(*ids(ONE, 0, 2))],
        UnknownApplicationError: [lambda: link(by=(other_app, app.job_id))],
        UnknownJobError: [lambda: link(by=(app.application, JobID.random()))],
        # What can't be one output; the rows of two would come twice.
        MalformedRequestError: [
            lambda: app.link(KEPT, start.application, []),
            lambda: link(*ids(ONE, 0, 0)),
            lambda: link(*ids(ONE, 0, 0), places=[4, 5]),
            lambda: link(*ids(ONE, 0, 1), places=[4]),
            lambda: link(*ids(ONE, 0, 1), places=[4, 4]),
            lambda: link(into=ELSEWHERE),
            # Its partitions count by the tasks that make them.
            lambda: start.link(MISSING, start.application, ids(ONE, 0)),
        ],
    }
    for error, calls in refused.items():
        for call in calls:
            with pytest.raises(error):
                call()
    assert world.linked() == []
    link()
    world.promote(0)
    with pytest.raises(UnknownDataSetError, match="opened"):
        link()
    gateway.end_job(app.application, app.job_id)
    with pytest.raises(UnknownJobError):
        link()


SPOILS: dict[str, Callable[[Path], object]] = {
    "written to": lambda file: os.utime(file, ns=(1, 1)),
    "a link": lambda file: file.symlink_to(file.rename(file.with_name("moved"))),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_not_as_it_was_published_is_linked_not_at_all(world: World, spoil: str) -> None:
    start = world.begin(1)
    kept: tuple[KeptPartition, ...] = start.keep(ONE, 0, 1, 2)
    SPOILS[spoil](Path(start.read_root.removeprefix("file:")) / ONE.name / kept[1].file)
    with pytest.raises(StorageError):
        world.app.link(KEPT, start.application, ids(ONE, 0, 1, 2))
    assert world.linked() == []
