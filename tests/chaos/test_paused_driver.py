"""A driver that was cut off and comes back when another one has taken over does no harm.

And the program that has ended then leaves nothing behind, and does all of it again when it is run
again.
"""

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


@pytest.mark.soak
def test_a_woken_driver_does_no_harm_and_the_program_that_has_ended_writes_again(
    start_episode: Callable[..., Episode],
) -> None:
    jobs = (CUSTOMERS, CUSTOMERS, PARTS)
    episode = start_episode(Program("paused", jobs))
    in_the_last_sink = Moment(len(jobs) - 1, Sight.SINK_WRITES, 0.0, Blow.ALL)
    with episode.watched():
        with episode.start() as first:
            assert episode.await_moment(first, in_the_last_sink), first.said()
            first.stop()
            assert not first.diary.has("end", len(jobs) - 1)
            with episode.start() as second:
                assert second.wait(SECONDS) == 0, second.said()
            first.wake()
            code = first.wait(SECONDS)
            assert code not in (None, 0), first.said()
            assert "StaleEpochError" in first.said()
        assert episode.listed_jobs() == []
        with episode.start() as again:
            assert again.wait(SECONDS) == 0, again.said()
        assert episode.listed_jobs() == []
        # What two runs come to.
        episode.program = Program("paused", jobs * 2)
    assert episode.outcome.is_good, episode.outcome
