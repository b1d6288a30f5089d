"""A driver that was cut off and comes back when another one has taken over does no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.driver_process import Blow
from tests.chaos.episode import Episode
from tests.chaos.moments import Moment, Sight
from tests.chaos.programs import Job, Program

SECONDS = 300
pytestmark = pytest.mark.timeout(1200)
CUSTOMERS = Job("q13", "csv", "append")
PARTS = Job("q16", "parquet", "append", ("p_size",))


def test_a_woken_driver_does_no_harm_and_says_why_it_ends(
    start_episode: Callable[..., Episode],
) -> None:
    episode = start_episode(Program("paused", (CUSTOMERS, PARTS)))
    in_the_second_sink = Moment(1, Sight.SINK_WRITES, 0.0, Blow.ALL)
    with episode.watched(), episode.start() as first:
        assert episode.await_moment(first, in_the_second_sink), first.said()
        first.stop()
        assert not first.diary.has("end", 1)
        with episode.start() as second:
            assert second.wait(SECONDS) == 0, second.said()
        first.wake()
        code = first.wait(SECONDS)
        assert code not in (None, 0), first.said()
        assert "StaleEpochError" in first.said()
    assert episode.outcome.is_good, episode.outcome
