"""Programs that are killed again and again on one machine give what plain Spark gives."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.driver_process import DRIVER_BLOWS, Blow
from tests.chaos.episode import Episode, Outcome
from tests.chaos.moments import Moment, Sight, moment_in, random_moments
from tests.chaos.programs import PROGRAMS, STREAM_PROGRAMS, SUITE, Job, Program

SEED = 5222
SECONDS = 300
# A table's sink, and a stream's.
SHORT = Program("a kill of each sink", (SUITE.jobs[0], SUITE.jobs[2]))
KINDS = (
    Moment(0, Sight.VERTEX_KEPT, 0.1, Blow.ALL),
    Moment(1, Sight.SINK_WRITES, 0.0, Blow.JVM),
)
pytestmark = pytest.mark.timeout(1200)
Play = Callable[..., Outcome]


def test_rows_are_there_once_when_a_driver_and_then_its_jvm_is_killed(play: Play) -> None:
    assert play(SHORT, KINDS, random.Random(SEED)).kills == len(KINDS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [SEED, 7, 11])
def test_rows_are_there_once_when_a_driver_is_killed_in_each_job(play: Play, seed: int) -> None:
    chance = random.Random(f"{seed} {SUITE.name}")
    jobs = range(len(SUITE.jobs))
    moments = tuple(moment_in(SUITE, job, chance, DRIVER_BLOWS) for job in jobs)
    # One that ends before its moment isn't killed.
    assert play(SUITE, moments, chance).kills >= (len(moments) if seed == SEED else 1)


@pytest.mark.soak
@pytest.mark.parametrize("program", (*PROGRAMS, *STREAM_PROGRAMS), ids=lambda program: program.name)
def test_rows_are_there_once_however_often_a_driver_is_killed(play: Play, program: Program) -> None:
    chance = random.Random(f"{SEED} {program.name}")
    assert play(program, random_moments(program, 2, chance, DRIVER_BLOWS), chance).kills == 2


@pytest.mark.soak
def test_a_woken_driver_does_no_harm_and_the_program_that_has_ended_writes_again(
    start_episode: Callable[..., Episode],
) -> None:
    customers = Job("q13", "csv", "append")
    jobs = (customers, customers, Job("q16", "parquet", "append", ("p_size",)))
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
            assert code not in (None, 0) and "StaleEpochError" in first.said(), first.said()
        assert episode.listed_jobs() == []
        with episode.start() as again:
            assert again.wait(SECONDS) == 0, again.said()
        assert episode.listed_jobs() == []
        # What two runs come to.
        episode.program = Program("paused", jobs * 2)
    assert episode.outcome.is_good, episode.outcome


@pytest.mark.soak
def test_a_half_done_job_reads_what_it_began_with(
    start_episode: Callable[..., Episode], tpch: Path, tmp_path: Path
) -> None:
    """Files that come after a driver was killed are not read by the job that was half done."""
    growing = tmp_path / "growing"
    shutil.copytree(tpch, growing)
    program = Program("grows", (Job("q03", "orc", "error"),))
    episode = start_episode(program, data=growing, slowness=0.3)
    with episode.watched():
        with episode.start() as first:
            assert episode.kill(first, Moment(0, Sight.VERTEX_KEPT, 0.2, Blow.ALL)), first.said()
            assert not first.diary.has("end")
        source = growing / "lineitem.parquet"
        shutil.copy(source / "part-0.parquet", source / "part-6.parquet")
        with episode.start() as second:
            assert second.wait(SECONDS) == 0, second.said()
    assert episode.outcome.is_good, episode.outcome
