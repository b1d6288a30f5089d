"""Programs that are killed again and again on one machine give what plain Spark gives."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chaos.episode import Outcome
from tests.chaos.moments import random_moments
from tests.chaos.programs import PROGRAMS, STREAM_PROGRAMS, Program

SEED = 225  # All sights and blows are among its moments.
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.parametrize(
    ("program", "kills"),
    list(zip((*PROGRAMS, *STREAM_PROGRAMS), (2, 2, 1, 2, 1, 1), strict=True)),
    ids=lambda value: value.name if isinstance(value, Program) else str(value),
)
def test_rows_are_there_once_however_often_a_driver_is_killed(
    play: Callable[..., Outcome], program: Program, kills: int
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    outcome = play(program, random_moments(program, kills, chance), chance)
    assert outcome.kills == kills
