"""Outputs that finish, are promoted and released by several threads at once, with real files."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.errors import StorageError, UnknownDataSetError, UnknownJobError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.applications.application_directory import ApplicationDirectory
from holdfast.taskexecutor.applications.application_partitions import ApplicationPartitions
from holdfast.taskexecutor.applications.holder import ApplicationHolder
from holdfast.taskexecutor.outputs.output import OutputState
from holdfast.taskexecutor.partitions.partition_info import OutputID

ROUNDS = 25
OUTPUTS = 6
# In which they all finish.
SOME_SECONDS = 0.02


def parquet() -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2, 3]}), file)
    return file.getvalue()


PARQUET = parquet()


class Round:
    """A job whose outputs are made in threads of their own, and all that may happen to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = root
        application = ApplicationID.random()
        directory = ApplicationDirectory.create(root, application)
        self.partitions = ApplicationPartitions(ApplicationHolder(application, directory))
        self.tracker = self.partitions.tracker
        self.job_id = JobID.random()
        self.tracker.mark_job_active(self.job_id)
        self.outputs = [
            OutputID(IntermediateDataSetID(f"{number:064x}"), "00000001")
            for number in range(OUTPUTS)
        ]
        self.kept: dict[OutputID, tuple[KeptPartition, ...]] = {}

    def write(self, output: OutputID) -> None:
        directory = self.partitions.open(self.job_id, output)
        for index in range(2):
            (directory / f"part-{index:05}-x-c000.zstd.parquet").write_bytes(PARQUET)

    def finish(self, output: OutputID) -> None:
        with suppress(UnknownJobError, UnknownDataSetError):
            self.kept[output] = self.partitions.finish(self.job_id, output, None, 2)

    def promote(self, output: OutputID) -> None:
        description = DataSetDescription(
            dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4"
        )
        manifest = Manifest(
            created="now", dataset=description, partitions=self.kept.get(output, ())
        )
        # A release at this moment takes its directory away.
        with suppress(UnknownDataSetError, StorageError):
            self.partitions.promote(self.job_id, output, manifest)

    def make(self, output: OutputID) -> Callable[[], None]:
        ending = self.random.choice(["finished", "promoted", "failed"])

        def run() -> None:
            self.finish(output)
            if ending == "promoted":
                self.promote(output)
            if ending == "failed":
                self.partitions.fail(self.job_id, output)

        return run

    def lose_job(self) -> None:
        time.sleep(self.random.random() * SOME_SECONDS)
        self.tracker.mark_job_inactive(self.job_id)
        self.partitions.release_finished_of(self.job_id)

    def race(self, *racers: Callable[[], None]) -> None:
        start = threading.Barrier(len(racers))

        def run(racer: Callable[[], None]) -> None:
            start.wait()
            racer()

        with ThreadPoolExecutor(len(racers)) as threads:
            for racing in [threads.submit(run, racer) for racer in racers]:
                racing.result()

    def files(self) -> set[OutputID]:
        found = self.root.rglob("*.parquet")
        return {OutputID.parse(file.parent.name) for file in found}

    def tracked(self, *states: OutputState) -> set[OutputID]:
        return {each.output_id for state in states for each in self.tracker.all(state)}


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Round]:
    return (Round(tmp_path / str(seed), seed) for seed in range(ROUNDS))


def test_only_what_was_promoted_outlives_a_lost_job(rounds: Iterator[Round]) -> None:
    outlived = 0
    for one in rounds:
        for output in one.outputs:
            one.write(output)
        one.race(*map(one.make, one.outputs), one.lose_job)
        promoted = one.tracked(OutputState.PROMOTED)
        assert one.files() == promoted == one.tracked(*OutputState)
        assert not one.tracker.is_tracking_partitions_for(one.job_id)
        outlived += len(promoted)
        one.partitions.release_promoted()
        assert one.files() == set()
        one.partitions.holder.close()
    assert outlived


def test_an_output_is_promoted_or_released_and_never_both(rounds: Iterator[Round]) -> None:
    for one in rounds:
        first, *others = one.outputs
        for output in (first, *others):
            one.write(output)
            one.finish(output)
        one.race(
            *(partial(one.promote, output) for output in others),
            partial(one.partitions.release_outputs, others),
            partial(one.partitions.release_outputs, others),
            partial(one.partitions.release_finished_of, one.job_id),
        )
        assert one.files() == one.tracked(*OutputState) == one.tracked(OutputState.PROMOTED)
        one.partitions.holder.close()


def test_of_several_that_finish_one_output_exactly_one_does(rounds: Iterator[Round]) -> None:
    for one in rounds:
        output, *_ = one.outputs
        one.write(output)
        done: list[int] = []

        def attempt(one: Round = one, output: OutputID = output, done: list[int] = done) -> None:
            with suppress(UnknownDataSetError):
                done.append(len(one.partitions.finish(one.job_id, output, None, 2)))

        one.race(*[attempt] * 4)
        assert done == [2]
        assert one.tracked(OutputState.FINISHED) == {output}
        one.partitions.holder.close()


def test_an_output_without_rows_leaves_no_directory(tmp_path: Path) -> None:
    one = Round(tmp_path, 0)
    directory = one.partitions.open(one.job_id, one.outputs[0])
    one.finish(one.outputs[0])
    assert not directory.exists()
    assert not one.tracker.is_tracking_partitions_for(one.job_id)
    one.partitions.holder.close()
