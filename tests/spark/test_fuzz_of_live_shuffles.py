"""Cases of `make fuzz`, with shuffles of earlier queries reused and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.classes import CLASSES, case
from tests.fuzz.player import Player
from tests.fuzz.playing import playing
from tests.fuzz.script import snippet


@pytest.fixture(scope="module")
def player(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays cases over the tables of generated plans."""
    with playing(spark, tmp_path_factory.mktemp("fuzz"), implicit=True) as player:
        yield player


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.sampled(2)
def test_a_case_of_each_class(player: Player, name: str) -> None:
    script = case(name, 2)
    found = player.play(script)
    assert not found, f"{found[0].kind}, of `{found[0].step}`: {found[0].detail}\n{snippet(script)}"


def test_some_of_them_reused_shuffles(player: Player) -> None:
    live = player._env._implicit.live
    assert live is not None
    assert live.uses > 0
