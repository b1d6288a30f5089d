"""Epochs and claims: who is the current start, whatever step another one was killed at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.highavailability.epochs import (
    KEPT_NUMBERS,
    claim_epoch,
    epoch_file,
    newest_epoch,
    take_epoch,
)
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.runtime.recovery.file_split_coordinator import FileSplitCoordinator
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, output_of, write

# -- epochs are taken once each, and never come back


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "epochs"


def test_other_files_are_no_epochs_and_a_certain_one_is_claimed_once(directory: Path) -> None:
    for act in (take_epoch, partial(claim_epoch, epoch=1)):
        with pytest.raises(FileNotFoundError):
            act(directory.parent / "gone" / "epochs")
    directory.mkdir()
    for name in ("12", "00000000x1", ".0000000009", "0" * 20, "-000000001"):
        (directory / name).touch()
    assert newest_epoch(directory) == 0
    assert take_epoch(directory) == 1
    assert [claim_epoch(directory, each) for each in (7, 7, 3)] == [True, False, True]
    assert newest_epoch(directory) == 7


def test_who_pauses_before_it_takes_one_gets_no_old_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_epoch(directory)
    listed = os.listdir

    def pause_after_looking(path: Path) -> list[str]:
        found = listed(path)
        monkeypatch.setattr(os, "listdir", listed)
        for _ in range(2 * KEPT_NUMBERS):
            take_epoch(directory)
        return found

    monkeypatch.setattr(os, "listdir", pause_after_looking)
    assert take_epoch(directory) == 2 * KEPT_NUMBERS + 2
    # Only the newest files stay.
    assert not epoch_file(directory, 2).exists()
    assert len(os.listdir(directory)) <= KEPT_NUMBERS


@given(st.lists(st.integers(0, 400), max_size=10))
def test_each_is_above_all_before_it_and_above_what_is_asked_for(above: list[int]) -> None:
    with TemporaryDirectory() as parent:
        directory, newest = Path(parent, "epochs"), 0
        assert newest_epoch(directory) == 0
        for least in above:
            taken = take_epoch(directory, above=least)
            assert taken == max(newest, least) + 1 == newest_epoch(directory)
            newest = taken
            assert directory.stat().st_mode & 0o777 == 0o700


# -- a start, or an executor, may be killed at any step of taking over: the next one loses nothing


LEASE = 1e6
PUBLISHED = tuple(map(output_of, "123"))
HALF_DONE = tuple(map(output_of, "45"))
A_PART = output_of("4", "0badbeef")
STEPS = (
    *((os, "link"), (os, "utime"), (Path, "mkdir"), (Path, "rename"), (Path, "replace")),
    *((Path, "rmdir"), (Path, "unlink"), (shutil, "rmtree")),
)


class Killed(BaseException):
    """Stands for the end of the process: from then on it changes nothing."""


class Kills:
    """Ends what takes the n-th step that changes something on disk, before it is taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for owner, name in STEPS:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.left is not None:
                if self.left <= 0:
                    raise Killed
                self.left -= 1
            return step(*arguments, **options)

        return counted


def begin(executor: TaskExecutor, epoch: int) -> Caller:
    return Caller.start_of(executor, epoch, lease_seconds=LEASE)


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What two starts have left, the second of which has completed nothing."""
    executor = TaskExecutor(tmp_path / "left")
    first = begin(executor, 1)
    for output in PUBLISHED:
        first.keep(output)
    for output in HALF_DONE:
        directory = first.open(output)
        write(directory, 0)
        write(directory / "_temporary" / "0", 1)
    write(begin(executor, 2).open(A_PART, OutputPart.missing_of(HALF_DONE[0], [2, 1], 3)), 0)
    executor.leave()
    return tmp_path / "left"


def has_everything(start: Caller) -> bool:
    found = start.found()
    indices = {output: [part.index for part in each.partitions] for output, each in found.items()}
    assert indices == {
        **{output: [0, 1] for output in PUBLISHED},
        **{output: [0] for output in HALF_DONE},
        A_PART: [2],
    }
    for output in PUBLISHED:
        assert found[output].manifest is not None and start.damage(output) is None
    return found[A_PART].part_of == HALF_DONE[0]


@pytest.mark.parametrize("who", ["a start", "an executor"])
def test_what_is_killed_at_any_step_of_taking_over_loses_nothing(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    kills = Kills(monkeypatch)
    for steps in count():
        root = tmp_path / "there"
        shutil.copytree(left, root)
        executor = TaskExecutor(root)
        kills.left = steps
        try:
            if who == "a start":
                begin(executor, 3)
            else:
                # What was to take over had only made its claim.
                executor.adopt(LEASE)
        except Killed:
            killed = True
        else:
            killed = False
        kills.left = None
        again = TaskExecutor(root)
        if who == "an executor":
            again.adopt(LEASE)
        last = begin(again, 4)
        assert has_everything(last)
        again.tick()
        names = [path.name for path in root.glob("*recoverable-*")]
        assert names == [f"recoverable-{last.application.hex}"]
        assert list(root.rglob("_temporary")) == []
        again.leave()
        shutil.rmtree(root)
        if not killed:
            assert steps > 5
            return


# -- coordinators: which files' splits a source that starts again still has to read


SPLITS = [
    [FileSplit("file:/data/a.parquet", 0, 128, 1), FileSplit("file:/data/b.parquet", 0, 3, 2)],
    [FileSplit("file:/data/a.parquet", 128, 64, 1)],
    [],
]
SETTINGS = {"spark.sql.files.maxPartitionBytes": "128", "spark.sql.files.minPartitionNum": "2"}


def test_a_restored_source_reads_the_same_splits_under_the_same_settings() -> None:
    source = FileSplitCoordinator()
    assert source.snapshot() is None
    source.deal(SETTINGS, SPLITS)
    source.subtask_finished(1)
    snapshot = source.snapshot()
    assert snapshot is not None
    after = FileSplitCoordinator()
    after.restore(snapshot)
    assert (after.settings, after.unfinished, after.snapshot()) == (SETTINGS, (0, 2), snapshot)
    after.deal(SETTINGS, SPLITS)
    assert after.unfinished == (0, 2)
    after.subtask_reset(1)
    assert after.unfinished == (0, 1, 2)
    # Of files that are split in another way none has been read.
    after.subtask_finished(1)
    after.deal({}, SPLITS[1:])
    assert (after.settings, after.unfinished) == ({}, (0, 1))
    with pytest.raises(ValueError, match="expected one of 2 subtasks"):
        after.subtask_finished(2)
