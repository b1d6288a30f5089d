"""Programs that are killed again and again on one machine give what plain Spark gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.episode import Outcome
from tests.chaos.moments import random_moments
from tests.chaos.programs import PROGRAMS, STREAM_PROGRAMS, Program

SEED = 225  # All sights and blows are among its moments.
pytestmark = pytest.mark.timeout(1200)


# The others are for `make test ARGS="-m soak"`: they take longer than the suite may.
_IN_THE_SUITE = frozenset({"brands"})


def _episodes() -> list[Any]:
    kills = zip((*PROGRAMS, *STREAM_PROGRAMS), (1, 2, 1, 2, 1, 1), strict=True)
    return [
        pytest.param(
            program,
            count,
            id=f"{program.name}-{count}",
            marks=() if program.name in _IN_THE_SUITE else (pytest.mark.soak,),
        )
        for program, count in kills
    ]


@pytest.mark.parametrize(("program", "kills"), _episodes())
def test_rows_are_there_once_however_often_a_driver_is_killed(
    play: Callable[..., Outcome], program: Program, kills: int
) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    outcome = play(program, random_moments(program, kills, chance), chance)
    assert outcome.kills == kills
