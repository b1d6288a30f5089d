"""A program that has ended leaves nothing behind, and does all of it again when it is run again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.episode import Episode
from tests.chaos.programs import Job, Program

SECONDS = 300
pytestmark = pytest.mark.timeout(1200)
JOB = Job("q13", "csv", "append")


def test_a_program_that_has_ended_writes_again_when_it_is_run_again(
    start_episode: Callable[..., Episode],
) -> None:
    episode = start_episode(Program("again", (JOB, JOB)))
    with episode.watched():
        for _ in range(2):
            with episode.start() as driver:
                assert driver.wait(SECONDS) == 0, driver.said()
            assert episode.listed_jobs() == []
        # What two runs come to.
        episode.program = Program("again", (JOB,) * 4)
    assert episode.outcome.is_good, episode.outcome
