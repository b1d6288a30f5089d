"""A start, or an executor, may be killed at any step of taking over: the next one loses nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, output_of, write

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
