"""Data, references and places that the tests share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos import data
from tests.chaos.episode import Episode, Outcome
from tests.chaos.moments import Moment
from tests.chaos.places import OneMachine, Place, TwoWorkers
from tests.chaos.programs import Program
from tests.chaos.references import References
from tests.harness.errors import NamespacesUnavailableError
from tests.harness.local_cluster import LocalCluster

SCALE = 0.01
StartEpisode = Callable[..., Episode]
Play = Callable[..., Outcome]


@pytest.fixture(scope="session")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the programs read."""
    return data.prepare(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="session")
def one_machine(tmp_path_factory: pytest.TempPathFactory) -> OneMachine:
    """This machine."""
    return OneMachine(tmp_path_factory.mktemp("one-machine"))


@pytest.fixture(scope="session")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWorkers]:
    """A cluster."""
    try:
        with LocalCluster(tmp_path_factory.mktemp("two-workers")) as cluster:
            yield TwoWorkers(cluster)
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def references(
    tmp_path_factory: pytest.TempPathFactory,
    tpch: Path,
    one_machine: OneMachine,
    spark: SparkSession,
) -> References:
    """What plain Spark gives."""
    return References(tmp_path_factory.mktemp("references"), tpch, one_machine, spark)


@pytest.fixture
def start_episode(
    tmp_path: Path, tpch: Path, one_machine: OneMachine, references: References
) -> StartEpisode:
    """Makes an episode: `start_episode(program, place=…, slowness=…)`."""

    def start(
        program: Program,
        place: Place = one_machine,
        data: Path = tpch,
        slowness: float = 0.0,
    ) -> Episode:
        references.compute((program,))
        return Episode(program, tmp_path, data, references, place, slowness=slowness)

    return start


@pytest.fixture
def play(start_episode: StartEpisode) -> Play:
    """Kills a program at moments, and sees to it that nothing is wrong in the end."""

    def played(
        program: Program,
        moments: tuple[Moment, ...],
        chance: random.Random,
        place: Place | None = None,
    ) -> Outcome:
        episode = start_episode(program) if place is None else start_episode(program, place)
        outcome = episode.play(moments, chance)
        shown = "\n".join(map(str, (*moments, *outcome.complaints)))
        assert outcome.is_good, f"{outcome}\n{shown}"
        return outcome

    return played
