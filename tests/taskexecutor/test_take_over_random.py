"""Starts of a job in whatever order, with those that were stopped waking up, and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.errors import HoldfastError, StaleEpochError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__

JOB = JobID("ab" * 16)
LEASE = 10_000.0
LARGEST = 4


def _manifest(output: OutputID, kept: tuple[KeptPartition, ...]) -> Manifest:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=kept)


class Driver:
    """A start, and what it believes to be true."""

    def __init__(self, claim: RecoveryClaim, executor: TaskExecutor) -> None:
        self.claim = claim
        self.executor = executor
        self.application: ApplicationID = claim.application
        self.open: dict[OutputID, Path] = {}
        self.finished: dict[OutputID, tuple[KeptPartition, ...]] = {}


class Machine(RuleBasedStateMachine):
    """Each driver has an executor of its own on the one directory, or all have the same one.

    What holds: no output of a stale start is ever seen after it was taken over, and no output that
    was published is ever lost by that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.drivers: list[Driver] = []
        self.epoch = 0
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

    def chosen(self, data: st.DataObject) -> Driver:
        return data.draw(st.sampled_from(self.drivers))

    def salvage(self, open_too: dict[OutputID, Path]) -> None:
        for output in open_too:
            if self.committed[output]:
                self.half_done[output] = dict(self.committed[output])

    @rule(by=st.integers(1, 3))
    @precondition(lambda self: len(self.drivers) < 8)
    def begin(self, by: int) -> None:
        """A new start takes over."""
        self.epoch += by
        driver = Driver(RecoveryClaim(JOB, self.epoch), self.executor())
        driver.executor.register_recovery(driver.application, driver.claim, LEASE, __version__)
        if self.drivers:
            earlier = self.newest
            self.salvage({**earlier.open, **dict.fromkeys(earlier.finished, self.root)})
        self.drivers.append(driver)
        driver.executor.register_job(driver.application, JOB)

    @rule(below=st.integers(0, 5))
    def begin_too_late(self, below: int) -> None:
        """A start that was stopped before it registered, or registers again."""
        epoch = max(1, self.epoch - below)
        claim = RecoveryClaim(JOB, epoch)
        if claim == self.newest.claim:
            return
        with pytest.raises(StaleEpochError):
            self.executor().register_recovery(claim.application, claim, LEASE, __version__)

    @rule(data=st.data())
    def stage(self, data: st.DataObject) -> None:
        driver = self.chosen(data)
        self.outputs += 1
        output = OutputID(IntermediateDataSetID(f"{self.outputs:064x}"), "0badcafe")
        try:
            directory = driver.executor.open_output(driver.application, JOB, output)
        except HoldfastError:
            assert driver is not self.newest
            return
        assert driver is self.newest
        driver.open[output] = Path(directory)
        self.committed[output] = {}

    @rule(data=st.data(), index=st.integers(0, LARGEST), rows=st.integers(0, 3))
    def write(self, data: st.DataObject, index: int, rows: int) -> None:
        """A task commits; those of a start that was taken over do so for nobody."""
        writing = [driver for driver in self.drivers if driver.open]
        if not writing:
            return
        driver = data.draw(st.sampled_from(writing))
        output = data.draw(st.sampled_from(sorted(driver.open)))
        directory = driver.open[output]
        # As Hadoop does: it makes the directory if need be.
        attempt = directory / "_temporary" / "0"
        attempt.mkdir(parents=True, exist_ok=True)
        name = f"part-{index:05}-x-c000.zstd.parquet"
        pq.write_table(pa.table({"a": list(range(rows))}), attempt / name)
        (attempt / name).replace(directory / name)
        if driver is self.newest:
            self.committed[output][index] = rows

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        writing = [driver for driver in self.drivers if driver.open]
        if not writing:
            return
        driver = data.draw(st.sampled_from(writing))
        output = data.draw(st.sampled_from(sorted(driver.open)))
        try:
            kept = driver.executor.finish_output(driver.application, JOB, output, None, LARGEST + 1)
        except HoldfastError:
            assert driver is not self.newest
            return
        assert driver is self.newest
        assert {each.index: each.rows for each in kept} == self.committed[output]
        del driver.open[output]
        if kept:
            driver.finished[output] = kept

    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        ready = [driver for driver in self.drivers if driver.finished]
        if not ready:
            return
        driver = data.draw(st.sampled_from(ready))
        output = data.draw(st.sampled_from(sorted(driver.finished)))
        kept = driver.finished[output]
        publication = Publication.of(len(kept), LARGEST + 1)
        try:
            driver.executor.promote(
                driver.application, JOB, output, _manifest(output, kept), publication
            )
        except HoldfastError:
            assert driver is not self.newest
            return
        assert driver is self.newest
        self.published[output] = self.committed[output]
        del driver.finished[output]

    @rule(data=st.data())
    def promote_half_done(self, data: st.DataObject) -> None:
        if not self.half_done:
            return
        driver = self.chosen(data)
        output = data.draw(st.sampled_from(sorted(self.half_done)))
        lying = self.newest.executor.recovered(self.newest.application)
        kept = next(each.partitions for each in lying if each.output == output)
        publication = Publication.of(len(kept), LARGEST + 1)
        try:
            driver.executor.promote_recovered(
                driver.application, JOB, output, _manifest(output, kept), publication
            )
        except HoldfastError:
            assert driver is not self.newest
            return
        assert driver is self.newest
        self.published[output] = self.half_done.pop(output)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        there = sorted([*self.published, *self.half_done])
        if not there:
            return
        driver = self.chosen(data)
        output = data.draw(st.sampled_from(there))
        try:
            driver.executor.release_outputs(driver.application, [output])
        except HoldfastError:
            assert driver is not self.newest
            return
        assert driver is self.newest
        self.published.pop(output, None)
        self.half_done.pop(output, None)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        driver = self.chosen(data)
        if driver is self.newest:
            return
        # One that was taken over ends: as it has nothing left, nothing happens.
        driver.executor.unregister_application(driver.application)

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
                each.executor = again
        self.salvage({**driver.open, **dict.fromkeys(driver.finished, self.root)})
        driver.open.clear()
        driver.finished.clear()
        driver.executor.register_recovery(driver.application, driver.claim, LEASE, __version__)
        driver.executor.register_job(driver.application, JOB)

    @rule()
    def swept(self) -> None:
        self.newest.executor.tick()

    @invariant()
    def the_newest_start_has_everything_and_nobody_else_anything(self) -> None:
        for driver in self.drivers[:-1]:
            with pytest.raises(HoldfastError):
                driver.executor.heartbeat(driver.application, {})
        if not self.drivers:
            return
        found = self.newest.executor.recovered(self.newest.application)
        assert {
            each.output: {part.index: part.rows for part in each.partitions}
            for each in found
            if each.manifest is not None
        } == self.published
        assert {
            each.output: {part.index: part.rows for part in each.partitions}
            for each in found
            if each.manifest is None
        } == self.half_done
        for each in found:
            if each.manifest is not None:
                damage = self.newest.executor.damage(self.newest.application, each.output)
                assert damage is None


TestTakingOverInWhateverOrder: Any = Machine.TestCase
TestTakingOverInWhateverOrder.settings = settings(stateful_step_count=30)
