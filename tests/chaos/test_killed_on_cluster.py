"""Drivers and task executors of a cluster that are killed in turn: the rows of plain Spark."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chaos.driver_process import DRIVER_BLOWS, Blow
from tests.chaos.episode import Outcome
from tests.chaos.moments import moment_in, random_moments
from tests.chaos.places import TwoWorkers
from tests.chaos.programs import CLUSTER_PROGRAMS, SUITE_CLUSTER, Program

SEED = 2728
pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


def test_rows_are_there_once_when_a_task_executor_and_a_driver_are_killed_in_each_job(
    play: Callable[..., Outcome], two_workers: TwoWorkers
) -> None:
    program = SUITE_CLUSTER
    chance = random.Random(f"{SEED} {program.name}")
    moments = tuple(
        moment_in(program, job, chance, blows)
        for job in range(len(program.jobs))
        for blows in ((Blow.TASK_EXECUTOR,), DRIVER_BLOWS)
    )
    outcome = play(program, moments, chance, two_workers)
    assert outcome.kills == len(program.jobs)
    assert outcome.executors_killed >= len(program.jobs)


@pytest.mark.parametrize("program", CLUSTER_PROGRAMS, ids=lambda program: program.name)
def test_rows_are_there_once_however_often_drivers_and_task_executors_are_killed(
    play: Callable[..., Outcome], two_workers: TwoWorkers, program: Program
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    outcome = play(
        program, random_moments(program, 4, chance, TwoWorkers.blows), chance, two_workers
    )
    assert outcome.kills + outcome.executors_killed >= 4
