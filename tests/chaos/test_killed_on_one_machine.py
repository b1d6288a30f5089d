"""Programs that are killed again and again on one machine give what plain Spark gives."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chaos.driver_process import DRIVER_BLOWS
from tests.chaos.episode import Outcome
from tests.chaos.moments import moment_in, random_moments
from tests.chaos.programs import PROGRAMS, STREAM_PROGRAMS, SUITE, Program

# All blows are among its moments, and what a sink and a vertex do. The soak test has every sight.
SEED = 5222
KILLS = 2
pytestmark = pytest.mark.timeout(1200)


def test_rows_are_there_once_when_a_driver_is_killed_in_each_job(
    play: Callable[..., Outcome],
) -> None:
    chance = random.Random(f"{SEED} {SUITE.name}")
    jobs = range(len(SUITE.jobs))
    moments = tuple(moment_in(SUITE, job, chance, DRIVER_BLOWS) for job in jobs)
    assert play(SUITE, moments, chance).kills == len(moments)


@pytest.mark.soak
@pytest.mark.parametrize("program", (*PROGRAMS, *STREAM_PROGRAMS), ids=lambda program: program.name)
def test_rows_are_there_once_however_often_a_driver_is_killed(
    play: Callable[..., Outcome], program: Program
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    moments = random_moments(program, KILLS, chance, DRIVER_BLOWS)
    assert play(program, moments, chance).kills == KILLS
