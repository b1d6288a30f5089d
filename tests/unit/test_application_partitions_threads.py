"""Outputs that finish, are promoted and released by several threads at once, with real files."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import StorageError, UnknownDataSetError, UnknownJobError
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, output_of, write

ROUNDS = 25
OUTPUTS = [output_of(digit) for digit in "123456"]
# In which they all finish.
SOME_SECONDS = 0.02


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[tuple[Caller, random.Random]]:
    """Jobs that have written all outputs."""
    write(tmp_path, 0, 1)
    written = {path.name: path.read_bytes() for path in tmp_path.glob("part-*.parquet")}

    def play() -> Iterator[tuple[Caller, random.Random]]:
        for seed in range(ROUNDS):
            executor = TaskExecutor(tmp_path / str(seed))
            app = Caller(executor).connect()
            for output in OUTPUTS:
                directory = app.open(output)
                for name, content in written.items():
                    (directory / name).write_bytes(content)
            yield app, random.Random(seed)
            executor.close()

    return play()


def race(*racers: Callable[[], object]) -> None:
    start = threading.Barrier(len(racers))

    def run(racer: Callable[[], object]) -> None:
        start.wait()
        # A release at this moment takes a directory away.
        with suppress(UnknownJobError, UnknownDataSetError, StorageError):
            racer()

    with ThreadPoolExecutor(len(racers)) as threads:
        list(threads.map(run, racers))


def files(app: Caller) -> set[OutputID]:
    found = Path(app.read_root.removeprefix("file:")).parent.rglob("part-*.parquet")
    return {OutputID.parse(file.parent.name) for file in found}


@pytest.mark.parametrize("releases", [0, 2])
def test_only_what_was_promoted_and_not_released_outlives_a_lost_job(
    rounds: Iterator[tuple[Caller, random.Random]], releases: int
) -> None:
    outlived = 0
    for app, chance in rounds:
        executor = app.gateway

        def make(output: OutputID, ending: str, app: Caller = app) -> None:
            kept = app.finish(output, None, 2)
            if ending == "promoted":
                app.promote(output, kept)
            if ending == "failed":
                app.gateway.fail_output(app.application, app.job_id, output)

        def lose_job(app: Caller = app, after: float = chance.random() * SOME_SECONDS) -> None:
            time.sleep(after)
            app.gateway.end_job(app.application, app.job_id)

        endings = chance.choices(["finished", "promoted", "failed"], k=len(OUTPUTS))
        release = partial(executor.release_outputs, app.application, OUTPUTS[1:])
        race(*map(partial(partial, make), OUTPUTS, endings), *[release] * releases, lose_job)
        assert files(app) == set(app.outputs())
        outlived += len(app.outputs())
        executor.release_outputs(app.application, OUTPUTS)
        assert files(app) == set()
    assert outlived or releases


def test_of_several_that_finish_one_output_exactly_one_does(
    rounds: Iterator[tuple[Caller, random.Random]],
) -> None:
    for app, _ in rounds:
        finished: list[object] = []

        def finish(app: Caller = app, finished: list[object] = finished) -> None:
            finished.append(app.finish(OUTPUTS[0], None, 2))

        race(*[finish] * 4)
        assert len(finished) == 1
