"""Starts of a job in any order, with those that were stopped waking up, and crashes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import HoldfastError, StaleEpochError
from holdfast.ids import IntermediateDataSetID
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import JOB, Caller, manifest_of, write

LEASE = 10_000.0
LARGEST = 4


class Machine(RuleBasedStateMachine):
    """Each start has its own executor on the one directory, or all have the same one.

    What holds: no output of a stale start is ever seen after it was taken over, and no output that
    was published is ever lost by that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.starts: list[Caller] = []
        # By output whose it is, and where tasks write or what they have written.
        self.open: dict[OutputID, tuple[Caller, Path]] = {}
        self.finished: dict[OutputID, tuple[Caller, tuple[KeptPartition, ...]]] = {}
        # By output the rows of each partition; what has to be found.
        self.committed: dict[OutputID, dict[int, int]] = {}
        self.published: dict[OutputID, dict[int, int]] = {}
        self.half_done: dict[OutputID, dict[int, int]] = {}

    def teardown(self) -> None:
        for start in self.starts:
            executor_of(start).leave()
        shutil.rmtree(self.root)

    @initialize(together=st.booleans())
    def begins(self, together: bool) -> None:
        self.together = together
        self.begin(1)

    @property
    def newest(self) -> Caller:
        return self.starts[-1]

    def executor(self) -> TaskExecutor:
        if self.together and self.starts:
            return executor_of(self.newest)
        return TaskExecutor(self.root)

    def is_done(self, start: Caller, call: Callable[[], Any]) -> Any:
        """What the newest start asks is done; what another one asks is refused: None."""
        try:
            done = call()
        except HoldfastError:
            assert start is not self.newest
            return None
        assert start is self.newest
        return True if done is None else done

    def salvage(self) -> None:
        """What tasks of the newest start have committed counts, published or not."""
        for output, (start, _) in (self.open | self.finished).items():
            if start is self.newest and self.committed[output]:
                self.half_done[output] = dict(self.committed[output])

    @rule(by=st.integers(1, 3))
    @precondition(lambda self: len(self.starts) < 8)
    def begin(self, by: int) -> None:
        """A new start takes over."""
        epoch = by
        if self.starts:
            epoch += epoch_of(self.newest)
        start = Caller.start_of(self.executor(), epoch, lease_seconds=LEASE)
        if self.starts:
            self.salvage()
        self.starts.append(start)

    @rule(below=st.integers(1, 5))
    def begin_too_late(self, below: int) -> None:
        """A start that was stopped before it registered."""
        epoch = max(1, epoch_of(self.newest) - below)
        if epoch < epoch_of(self.newest):
            with pytest.raises(StaleEpochError):
                Caller.start_of(self.executor(), epoch, lease_seconds=LEASE)

    @rule(data=st.data(), indices=st.sets(st.integers(0, LARGEST)))
    def stage(self, data: st.DataObject, indices: set[int]) -> None:
        start = data.draw(st.sampled_from(self.starts))
        output = OutputID(IntermediateDataSetID(f"{len(self.committed) + 1:064x}"), "0badcafe")
        directory = self.is_done(start, lambda: start.open(output))
        if directory is not None:
            self.open[output] = start, directory
            self.committed[output] = {}
            for index in indices:
                self.commit(output, index, 1)

    @rule(data=st.data(), index=st.integers(0, LARGEST), rows=st.integers(0, 3))
    @precondition(lambda self: self.open)
    def write(self, data: st.DataObject, index: int, rows: int) -> None:
        self.commit(data.draw(st.sampled_from(sorted(self.open))), index, rows)

    def commit(self, output: OutputID, index: int, rows: int) -> None:
        """A task commits; of a start that was taken over it counts for nothing."""
        start, directory = self.open[output]
        # As Hadoop does: it makes the directory if need be.
        attempt = directory / "_temporary" / "0"
        write(attempt, index, rows=rows)
        (file,) = attempt.glob("part-*")
        file.replace(directory / file.name)
        if start is self.newest:
            self.committed[output][index] = rows

    @rule(data=st.data(), promotes=st.booleans())
    @precondition(lambda self: self.open)
    def finish(self, data: st.DataObject, promotes: bool) -> None:
        output = data.draw(st.sampled_from(sorted(self.open)))
        start, _ = self.open[output]
        kept = self.is_done(start, lambda: start.finish(output, None, LARGEST + 1))
        if kept is None:
            return
        assert {each.index: each.rows for each in kept} == self.committed[output]
        del self.open[output]
        if kept:
            self.finished[output] = start, kept
        if kept and promotes:
            self.promote_finished(output)

    @rule(data=st.data())
    @precondition(lambda self: self.finished)
    def promote(self, data: st.DataObject) -> None:
        self.promote_finished(data.draw(st.sampled_from(sorted(self.finished))))

    def promote_finished(self, output: OutputID) -> None:
        start, kept = self.finished[output]
        if self.is_done(start, lambda: start.promote(output, kept, LARGEST + 1)):
            self.published[output] = self.committed[output]
            del self.finished[output]

    @rule(data=st.data())
    @precondition(lambda self: self.half_done)
    def promote_half_done(self, data: st.DataObject) -> None:
        start = data.draw(st.sampled_from(self.starts))
        output = data.draw(st.sampled_from(sorted(self.half_done)))
        kept = self.newest.found()[output].partitions
        manifest, publication = manifest_of(output, kept), Publication.of(len(kept), LARGEST + 1)
        promote = start.gateway.promote_recovered
        asked = (start.application, JOB, output, manifest, publication)
        if self.is_done(start, lambda: promote(*asked)):
            self.published[output] = self.half_done.pop(output)

    @rule(data=st.data())
    @precondition(lambda self: self.published or self.half_done)
    def release(self, data: st.DataObject) -> None:
        start = data.draw(st.sampled_from(self.starts))
        output = data.draw(st.sampled_from(sorted([*self.published, *self.half_done])))
        release = start.gateway.release_outputs
        if self.is_done(start, lambda: release(start.application, [output])):
            self.published.pop(output, None)
            self.half_done.pop(output, None)

    @rule(data=st.data())
    @precondition(lambda self: len(self.starts) > 1)
    def give_up(self, data: st.DataObject) -> None:
        """One that was taken over ends: as it has nothing left, nothing happens."""
        start = data.draw(st.sampled_from(self.starts[:-1]))
        start.gateway.unregister_application(start.application)

    @rule()
    def executor_is_killed(self) -> None:
        """And started again; the newest start registers with it as soon as it notices."""
        killed, again = executor_of(self.newest), TaskExecutor(self.root)
        killed.leave()
        again.adopt(LEASE)
        self.salvage()
        for start in self.starts:
            if start.gateway is killed:
                start.gateway = again
        for outputs in (self.open, self.finished):
            for output in [each for each, (start, _) in outputs.items() if start is self.newest]:
                del outputs[output]  # type: ignore[attr-defined]
        self.newest.connect(LEASE)

    @rule()
    def swept(self) -> None:
        executor_of(self.newest).tick()

    @invariant()
    def the_newest_start_has_everything_and_no_other_one_anything(self) -> None:
        for start in self.starts[:-1]:
            with pytest.raises(HoldfastError):
                start.gateway.heartbeat(start.application, {})
        found = self.newest.found() if self.starts else {}
        for expected, is_published in ((self.published, True), (self.half_done, False)):
            assert expected == {
                output: {part.index: part.rows for part in each.partitions}
                for output, each in found.items()
                if (each.manifest is not None) == is_published
            }
        for output in self.published:
            assert self.newest.damage(output) is None


def executor_of(start: Caller) -> TaskExecutor:
    assert isinstance(start.gateway, TaskExecutor)
    return start.gateway


def epoch_of(start: Caller) -> int:
    assert start.claim is not None
    return start.claim.epoch


TestTakingOverInAnyOrder: Any = Machine.TestCase
TestTakingOverInAnyOrder.settings = settings(stateful_step_count=30)
