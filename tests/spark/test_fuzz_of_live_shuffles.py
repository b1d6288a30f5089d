"""Cases of `make fuzz`, with shuffles of earlier queries reused and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.classes import CLASSES, case
from tests.fuzz.player import Player
from tests.fuzz.playing import assert_nothing, playing
from tests.fuzz.script import snippet


@pytest.fixture(scope="module")
def player(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays cases over the tables of generated plans."""
    with playing(spark, tmp_path_factory.mktemp("fuzz"), implicit=True) as player:
        yield player


# These reuse one.
REUSING = [("plans", 3), ("settings", 4), ("live-partitions", 2)]


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("name", "seed"),
    [*REUSING, *(pytest.param(name, 1, marks=pytest.mark.soak) for name in CLASSES)],
)
def test_a_case_of_each_class(player: Player, name: str, seed: int) -> None:
    script = case(name, seed)
    assert_nothing(player.play(script), snippet(script))
