"""Cases of `make fuzz`, with shuffles of earlier queries reused and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.classes import CLASSES, case
from tests.fuzz.player import Player
from tests.fuzz.playing import playing
from tests.fuzz.script import Script, snippet


@pytest.fixture(scope="module")
def player(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays cases over the tables of generated plans."""
    with playing(spark, tmp_path_factory.mktemp("fuzz"), implicit=True) as player:
        yield player


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.sampled(2)
def test_a_case_of_each_class(player: Player, name: str) -> None:
    assert_nothing(player, case(name, 2))


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("name", "seed"), [("plans", 3), ("python-steps", 7), ("settings", 4)])
def test_a_case_that_reuses_a_shuffle(player: Player, name: str, seed: int) -> None:
    live = player._env._implicit.live
    assert live is not None
    before = live.uses
    assert_nothing(player, case(name, seed))
    assert live.uses > before


def assert_nothing(player: Player, script: Script) -> None:
    """Nothing is wrong in a case; or the test says what is, and with which program."""
    found = player.play(script)
    assert not found, f"{found[0].kind}, of `{found[0].step}`: {found[0].detail}\n{snippet(script)}"
