"""Drivers and task executors of a cluster that are killed in turn: the rows of plain Spark."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chaos.episode import Outcome
from tests.chaos.moments import random_moments
from tests.chaos.places import TwoWorkers
from tests.chaos.programs import CLUSTER_PROGRAMS, Program

SEED = 94
pytestmark = [pytest.mark.timeout(1200), pytest.mark.soak]


@pytest.mark.parametrize("program", CLUSTER_PROGRAMS, ids=lambda program: program.name)
def test_rows_are_there_once_however_often_drivers_and_task_executors_are_killed(
    play: Callable[..., Outcome], two_workers: TwoWorkers, program: Program
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    outcome = play(program, random_moments(program, 2, chance), chance, two_workers)
    assert outcome.kills == 2
