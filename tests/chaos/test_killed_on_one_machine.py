"""Programs that are killed again and again on one machine give what plain Spark gives."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chaos.driver_process import DRIVER_BLOWS
from tests.chaos.episode import Outcome
from tests.chaos.moments import moment_in, random_moments
from tests.chaos.programs import (
    PROGRAMS,
    STREAM_PROGRAMS,
    SUITE_STREAMS,
    SUITE_TABLES,
    Program,
)

SEED = 2114  # All sights and blows are among its moments.
KILLS = 2
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize("program", (SUITE_TABLES, SUITE_STREAMS), ids=lambda program: program.name)
def test_rows_are_there_once_when_a_driver_is_killed_in_each_job(
    play: Callable[..., Outcome], program: Program
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    jobs = range(len(program.jobs))
    moments = tuple(moment_in(program, job, chance, DRIVER_BLOWS) for job in jobs)
    assert play(program, moments, chance).kills == len(moments)


@pytest.mark.soak
@pytest.mark.parametrize("program", (*PROGRAMS, *STREAM_PROGRAMS), ids=lambda program: program.name)
def test_rows_are_there_once_however_often_a_driver_is_killed(
    play: Callable[..., Outcome], program: Program
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    moments = random_moments(program, KILLS, chance, DRIVER_BLOWS)
    assert play(program, moments, chance).kills == KILLS
