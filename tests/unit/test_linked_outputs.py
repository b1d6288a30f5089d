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
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, ids, output_of, write

ONE, REST_OF_ONE, KEPT = (output_of("1", each) for each in ("0badcafe", "0badbeef", "cafecafe"))


class World:
    """A task executor, an application that runs a job, and the starts of that job."""

    def __init__(self, root: Path) -> None:
        self.executor = TaskExecutor(root)
        self.app = Caller(self.executor).connect()

    def begin(self, epoch: int) -> Caller:
        return Caller.start_of(self.executor, epoch)

    def promote(self, *indices: int) -> list[tuple[int, int]]:
        kept = self.app.finish(KEPT, list(indices), 9)
        self.app.promote(KEPT, kept)
        return [(each.index, each.rows) for each in kept]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "kept")
    yield world
    world.executor.close()


@pytest.fixture
def staged(world: World) -> Path:
    """Where the output is made that partitions are linked into."""
    return world.app.open(KEPT)


def linked(directory: Path) -> list[str]:
    return sorted(path.name[:10] for path in directory.glob("part-*"))


def test_each_side_outlives_the_other(world: World, staged: Path) -> None:
    first = world.begin(1)
    first.keep(ONE, 0, 3)
    first.keep(REST_OF_ONE, 1, 4)
    world.app.link(KEPT, first.application, [*ids(ONE, 0, 3), *ids(REST_OF_ONE, 4)])
    # Each with its checksums.
    assert linked(staged) == ["part-00000", "part-00003", "part-00004"]
    assert len(list(staged.glob(".part-*.crc"))) == 3
    assert world.promote(0, 3, 4) == [(0, 3), (3, 3), (4, 3)]
    other = output_of("1", "0badf00d")
    world.app.open(other)
    world.app.link(other, first.application, ids(ONE, 0))
    world.app.promote(other, world.app.finish(other, [0], 9))
    world.executor.release_outputs(world.app.application, [other])
    assert first.damage(ONE) is None
    world.executor.unregister_application(first.application)
    assert world.app.damage(KEPT) is None and world.app.outputs() == [KEPT]


def test_what_is_linked_may_have_other_numbers(world: World, staged: Path) -> None:
    start = world.begin(1)
    start.keep(ONE, 0, 3)
    start.keep(REST_OF_ONE, 0)
    write(staged, 0, rows=1, name=KEPT.attempt)
    taken = [*ids(ONE, 0, 3), *ids(REST_OF_ONE, 0)]
    world.app.link(KEPT, start.application, taken, [7, 2, 5])
    assert world.promote(0, 2, 5, 7) == [(0, 1), (2, 3), (5, 3), (7, 3)]
    world.executor.unregister_application(start.application)
    assert world.app.damage(KEPT) is None


def test_only_published_partitions_of_a_start_are_linked_once_into_open_outputs(
    world: World, staged: Path
) -> None:
    start, app, gateway = world.begin(1), world.app, world.executor
    write(start.open(REST_OF_ONE), 0)
    start.finish(REST_OF_ONE)
    start.keep(ONE, 0, 1)
    elsewhere, missing, mine = output_of("2"), output_of("1", "11111111"), start.application
    app.open(elsewhere)
    start.open(missing, OutputPart.missing_of(ONE, [2], 3))
    other = JobID.random()
    gateway.register_job(app.application, other)
    of_one = ids(ONE, 0)
    refused: list[tuple[type[HoldfastError], Callable[[], object]]] = [
        (UnknownDataSetError, lambda: app.link(KEPT, mine, ids(REST_OF_ONE, 0))),
        (UnknownDataSetError, lambda: app.link(KEPT, mine, ids(output_of("1", "0" * 8), 0))),
        # It is not said of the application that asks.
        (UnknownDataSetError, lambda: app.link(KEPT, ApplicationID.random(), of_one)),
        (UnknownDataSetError, lambda: app.link(KEPT, app.application, ids(KEPT, 0))),
        (UnknownDataSetError, lambda: app.link(KEPT, mine, [*of_one, *ids(REST_OF_ONE, 1)])),
        (UnknownPartitionError, lambda: app.link(KEPT, mine, ids(ONE, 0, 2))),
        (UnknownDataSetError, lambda: app.link(output_of("1", "2" * 8), mine, of_one)),
        (
            UnknownApplicationError,
            lambda: gateway.link_output(ApplicationID.random(), app.job_id, KEPT, mine, of_one),
        ),
        (
            UnknownJobError,
            lambda: gateway.link_output(app.application, JobID.random(), KEPT, mine, of_one),
        ),
        (
            UnknownDataSetError,
            lambda: gateway.link_output(app.application, other, KEPT, mine, of_one),
        ),
        # What can't be one output; the rows of the last would come twice.
        (MalformedRequestError, lambda: app.link(KEPT, mine, [])),
        (MalformedRequestError, lambda: app.link(KEPT, mine, ids(ONE, 0, 0))),
        (MalformedRequestError, lambda: app.link(elsewhere, mine, of_one)),
        (MalformedRequestError, lambda: app.link(KEPT, mine, ids(ONE, 0, 1), [4])),
        (MalformedRequestError, lambda: app.link(KEPT, mine, ids(ONE, 0, 1), [4, 4])),
        (MalformedRequestError, lambda: app.link(KEPT, mine, ids(ONE, 0, 0), [4, 5])),
        # Its partitions count by the tasks that make them.
        (MalformedRequestError, lambda: start.link(missing, mine, of_one)),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()
    assert linked(staged) == []
    app.link(KEPT, mine, of_one)
    world.promote(0)
    with pytest.raises(UnknownDataSetError, match="opened"):
        app.link(KEPT, mine, of_one)
    gateway.end_job(app.application, app.job_id)
    with pytest.raises(UnknownJobError):
        app.link(KEPT, mine, of_one)


def _a_link_to_elsewhere(file: Path) -> None:
    moved = file.with_name("moved")
    file.rename(moved)
    file.symlink_to(moved)


SPOILS: dict[str, Callable[[Path], object]] = {
    "removed": Path.unlink,
    "written to": lambda file: os.utime(file, ns=(1, 1)),
    "a link to elsewhere": _a_link_to_elsewhere,
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_is_not_as_it_was_published_is_linked_not_at_all(
    world: World, staged: Path, spoil: str
) -> None:
    start = world.begin(1)
    kept: tuple[KeptPartition, ...] = start.keep(ONE, 0, 1, 2)
    SPOILS[spoil](Path(start.read_root.removeprefix("file:")) / ONE.name / kept[1].file)
    with pytest.raises(StorageError):
        world.app.link(KEPT, start.application, ids(ONE, 0, 1, 2))
    assert linked(staged) == []


def test_a_start_that_was_taken_over_gives_nothing_away(world: World, staged: Path) -> None:
    first = world.begin(1)
    first.keep(ONE, 0)
    second = world.begin(2)
    with pytest.raises(UnknownDataSetError):
        world.app.link(KEPT, first.application, ids(ONE, 0))
    assert linked(staged) == []
    world.app.link(KEPT, second.application, ids(ONE, 0))
    world.promote(0)
    third = world.begin(3)
    assert world.app.damage(KEPT) is None and third.damage(ONE) is None
