"""Files that come after a driver was killed are not read by the job that was half done."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.driver_process import Blow
from tests.chaos.episode import Episode
from tests.chaos.moments import Moment, Sight
from tests.chaos.programs import Job, Program

SECONDS = 300
JOB = Job("q03", "orc", "error")
pytestmark = pytest.mark.timeout(1200)


@pytest.mark.soak
def test_a_half_done_job_reads_what_it_began_with(
    start_episode: Callable[..., Episode], tpch: Path, tmp_path: Path
) -> None:
    growing = tmp_path / "growing"
    shutil.copytree(tpch, growing)
    episode = start_episode(Program("grows", (JOB,)), data=growing, slowness=0.3)
    with episode.watched():
        with episode.start() as first:
            assert episode.kill(first, Moment(0, Sight.VERTEX_KEPT, 0.2, Blow.ALL)), first.said()
            assert not first.diary.has("end")
        source = growing / "lineitem.parquet"
        shutil.copy(source / "part-0.parquet", source / "part-6.parquet")
        with episode.start() as second:
            assert second.wait(SECONDS) == 0, second.said()
    assert episode.outcome.is_good, episode.outcome
