"""Whoever takes over may be killed at any step: the next start has everything all the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

JOB = JobID("ab" * 16)
LEASE = 1e6
PUBLISHED = tuple(OutputID(IntermediateDataSetID(digit * 64), "0badcafe") for digit in "123")
HALF_DONE = tuple(OutputID(IntermediateDataSetID(digit * 64), "0badcafe") for digit in "45")
A_PART = OutputID(HALF_DONE[0].dataset_id, "0badbeef")
STEPS = (
    (os, "link"),
    (os, "utime"),
    (Path, "mkdir"),
    (Path, "rename"),
    (Path, "replace"),
    (Path, "rmdir"),
    (Path, "unlink"),
    (shutil, "rmtree"),
)


class Killed(BaseException):
    """Stands for the end of the process: from then on it changes nothing."""


class Kills:
    """Ends whoever takes the n-th step that changes something on disk, before it is taken."""

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


def manifest(output: OutputID, partitions: tuple[KeptPartition, ...]) -> Manifest:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=partitions)


def begin(executor: TaskExecutor, epoch: int) -> RecoveryClaim:
    claim = RecoveryClaim(JOB, epoch)
    executor.register_recovery(claim.application, claim, LEASE, __version__)
    return claim


@pytest.fixture
def left(tmp_path: Path, leave: Callable[..., None]) -> Path:
    """What two starts have left, the second of which has completed nothing."""
    root = tmp_path / "left"
    executor = TaskExecutor(root)
    first = begin(executor, 1).application
    executor.register_job(first, JOB)
    for output in PUBLISHED:
        leave(Path(executor.open_output(first, JOB, output)), 0, 1)
        kept = executor.finish_output(first, JOB, output, [0, 1], 2)
        executor.promote(first, JOB, output, manifest(output, kept), Publication.of(2, 2))
    for output in HALF_DONE:
        directory = Path(executor.open_output(first, JOB, output))
        leave(directory, 0)
        leave(directory / "_temporary" / "0", 1)
    second = begin(executor, 2).application
    executor.register_job(second, JOB)
    part = OutputPart.missing_of(HALF_DONE[0], [2, 1], 3)
    leave(Path(executor.open_output(second, JOB, A_PART, part)), 0)
    executor.leave()
    return root


def has_everything(executor: TaskExecutor, claim: RecoveryClaim) -> bool:
    found = {each.output: each for each in executor.recovered(claim.application)}
    assert {
        output: [partition.index for partition in each.partitions] for output, each in found.items()
    } == {
        **{output: [0, 1] for output in PUBLISHED},
        **{output: [0] for output in HALF_DONE},
        A_PART: [2],
    }
    for output in PUBLISHED:
        assert found[output].manifest is not None
        assert executor.damage(claim.application, output) is None
    return found[A_PART].part_of == HALF_DONE[0]


@pytest.mark.parametrize("who", ["a start", "an executor"])
def test_who_is_killed_at_any_step_of_taking_over_loses_nothing(
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
                # Whoever was to take over had only made its claim.
                executor.adopt(LEASE)
        except Killed:
            killed = True
        else:
            killed = False
        kills.left = None
        again = TaskExecutor(root)
        if who == "an executor":
            again.adopt(LEASE)
            assert has_everything(again, RecoveryClaim(JOB, 2))
        claim = begin(again, 4)
        assert has_everything(again, claim)
        again.tick()
        assert [path.name for path in root.glob("*recoverable-*")] == [
            f"recoverable-{claim.application.hex}"
        ]
        assert list(root.rglob("_temporary")) == []
        again.leave()
        shutil.rmtree(root)
        if not killed:
            assert steps > 5
            return
