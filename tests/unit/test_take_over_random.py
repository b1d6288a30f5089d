"""Starts of a job in any order, with those that were stopped waking up, and crashes."""

from __future__ import annotations

import shutil
import tempfile
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


class Driver:
    """A start, and what it believes to be true."""

    def __init__(self, executor: TaskExecutor, epoch: int) -> None:
        self.executor, self.epoch = executor, epoch
        self.caller = Caller.start_of(executor, epoch, lease_seconds=LEASE)
        self.open: dict[OutputID, Path] = {}
        self.finished: dict[OutputID, tuple[KeptPartition, ...]] = {}

    def connect(self, executor: TaskExecutor) -> None:
        self.executor = self.caller.gateway = executor
        self.caller.connect(LEASE)


class Machine(RuleBasedStateMachine):
    """Each driver has its own executor on the one directory, or all have the same one.

    What holds: no output of a stale start is ever seen after it was taken over, and no output that
    was published is ever lost by that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.drivers: list[Driver] = []
        self.outputs = 0
        # What has to be found: the rows of each partition.
        self.published: dict[OutputID, dict[int, int]] = {}
        self.half_done: dict[OutputID, dict[int, int]] = {}
        self.committed: dict[OutputID, dict[int, int]] = {}

    def teardown(self) -> None:
        for driver in self.drivers:
            driver.executor.leave()
        shutil.rmtree(self.root)

    @initialize(together=st.booleans())
    def begins(self, together: bool) -> None:
        self.together = together
        self.begin(1)

    @property
    def newest(self) -> Driver:
        return self.drivers[-1]

    def executor(self) -> TaskExecutor:
        if self.together and self.drivers:
            return self.newest.executor
        return TaskExecutor(self.root)

    def chosen(self, data: st.DataObject, what: str | None = None) -> Driver | None:
        """Any driver, or one of those that have something."""
        able = [each for each in self.drivers if what is None or getattr(each, what)]
        return data.draw(st.sampled_from(able)) if able else None

    def is_done(self, driver: Driver, call: Any) -> Any:
        """What the newest start asks is done; what another one asks is refused: None."""
        try:
            done = call()
        except HoldfastError:
            assert driver is not self.newest
            return None
        assert driver is self.newest
        return True if done is None else done

    def salvage(self, driver: Driver) -> None:
        for output in (*driver.open, *driver.finished):
            if self.committed[output]:
                self.half_done[output] = dict(self.committed[output])

    @rule(by=st.integers(1, 3))
    @precondition(lambda self: len(self.drivers) < 8)
    def begin(self, by: int) -> None:
        """A new start takes over."""
        epoch = by + (self.newest.epoch if self.drivers else 0)
        driver = Driver(self.executor(), epoch)
        if self.drivers:
            self.salvage(self.newest)
        self.drivers.append(driver)

    @rule(below=st.integers(0, 5))
    def begin_too_late(self, below: int) -> None:
        """A start that was stopped before it registered."""
        epoch = max(1, self.newest.epoch - below)
        if epoch != self.newest.epoch:
            with pytest.raises(StaleEpochError):
                Driver(self.executor(), epoch)

    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        driver = self.chosen(data)
        assert driver is not None
        self.outputs += 1
        output = OutputID(IntermediateDataSetID(f"{self.outputs:064x}"), "0badcafe")
        directory = self.is_done(driver, lambda: driver.caller.open(output))
        if directory is not None:
            driver.open[output] = directory
            self.committed[output] = {}

    @rule(data=st.data(), index=st.integers(0, LARGEST), rows=st.integers(0, 3))
    def write(self, data: st.DataObject, index: int, rows: int) -> None:
        """A task commits; of a start that was taken over it counts for nothing."""
        driver = self.chosen(data, "open")
        if driver is None:
            return
        output = data.draw(st.sampled_from(sorted(driver.open)))
        directory = driver.open[output]
        # As Hadoop does: it makes the directory if need be.
        attempt = directory / "_temporary" / "0"
        write(attempt, index, rows=rows)
        (file,) = attempt.glob("part-*")
        file.replace(directory / file.name)
        if driver is self.newest:
            self.committed[output][index] = rows

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        driver = self.chosen(data, "open")
        if driver is None:
            return
        output = data.draw(st.sampled_from(sorted(driver.open)))
        kept = self.is_done(driver, lambda: driver.caller.finish(output, None, LARGEST + 1))
        if kept is None:
            return
        assert {each.index: each.rows for each in kept} == self.committed[output]
        del driver.open[output]
        if kept:
            driver.finished[output] = kept

    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        driver = self.chosen(data, "finished")
        if driver is None:
            return
        output = data.draw(st.sampled_from(sorted(driver.finished)))
        kept = driver.finished[output]
        if self.is_done(driver, lambda: driver.caller.promote(output, kept, LARGEST + 1)):
            self.published[output] = self.committed[output]
            del driver.finished[output]

    @rule(data=st.data())
    def promote_half_done(self, data: st.DataObject) -> None:
        driver = self.chosen(data)
        if driver is None or not self.half_done:
            return
        output = data.draw(st.sampled_from(sorted(self.half_done)))
        kept = self.newest.caller.found()[output].partitions
        publication = Publication.of(len(kept), LARGEST + 1)
        if self.is_done(
            driver,
            lambda: driver.executor.promote_recovered(
                driver.caller.application, JOB, output, manifest_of(output, kept), publication
            ),
        ):
            self.published[output] = self.half_done.pop(output)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        driver, there = self.chosen(data), sorted([*self.published, *self.half_done])
        if driver is None or not there:
            return
        output = data.draw(st.sampled_from(there))
        application = driver.caller.application
        if self.is_done(driver, lambda: driver.executor.release_outputs(application, [output])):
            self.published.pop(output, None)
            self.half_done.pop(output, None)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """One that was taken over ends: as it has nothing left, nothing happens."""
        driver = self.chosen(data)
        if driver is not None and driver is not self.newest:
            driver.executor.unregister_application(driver.caller.application)

    @rule()
    def executor_is_killed(self) -> None:
        """And started again; the driver registers with it as soon as it notices."""
        driver = self.newest
        killed = driver.executor
        killed.leave()
        again = TaskExecutor(self.root)
        again.adopt(LEASE)
        for each in self.drivers:
            if each.executor is killed:
                each.executor = each.caller.gateway = again
        self.salvage(driver)
        driver.open.clear()
        driver.finished.clear()
        driver.connect(again)

    @rule()
    def swept(self) -> None:
        self.newest.executor.tick()

    @invariant()
    def the_newest_start_has_everything_and_no_other_one_anything(self) -> None:
        for driver in self.drivers[:-1]:
            with pytest.raises(HoldfastError):
                driver.executor.heartbeat(driver.caller.application, {})
        if not self.drivers:
            return
        found = self.newest.caller.found()
        for expected, is_published in ((self.published, True), (self.half_done, False)):
            assert expected == {
                output: {part.index: part.rows for part in each.partitions}
                for output, each in found.items()
                if (each.manifest is not None) == is_published
            }
        for output in self.published:
            assert self.newest.caller.damage(output) is None


TestTakingOverInAnyOrder: Any = Machine.TestCase
TestTakingOverInAnyOrder.settings = settings(stateful_step_count=30)
