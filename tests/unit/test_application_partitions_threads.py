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
        self.random, self.root = random.Random(seed), root
        application = ApplicationID.random()
        directory = ApplicationDirectory.create(root, application)
        self.partitions = ApplicationPartitions(ApplicationHolder(application, directory))
        self.job_id = JobID.random()
        self.partitions.tracker.mark_job_active(self.job_id)
        self.outputs = [
            OutputID(IntermediateDataSetID(f"{number:064x}"), "00000001")
            for number in range(OUTPUTS)
        ]
        self.finished = 0
        for output in self.outputs:
            made = self.partitions.open(self.job_id, output)
            for index in range(2):
                (made / f"part-{index:05}-x-c000.zstd.parquet").write_bytes(PARQUET)

    def finish(self, output: OutputID) -> tuple[KeptPartition, ...]:
        with suppress(UnknownJobError, UnknownDataSetError):
            kept = self.partitions.finish(self.job_id, output, None, 2)
            self.finished += 1
            return kept
        return ()

    def promote(self, output: OutputID, kept: tuple[KeptPartition, ...]) -> None:
        description = DataSetDescription(
            dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4"
        )
        manifest = Manifest(created="now", dataset=description, partitions=kept)
        # A release at this moment takes its directory away.
        with suppress(UnknownDataSetError, StorageError):
            self.partitions.promote(self.job_id, output, manifest)

    def make(self, output: OutputID, ending: str) -> None:
        kept = self.finish(output)
        if ending == "promoted":
            self.promote(output, kept)
        if ending == "failed":
            self.partitions.fail(self.job_id, output)

    def lose_job(self) -> None:
        time.sleep(self.random.random() * SOME_SECONDS)
        self.partitions.tracker.mark_job_inactive(self.job_id)
        self.partitions.release_finished_of(self.job_id)

    def race(self, *racers: Callable[[], object]) -> None:
        start = threading.Barrier(len(racers))

        def run(racer: Callable[[], object]) -> None:
            start.wait()
            racer()

        with ThreadPoolExecutor(len(racers)) as threads:
            list(threads.map(run, racers))

    def files(self) -> set[OutputID]:
        return {OutputID.parse(file.parent.name) for file in self.root.rglob("*.parquet")}

    def tracked(self, *states: OutputState) -> set[OutputID]:
        return {each.output_id for state in states for each in self.partitions.tracker.all(state)}


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Round]:
    def play() -> Iterator[Round]:
        for seed in range(ROUNDS):
            yield (one := Round(tmp_path / str(seed), seed))
            one.partitions.holder.close()

    return play()


@pytest.mark.parametrize("releases", [0, 2])
def test_only_what_was_promoted_and_not_released_outlives_a_lost_job(
    rounds: Iterator[Round], releases: int
) -> None:
    outlived = 0
    for one in rounds:
        endings = one.random.choices(["finished", "promoted", "failed"], k=OUTPUTS)
        one.race(
            *map(partial(partial, one.make), one.outputs, endings),
            *[partial(one.partitions.release_outputs, one.outputs[1:])] * releases,
            one.lose_job,
        )
        promoted = one.tracked(OutputState.PROMOTED)
        assert one.files() == promoted == one.tracked(*OutputState)
        assert not one.partitions.tracker.is_tracking_partitions_for(one.job_id)
        outlived += len(promoted)
        one.partitions.release_promoted()
        assert one.files() == set()
    assert outlived or releases


def test_of_several_that_finish_one_output_exactly_one_does(rounds: Iterator[Round]) -> None:
    for one in rounds:
        one.race(*[partial(one.finish, one.outputs[0])] * 4)
        assert one.finished == 1
        assert one.tracked(OutputState.FINISHED) == {one.outputs[0]}
